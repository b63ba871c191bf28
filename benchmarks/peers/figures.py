"""From raw times to claims: ratios within each unit, their median and quartiles, and what must hold.

A unit is one prompt (or one crowd of prompts at once) on every arm, so that all of a ratio was measured within seconds.
Speeds of single prompts are of the tokens after the first ones; of crowds, of everything, prompts included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from wingbeat.measure.stats import Spread, spread

PLAIN, NGRAM, EAGLE = "wingbeat plain", "wingbeat n-gram", "wingbeat EAGLE-3"
TIMED, FORWARDS = "wingbeat EAGLE-3, forwards timed", "wingbeat single forwards"
INT8, INT8_EAGLE = "wingbeat int8 plain", "wingbeat int8 EAGLE-3"
LLAMA, LLAMA_Q8, VLLM, VLLM_EAGLE = "llama.cpp bf16", "llama.cpp Q8_0", "vLLM plain", "vLLM EAGLE-3"
TOGETHER = "together"  # the set of units with many prompts at once
CHAIN = 4  # steps of the drafting that is measured: a step is a fourth of it, extending over the last tokens included
NO_SPEED = (TIMED, FORWARDS)  # arms whose speed is not to be looked at
GROUPS = ("wingbeat", "llama.cpp", "vLLM", "transformers")

Turn = Mapping[str, Any]
Unit = Mapping[str, Any]  # {"id", "set", "round", "turns": {label: Turn}}
Ratios = dict[str, list[float]]  # by set


@dataclass(frozen=True)
class Line:
    """Something that must hold. by_set: the mean of the sets' medians counts, not the median of all."""

    number: str
    name: str
    ratios: Ratios
    floor: float
    aim: float
    by_set: bool = False

    @property
    def is_cost(self) -> bool:
        """Whether less is better."""
        return self.aim < self.floor

    @property
    def spread(self) -> Spread | None:
        """None: not measured."""
        values = [ratio for ratios in self.ratios.values() for ratio in ratios]
        return spread(values) if values else None

    @property
    def value(self) -> float | None:
        """What is held against floor and aim."""
        around = self.spread
        if around is None or not self.by_set:
            return around and around.median
        return fmean(median(ratios) for ratios in self.ratios.values())

    @property
    def verdict(self) -> str:
        """One of "aim met", "floor met", "BELOW FLOOR", "not measured"."""
        if self.value is None:
            return "not measured"
        sign = -1 if self.is_cost else 1
        if sign * self.value >= sign * self.aim:
            return "aim met"
        return "floor met" if sign * self.value >= sign * self.floor else "BELOW FLOOR"


def speed(turn: Turn) -> float | None:
    """Tokens a second after the first ones; of a crowd, overall. None: too short to say."""
    if turn["decode_tokens"]:
        return float(turn["decode_tokens"] / turn["decode_seconds"])
    return overall(turn) if len(turn["starts"]) > 1 else None


def overall(turn: Turn) -> float:
    """Tokens a second, prompts included."""
    return float(turn["tokens"] / turn["seconds"])


def ratios(units: Sequence[Unit], first: str, second: str, of: Callable[[Turn], float | None] = speed) -> Ratios:
    """of(first arm) / of(second arm) in every unit that has both."""
    found: Ratios = defaultdict(list)
    for unit in units:
        if first in unit["turns"] and second in unit["turns"]:
            above, below = of(unit["turns"][first]), of(unit["turns"][second])
            if above and below:
                found[unit["set"]].append(above / below)
    return dict(found)


def speeds(units: Sequence[Unit], label: str, of: Callable[[Turn], float | None] = speed) -> list[float]:
    """An arm's speeds, one a unit."""
    found = (of(unit["turns"][label]) for unit in units if label in unit["turns"])
    return [value for value in found if value]


def labels(units: Sequence[Unit]) -> list[str]:
    """Arms that have a speed, by engine, in the order in which they first ran."""
    seen = {label: None for unit in units for label in sorted(unit["turns"]) if label not in NO_SPEED}
    return sorted(seen, key=lambda label: next((i for i, name in enumerate(GROUPS) if label.startswith(name)), 9))


def best(units: Sequence[Unit], beginning: str) -> str:
    """The fastest arm whose label begins so."""
    found = [label for label in labels(units) if label.startswith(beginning)]
    return max(found, key=lambda label: median(speeds(units, label) or [0.0]), default=beginning)


