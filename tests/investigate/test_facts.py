"""What counts as changed, the same or unknown between two sides, from their fingerprints, counters and settings."""

import pytest
from scenarios import noted

from wingbeat.investigate import facts
from wingbeat.investigate.compare import compare
from wingbeat.investigate.side import side
from wingbeat.measure.record import Figure, Launch, RunRecord
from wingbeat.probe.redact import HIDDEN

FIGURES = {"eagle3": {"tokens_per_second": Figure(90.0)}}


def read(fields):
    return {name: {"state": "value", "value": value} for name, value in fields.items()}


def run(*launches, **requested):
    """A run of launches, each with the fields at its start and at its end (None: not taken)."""
    made = [
        Launch(fingerprint=read(start or {}), fingerprint_after=read(end or {}), figures=FIGURES, finished=True)
        for start, end in launches
    ]
    return side("run", RunRecord("bench", "", requested, {}, ["eagle3"], made, source="wingbeat"), "eagle3")


def known(first, second):
    return facts.gather(compare(first, second))


def test_readings_of_both_ends_are_of_one_launch():
    broken, whole = ({"uptime": 1.0}, None), ({"uptime": 50.0}, {"uptime": 90.0})
    one = run(broken, whole)
    assert [facts.readings(one, after)["uptime"].value for after in (False, True)] == [50.0, 90.0]
    beside = run(broken, (None, {"uptime": 90.0}))
    assert [facts.readings(beside, after)["uptime"].value for after in (False, True)] == [1.0, 90.0]
    assert facts.readings(side("noted", noted("noted", eagle3={"tokens_per_second": 90}), "eagle3")) == {}


def test_drift_is_seen_in_every_launch_and_from_one_to_the_next():
    start = {"boot_id": "b1", "cpu.governor": "performance", "gpu.0.power.limit": 700, "gpu.0.ecc.uncorrected": 0}
    capped = {**start, "gpu.0.power.limit": 350}
    faulty = {**capped, "gpu.0.ecc.uncorrected": 8, "gpu.0.slowed.thermal": 1}
    found = facts.drift(run((start, start), (capped, capped), (capped, faulty)))
    assert [change.name for change in found] == ["gpu.0.power.limit", "gpu.0.ecc.uncorrected"]
    assert found[1].grew == 8
    assert facts.drift(run((start, start), (start, start))) == []


def test_counters_of_later_launches_count_too():
    def ends(grown):
        return [({"uptime": 0.0, "kernel.errors": 3}, {"uptime": 60.0, "kernel.errors": 3 + by}) for by in grown]

    still = known(run(*ends((0, 0))), run(*ends((0, 0))))["kernel.errors"]
    assert still.state == "same"
    found = known(run(*ends((0, 0))), run(*ends((0, 2))))["kernel.errors"]
    assert (found.state, found.after) == ("changed", "+0.0166667/s")
    once = known(run(({"kernel.errors": 3}, None)), run(({"kernel.errors": 3}, None)))["kernel.errors"]
    assert once.state == "unknown"


def test_devices_that_count_checks_are_compared_by_their_share():
    def ends(held):
        start = {"uptime": 0.0, "gpu.0.slowed.thermal": 0, "gpu.0.slowed.checks": 0}
        return {**start}, {"uptime": 100.0, "gpu.0.slowed.thermal": held, "gpu.0.slowed.checks": 4000}

    found = known(run(ends(0)), run(ends(1000)))["gpu.0.slowed.thermal"]
    assert (found.state, found.after) == ("changed", "+250000/s")


@pytest.mark.parametrize(
    ("name", "before", "after", "state"),
    [
        ("cache.triton", {"files": 9}, {"files": 11}, "unknown"),
        ("cache.triton", {"files": 9}, {"files": 9}, "same"),
        ("gpu.0.processes", [], [{"pid": 1}], "unknown"),
        ("pressure.cpu", 1.0, 1.5, "same"),
        ("pressure.cpu", 1.0, 40.0, "changed"),
        ("cpu.frequency", {"middle": 2000.0}, {"middle": 2001.0}, "same"),
    ],
)
def test_what_always_moves_is_the_same_only_by_its_figure(name, before, after, state):
    assert known(run(({name: before}, {})), run(({name: after}, {})))[name].state == state


def test_readings_under_another_load_are_not_known():
    def loaded(kind):
        clock = {"min": 1800, "median": 1800, "max": 1800, "n": 8}
        return run(({"load.samples": 8, "load.kind": kind, "load.gpu.0.clock.sm": clock}, {}))

    found = known(loaded("products"), loaded("a server"))["load.gpu.0.clock.sm"]
    assert (found.state, "1800 under products" in found.reason) == ("unknown", True)
    assert known(loaded("products"), loaded("products"))["load.gpu.0.clock.sm"].state == "same"


def test_what_is_kept_secret_on_both_sides_is_not_the_same():
    def server(key, **more):
        fields = {"process.argv": ["serve", "--api-key", key, "--seed", "1"]}
        return run((fields, {}), token_map=f"/models/{key}", steps=2, **more)

    found = known(server(HIDDEN), server(HIDDEN))
    for name in ("setting.api_key", "setting.token_map"):
        assert (found[name].state, found[name].reason) == ("unknown", "kept secret on both sides")
    assert found["setting.steps"].state == found["setting.seed"].state == "same"
    assert known(server("a"), server("b"))["setting.token_map"].state == "changed"
