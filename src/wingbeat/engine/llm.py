"""`LLM`: a model, its tokenizer and an engine, ready to generate."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from wingbeat.engine.drafters.base import Drafter
from wingbeat.engine.drafters.eagle3 import Eagle3Drafter
from wingbeat.engine.drafters.ngram import NgramDrafter
from wingbeat.engine.drafters.none import NoDrafter
from wingbeat.engine.engine import Engine
from wingbeat.engine.kv_cache import KVCache
from wingbeat.engine.observe import Observer, Unobserved
from wingbeat.engine.policy import AutoPolicy
from wingbeat.engine.request import Completion, Request, SamplingParams
from wingbeat.engine.settings import AUTO_STEPS, DraftSettings, Limits
from wingbeat.engine.tokenizer import Prompt, Tokenizer
from wingbeat.errors import UnsupportedError, UsageError
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs, pack, to_int8
from wingbeat.model.native import NativeHead, NativeTarget, to_native
from wingbeat.model.target import Target
from wingbeat.model.weights import load_head, load_target, locate_model

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
DEFAULT_CONTEXT = 4096
SHIPPED_HEAD = Path(__file__).parents[1] / "heads" / "smollm2-135m-instruct"


class LLM:
    """Generates text with a target and, if it helps, a drafter.

    model: Hugging Face directory, hub id or .gguf file; None is the default model. head: an EAGLE-3 checkpoint;
    None is the head shipped for the default model, if there is one. draft: how to draft; None is as much as pays, with
    EAGLE-3 where there is a head, else n-gram. dtype: bfloat16, float32 or float16. weights:
    "int8" rounds them, None leaves them in dtype. `requested` and `effective` say what was asked for and what came of
    it. Raises the errors of `wingbeat.errors`.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        head: str | None = None,
        draft: DraftSettings | None = None,
        dtype: str = "bfloat16",
        weights: str | None = None,
        device: str = "cpu",
        limits: Limits = Limits(),
    ) -> None:
        if dtype not in DTYPES:
            raise UsageError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            raise UsageError("torch finds no CUDA device here; use device cpu, or a torch and a driver with CUDA")
        if weights not in (None, "int8", dtype):
            raise UsageError(f"weights cannot be {weights} where dtype is {dtype}; choose int8 or {dtype}")
        self.requested = {
            "model": model, "head": head, "draft": draft and asdict(draft), "dtype": dtype, "weights": weights,
            "device": device, "limits": asdict(limits),
        }
        path = locate_model(model)
        self.model_path, self.limits = path, limits
        self.head_path = self._find_head(model, head)
        target = load_target(path, DTYPES[dtype], device)
        head_module = load_head(self.head_path, target) if self.head_path else None
        self.target, self.head, self.eager_because = _quickest(
            target, head_module, weights == "int8", limits.eager
        )
        self.weights = f"int8, held as {dtype}" if weights == "int8" and self.eager_because else weights or dtype
        self.tokenizer = Tokenizer(path)
        self.context = self._resolve_context(limits)
        self._eager: Target | None = None
        self._engines: dict[tuple[DraftSettings, Limits], Engine] = {}  # kept with what they captured
        self._policies: dict[DraftSettings, AutoPolicy] = {}  # kept, so that what was learnt is not lost
        self.use(draft or DraftSettings(drafter="eagle3" if self.head else "ngram", steps=AUTO_STEPS, auto=True))

    @staticmethod
    def _find_head(model: str | None, head: str | None) -> Path | None:
        if head is not None:
            return Path(head)
        return SHIPPED_HEAD if model is None and SHIPPED_HEAD.exists() else None

    def _resolve_context(self, limits: Limits) -> int:
        known = self.target.config.max_position
        if limits.context and limits.context > known:
            raise UsageError(f"a context of {limits.context} exceeds the model's {known}; lower it")
        return limits.context or min(known, DEFAULT_CONTEXT)

    @property
    def effective(self) -> dict[str, object]:
        """The configuration in force."""
        step = self.engine.step_forward
        return {
            "model": str(self.model_path), "head": self.head_path and str(self.head_path),
            "draft": asdict(self.draft) | {"nodes": self.engine.drafter.num_nodes},
            "dtype": str(self.target.dtype).removeprefix("torch."), "weights": self.weights,
            "head_weights": "int8" if isinstance(self.head, NativeHead) else self.weights,
            "device": str(self.target.device),
            "limits": asdict(self.limits) | {"context": self.context}, "path": step.path,
            "eager_because": (step.because or self.eager_because) if step.path == "eager" else None,
            "threads": torch.get_num_threads(),
        }

    def use(self, draft: DraftSettings) -> None:
        """Switches the drafter; nothing may be running. Model and head stay loaded."""
        if draft.drafter == "eagle3" and self.head is None:
            raise UsageError("drafter eagle3 needs a draft head, and none ships for this model; name one with head")
        self.draft = draft
        if (draft, self.limits) in self._engines:
            self.engine = self._engines[draft, self.limits]
            return
        drafter = self._make_drafter(draft)
        if draft.auto and draft not in self._policies:
            self._policies[draft] = AutoPolicy(draft.steps, drafter.heeds_floor)
        policy, extend = self._policies.get(draft), self._verifier() if draft.extend else None
        self.engine = Engine(self.target, drafter, self.limits, self.context, policy, extend)
        if self.engine.step_forward.captures:
            self._engines[draft, self.limits] = self.engine

    def _verifier(self) -> Target:
        """An eager target for verify alone; loaded once where the engine's own is another."""
        if isinstance(self.target, Target):
            return self.target
        if self.weights == "int8":
            raise UsageError("verify cannot run as prefill does with int8 weights; leave out weights, or extend")
        if self._eager is None:
            self._eager = load_target(self.model_path, self.target.dtype, str(self.target.device))
            self._eager.pack()
        return self._eager

    def _make_drafter(self, draft: DraftSettings) -> Drafter:
        if draft.drafter == "eagle3" and self.head is not None:
            return Eagle3Drafter(self.head, draft, self.limits, self.context)
        return NgramDrafter(draft.steps) if draft.drafter == "ngram" else NoDrafter()

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] = SamplingParams(),
        raw: bool = False,
        observer: Observer | None = None,
    ) -> list[Completion]:
        """Completes every prompt, in order.

        prompts: text, messages or token ids each. params: one for all or one each. raw: text is taken as it is,
        without the chat template. Raises PromptError and CapacityError before anything runs.
        """
        each = [params] * len(prompts) if isinstance(params, SamplingParams) else list(params)
        if len(each) != len(prompts):
            raise UsageError(f"{len(prompts)} prompts but {len(each)} sampling parameters; give one or as many")
        requests = [self._request(prompt, one, raw) for prompt, one in zip(prompts, each, strict=True)]
        self.engine.observer = observer or Unobserved()
        try:
            for request in requests:
                self.engine.submit(request)
            while self.engine.has_work:
                self.engine.step()
        finally:
            for request in requests:
                self.engine.abort(request)
            self.engine.observer = Unobserved()
        return [request.completion() for request in requests]

    def stream(self, prompt: Prompt, params: SamplingParams = SamplingParams(), raw: bool = False) -> Iterator[str]:
        """Yields the text as it is committed. Closing the iterator ends the request."""
        request = self._request(prompt, params, raw)
        self.engine.submit(request)
        shown = 0
        try:
            while not request.finish:
                self.engine.step()
                text = request.text()
                ready = len(text) if request.finish else _settled(text, params.stop)
                if ready > shown:
                    yield text[shown:ready]
                    shown = ready
        finally:
            self.engine.abort(request)

    @torch.inference_mode()
    def logits(self, tokens: Sequence[int]) -> Tensor:
        """What the target makes of one forward over all of `tokens`: the next token's logits, [V] float32."""
        like = self.target.embed_tokens.weight
        config, size = self.target.config, len(tokens)
        cache = KVCache(config.num_layers, (1, config.num_kv_heads, size, config.head_dim), like).rows(0, 1)
        starts = torch.zeros(1, dtype=torch.int64, device=like.device)
        inputs = ForwardInputs.in_a_row(torch.tensor([list(tokens)], device=like.device), starts, size)
        return self.target.logits(self.target(inputs, cache).hidden[0, -1]).float()

    def _request(self, prompt: Prompt, params: SamplingParams, raw: bool) -> Request:
        tokens = self.tokenizer.encode(prompt, raw)
        return Request(tokens, params, self.tokenizer.end_ids, self.tokenizer.decode)


