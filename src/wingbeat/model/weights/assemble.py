"""Fills a module built on the meta device from stored tensors: strict, one parameter at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from wingbeat.errors import MismatchError, NonFiniteError
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.weights.files import Stored, StoredTensors

M = TypeVar("M", bound=nn.Module)
Parts = list[tuple[str, tuple[int, ...]]]


def split_parts(name: str, shape: tuple[int, ...], config: TargetConfig | HeadConfig) -> Parts:
    """The tensors, with their shapes, that files store for one parameter: q, k, v for qkv_proj; gate, up."""
    rest = shape[1:]
    if "qkv_proj" in name:
        rows = [config.num_heads * config.head_dim, *[config.num_kv_heads * config.head_dim] * 2]
        parts = zip(("q_proj", "k_proj", "v_proj"), rows, strict=True)
        return [(name.replace("qkv_proj", part), (count, *rest)) for part, count in parts]
    if "gate_up_proj" in name:
        half = (config.intermediate_size, *rest)
        return [(name.replace("gate_up_proj", part), half) for part in ("gate_proj", "up_proj")]
    return [(name, shape)]


def build_empty(make: Callable[[], M]) -> M:
    """A module whose parameters are on the meta device: no memory, and no time spent on initial values."""
    with torch.device("meta"), _Uninitialised():
        return make()


class _Uninitialised(TorchFunctionMode):
    """Skips random initial values: on the meta device, the first one imports torch's compiler, for a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):  # of nn.init or of Tensor
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def fill(module: nn.Module, config: TargetConfig | HeadConfig, stored: StoredTensors, dtype: torch.dtype,
         device: str | torch.device) -> None:
    """Gives every parameter that is still on the meta device its value from `stored`, as `dtype` on `device`.

    Raises MismatchError (missing, unexpected or wrongly shaped tensor; all are checked before any is read) and
    NonFiniteError (NaN or infinity in a tensor, or a value that `dtype` cannot hold).
    """
    wanted = {
        name: split_parts(name, tuple(parameter.shape), config)
        for name, parameter in module.named_parameters() if parameter.is_meta
    }
    check_names([part for parts in wanted.values() for part in parts], stored)
    for name, parts in wanted.items():
        owner, _, attribute = name.rpartition(".")
        pieces = [read_finite(part, stored[part], dtype) for part, _ in parts]
        value = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
        parameter = nn.Parameter(value.to(device), requires_grad=False)
        setattr(module.get_submodule(owner), attribute, parameter)


def check_names(wanted: Parts, stored: StoredTensors) -> None:
    """Raises MismatchError unless `stored` holds exactly the wanted names in the wanted shapes."""
    names = {name for name, _ in wanted}
    file = _place(stored.values())
    if missing := sorted(names - stored.keys()):
        raise MismatchError(f"{file} lacks {_some(missing)}, which its configuration asks for")
    if unexpected := sorted(stored.keys() - names):
        raise MismatchError(f"{file} holds {_some(unexpected)}, which its configuration does not ask for")
    for name, shape in wanted:
        if stored[name].shape != shape:
            raise MismatchError(
                f"{name} in {file}: expected shape {list(shape)} by the configuration, found {list(stored[name].shape)}"
            )


def read_finite(name: str, stored: Stored, dtype: torch.dtype) -> Tensor:
    """Reads one tensor as `dtype`, in memory of its own. Raises NonFiniteError."""
    raw = stored.read()
    value = raw.to(dtype, copy=True)
    if not is_finite(value):
        reason = f"a value that {dtype} cannot hold; load it as float32" if is_finite(raw) else "NaN or infinity"
        raise NonFiniteError(f"{name} in {stored.file} holds {reason}")
    return value


def is_finite(value: Tensor) -> bool:
    """Whether no element is NaN or infinite (one pass: both carry over to the extremes)."""
    if not value.numel():
        return True
    low, high = value.aminmax()
    return bool(torch.isfinite(low) and torch.isfinite(high))


def _place(stored: Iterable[Stored]) -> Path | str:
    files = sorted({entry.file for entry in stored})
    if not files:
        return "the checkpoint"
    return files[0] if len(files) == 1 else files[0].parent


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
