"""The structures of `forward.c`, field by field."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_double, c_int64, c_void_p
from typing import Any


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class CLinear(Structure):
    """weight: packed, in bfloat16 or int8; bias: may be null."""

    _fields_ = _fields(c_void_p, "weight bias") + _fields(c_int64, "rows cols is_int8")


class CLayer(Structure):
    """q_norm and k_norm may be null."""

    _fields_ = _fields(CLinear, "qkv o gate up down") + _fields(c_void_p, "input_norm post_norm q_norm k_norm")


class CModel(Structure):
    """A target or a head."""

    _fields_ = (
        _fields(c_int64, "num_layers hidden inter heads kv_heads head_dim threads is_head norm_before_residual")
        + _fields(c_double, "eps")
        + _fields(c_void_p, "embed final_norm hidden_norm")
        + _fields(POINTER(CLayer), "layers")
    )


class CBlock(Structure):
    """One forward's inputs and caches."""

    _fields_ = (
        _fields(c_int64, "rows width length")
        + _fields(c_void_p, "tokens positions starts mask cos sin")
        + _fields(POINTER(c_void_p), "keys values")
        + _fields(c_int64, "row_stride head_stride")
        + _fields(POINTER(c_int64), "taps")
        + _fields(c_int64, "num_taps")
    )