def _quickest(
    target: Target, head: DraftHead | None, int8: bool, eager: bool
) -> tuple[Target | NativeTarget, DraftHead | NativeHead | None, str | None]:
    """Target and head in the quickest form that this device has, and why that is eager if it is."""
    if eager:
        return *_packed(target, head, int8), "it was asked for"
    try:
        return *to_native(target, head, int8, int8_head=True), None  # what is only proposed may be rounded
    except UnsupportedError as error:
        if int8 or (target.device.type == "cpu" and target.dtype == torch.bfloat16):
            held = f"; int8 weights are held as {target.dtype}" if int8 else ""
            warnings.warn(f"forwards are eager, and slower: {error}{held}", stacklevel=3)
        return *_packed(target, head, int8), str(error)


def _packed(target: Target, head: DraftHead | None, int8: bool) -> tuple[Target, DraftHead | None]:
    """Both for eager forwards, rounded first if `int8`."""
    if int8:
        target.to_int8()
    target.pack()
    if head and int8:
        to_int8(head)
    if head:
        pack(head)
    return target, head


def _settled(text: str, stops: Sequence[str]) -> int:
    """How much of the text cannot change any more: no half character, no beginning of a stop string at its end."""
    end = len(text.rstrip("\ufffd"))
    for stop in stops:
        held = next((size for size in range(len(stop) - 1, 0, -1) if text[:end].endswith(stop[:size])), 0)
        end = min(end, len(text) - held) if held else end
    return end
