"""What runs on the other machine: the groups of a fingerprint, a line of JSON for each as soon as it is there."""

from __future__ import annotations

import json
import sys
from typing import Any

from wingbeat.probe import to_json
from wingbeat.probe.collect import Request, groups, loaded
from wingbeat.probe.load import BusyError, Load
from wingbeat.probe.reading import Readings

MARK = "wingbeat-fingerprint "
END = "end"


def main(request: dict[str, Any]) -> None:
    """Prints every group, and then that all were printed. request: the fields of Request and of Load ("load")."""
    load = request.pop("load", None)
    asked = Request(**request)
    for name, readings in groups(asked):
        _say(name, readings)
    if load is not None:
        try:
            _say("load", loaded(asked, Load(tuple(load["command"]), load["seconds"], load["force"])))
        except BusyError as busy:
            _line({"busy": str(busy)})
    _line({"group": END})


def _say(name: str, readings: Readings) -> None:
    _line({"group": name, "fields": to_json(readings)})


def _line(content: dict[str, Any]) -> None:
    sys.stdout.write(MARK + json.dumps(content) + "\n")
    sys.stdout.flush()
