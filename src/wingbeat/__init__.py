"""EAGLE-3 speculative decoding that is faster than plain decoding, and that can say why when it is not.

The public names are `LLM`, `SamplingParams` and `errors`. The engine (and with it torch) is imported when one of the
first two is used, so that commands which only read records start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wingbeat import errors

if TYPE_CHECKING:
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.request import SamplingParams

__all__ = ["LLM", "SamplingParams", "errors"]

_HOMES = {"LLM": "wingbeat.engine.llm", "SamplingParams": "wingbeat.engine.request"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wingbeat' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
