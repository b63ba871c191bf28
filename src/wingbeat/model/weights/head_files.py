"""Loads a draft head of any of the three formats."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from wingbeat.errors import MismatchError
from wingbeat.model.config import HeadConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.target import Target
from wingbeat.model.weights.assemble import build_empty, fill
from wingbeat.model.weights.files import StoredTensors, open_tensors
from wingbeat.model.weights.head_config import read_head_config
from wingbeat.model.weights.head_names import own_names

EMBEDDINGS = "embed_tokens.weight"


def load_head(path: Path, target: Target) -> DraftHead:
    """The draft head in directory `path`, in the target's type and on its device, for inference only.

    Without embeddings of its own it shares the target's. Raises NotFoundError, CorruptError, UnsupportedError,
    NonFiniteError, and MismatchError (tensors, d2t or t2d contradict the configuration; another target's head).
    """
    config = read_head_config(path, target.config)
    tensors = own_names(open_tensors(path), path)
    mapping = draft_mapping(tensors, config, path)
    head = build_empty(lambda: DraftHead(config))
    if EMBEDDINGS not in tensors:
        if config.hidden_size != target.config.hidden_size:
            raise MismatchError(
                f"{path} has no embeddings of its own and cannot share the target's: the head's hidden size is "
                f"{config.hidden_size}, the target's is {target.config.hidden_size}"
            )
        head.embed_tokens.weight = target.embed_tokens.weight
    weights = {name: stored for name, stored in tensors.items() if name not in ("d2t", "t2d")}
    fill(head, config, weights, target.dtype, target.device)
    head.draft_to_target = mapping
    return head.to(target.device).eval()


def draft_mapping(tensors: StoredTensors, config: HeadConfig, path: Path) -> Tensor:
    """The target's id of each draft word, [Vd] int64, from the offsets d2t, checked against the mask t2d.

    Files store `d2t[i] = target id - i`, the words in increasing order. A head with the whole vocabulary may
    leave d2t out. Raises MismatchError.
    """
    size = config.draft_vocab_size
    if "d2t" not in tensors:
        if size != config.vocab_size:
            raise MismatchError(f"{path} lacks d2t, which a draft vocabulary of {size} of {config.vocab_size} needs")
        return torch.arange(size)
    offsets = tensors["d2t"].read()
    if tuple(offsets.shape) != (size,) or offsets.is_floating_point() or offsets.dtype == torch.bool:
        raise MismatchError(
            f"d2t in {path}: expected {size} whole numbers by the configuration, "
            f"found shape {list(offsets.shape)}, {offsets.dtype}"
        )
    ids = offsets.long() + torch.arange(size)
    if ids[0] < 0 or ids[-1] >= config.vocab_size or bool((ids.diff() <= 0).any()):
        raise MismatchError(
            f"d2t in {path} does not name {size} increasing ids below {config.vocab_size}; are they offsets?"
        )
    if "t2d" in tensors:
        _check_mask(tensors["t2d"].read(), ids, config, path)
    return ids


def _check_mask(mask: Tensor, ids: Tensor, config: HeadConfig, path: Path) -> None:
    if tuple(mask.shape) != (config.vocab_size,):
        raise MismatchError(f"t2d in {path}: expected shape [{config.vocab_size}], found {list(mask.shape)}")
    if not torch.equal(mask.nonzero().flatten(), ids):
        raise MismatchError(f"t2d and d2t in {path} disagree about which of the target's words the head can draft")
