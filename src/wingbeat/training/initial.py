"""Where a new head starts from."""

from __future__ import annotations

import dataclasses
from typing import cast

import torch

from wingbeat.errors import UsageError
from wingbeat.model.config import HeadConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import randomise
from wingbeat.model.target import Layer, Target

KINDS = ("target", "random")


@torch.no_grad()
def new_head(target: Target, config: HeadConfig, draft_to_target: torch.Tensor, kind: str, seed: int) -> DraftHead:
    """A float32 head to train, on the target's device, with the target's embeddings (frozen).

    kind "random": small random weights. "target": final norm and output rows are the target's, `fc` passes the
    highest tap through, and the layer is a copy of the target's last one, whose input halves for the embedding start
    at zero: the head then begins in the target's own representation. Raises UsageError when the shapes forbid it.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown initialisation {kind!r}; known: {', '.join(KINDS)}")
    head = DraftHead(config).to(target.device)
    randomise(head, seed, std=0.02)
    head.draft_to_target = draft_to_target.to(target.device)
    head.embed_tokens.weight.copy_(target.embed_tokens.weight)
    for name, parameter in head.named_parameters():
        if "norm" in name:
            parameter.fill_(1.0)
    if kind == "target":
        _copy_from(head, target)
    return _trainable(head)


@torch.no_grad()
def continue_head(head: DraftHead, target: Target, draft_to_target: torch.Tensor) -> DraftHead:
    """A float32 copy of a trained head to train further, for the draft words `draft_to_target` [Vd].

    Output rows of words that it knew are kept; those of new words are the target's.
    """
    config = dataclasses.replace(head.config, draft_vocab_size=len(draft_to_target))
    ids = draft_to_target.to(target.device)
    output = target.output_weight
    rows = output.float()
    rows[head.draft_to_target] = head.lm_head.weight.float()
    further = DraftHead(config).to(target.device)
    state = {name: value.float() if value.is_floating_point() else value for name, value in head.state_dict().items()}
    further.load_state_dict(state | {"lm_head.weight": rows[ids], "draft_to_target": ids})
    return _trainable(further)


def _trainable(head: DraftHead) -> DraftHead:
    head.requires_grad_(True)
    head.embed_tokens.requires_grad_(False)
    return head


def _copy_from(head: DraftHead, target: Target) -> None:
    last = cast(Layer, target.layers[-1])
    size = target.config.hidden_size
    taken = last.self_attn.qkv_proj.weight
    given = head.self_attn.qkv_proj.weight
    same_mlp = head.mlp.gate_up_proj.weight.shape == last.mlp.gate_up_proj.weight.shape
    if given.shape != (len(taken), 2 * size) or not same_mlp:
        raise UsageError("a head of another shape than the target's layers cannot start from them; use --init random")
    output = target.output_weight
    head.lm_head.weight.copy_(output[head.draft_to_target])
    head.norm.weight.copy_(target.norm.weight)
    head.fc.weight.zero_()
    head.fc.weight[:, -size:].fill_diagonal_(1.0)
    given.zero_()
    given[:, size:].copy_(taken)
    head.hidden_norm.weight.copy_(last.input_layernorm.weight)
    head.self_attn.o_proj.weight.copy_(last.self_attn.o_proj.weight)
    head.post_attention_layernorm.weight.copy_(last.post_attention_layernorm.weight)
    head.mlp.load_state_dict(last.mlp.state_dict())
