"""Targets and draft heads whose forward is one C function, for bfloat16 on the CPU (see `forward.c`).

They stand in for `Target` and `DraftHead`: same calls, same shapes; hidden states and logits come in float32. Their
weights may be int8.
"""

from wingbeat.model.native.models import NativeHead, NativeTarget, to_native

__all__ = ["NativeHead", "NativeTarget", "to_native"]