def split(units: Sequence[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Units of one prompt, and units of many."""
    return [u for u in units if u["set"] != TOGETHER], [u for u in units if u["set"] == TOGETHER]


def lines(units: Sequence[Unit], batch: int) -> list[Line]:
    """Everything that must hold, measured or not."""
    single, crowds = split(units)
    vllm, many = best(single, VLLM_EAGLE), best(crowds, "vLLM")
    return [
        Line("1", f"plain / {LLAMA}", ratios(single, PLAIN, LLAMA), 0.9, 1.1),
        Line("1", "bandwidth in decode / read bandwidth", _bandwidths(single), 0.7, 0.9),
        Line("2", "verify of 8 / decode of 1", _forwards(single, "verify_ms", 8), 1.35, 1.10),
        Line("2", f"draft step (of {CHAIN}) / decode", _forwards(single, "draft_ms", CHAIN, CHAIN), 0.10, 0.06),
        Line("2", "share outside model forwards", _outside(single), 0.06, 0.03),
        Line("3", "EAGLE-3 / plain", ratios(single, EAGLE, PLAIN), 1.35, 2.2, by_set=True),
        Line("3", f"EAGLE-3 / {LLAMA}", ratios(single, EAGLE, LLAMA), 1.25, 2.0, by_set=True),
        Line("3", f"EAGLE-3 / {vllm}", ratios(single, EAGLE, vllm), 1.4, 2.5, by_set=True),
        Line("4", f"int8 plain / {LLAMA_Q8}", ratios(single, INT8, LLAMA_Q8), 0.85, 1.1),
        Line("4", f"int8 EAGLE-3 / {LLAMA_Q8}", ratios(single, INT8_EAGLE, LLAMA_Q8), 1.15, 2.0, by_set=True),
        Line("6", f"{batch} at once: EAGLE-3 / {many}", ratios(crowds, EAGLE, many), 1.0, 1.5),
    ]


def _bandwidths(units: Sequence[Unit]) -> Ratios:
    return _each(units, lambda turns: achieved(turns[PLAIN]) / turns[FORWARDS]["read_gb_s"], PLAIN, FORWARDS)


def achieved(turn: Turn) -> float:
    """GB/s: weights and cache that decoding must move, over the time that it took."""
    return float(turn["decode_bytes"] / turn["decode_seconds"] / 1e9)


def _forwards(units: Sequence[Unit], name: str, width: int, share: int = 1) -> Ratios:
    """A forward, or a share of one, over the forward of one token."""

    def ratio(turns: Mapping[str, Turn]) -> float:
        found = turns[FORWARDS]
        return float(found[name][str(width)] / share / found["verify_ms"]["1"])

    return _each(units, ratio, FORWARDS)


def _outside(units: Sequence[Unit]) -> Ratios:
    return _each(units, lambda turns: 1 - turns[TIMED]["forward_seconds"] / turns[TIMED]["decode_seconds"], TIMED)


def _each(units: Sequence[Unit], of: Callable[[Mapping[str, Turn]], float], *needed: str) -> Ratios:
    found: Ratios = defaultdict(list)
    for unit in units:
        turns = unit["turns"]
        if all(label in turns and turns[label].get("decode_tokens", 1) for label in needed):
            found[unit["set"]].append(of(turns))
    return dict(found)


def tokens_per_cycle(units: Sequence[Unit], label: str) -> float | None:
    """Tokens after the first ones over cycles; None where the engine does not count them."""
    turns = [unit["turns"][label] for unit in units if label in unit["turns"]]
    cycles = sum(turn.get("cycles", 0) for turn in turns)
    return sum(turn["decode_tokens"] for turn in turns) / cycles if cycles else None


def same_starts(units: Sequence[Unit], label: str) -> float | None:
    """Share of outputs that begin as those of wingbeat's plain arm do: the same model, prompt and sampling."""
    found = [
        ours == theirs
        for unit in units
        if label in unit["turns"] and PLAIN in unit["turns"]
        for ours, theirs in zip(unit["turns"][PLAIN]["starts"], unit["turns"][label]["starts"], strict=True)
    ]
    return fmean(found) if found else None
