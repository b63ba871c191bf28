"""The record as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from peers import figures
from peers.figures import EAGLE, FORWARDS, LLAMA, PLAIN, Unit
from wingbeat.measure.stats import spread

Row = Sequence[str]
NUMBER = re.compile(r"(\(.*\)|[<>= ]*[\d.]+%?|-)?")


def text(record: Mapping[str, Any]) -> str:
    """Everything that was found, what was left out, and what must hold."""
    units, settings = record["units"], record["settings"]
    single, crowds = figures.split(units)
    parts = [_heading(record, single, crowds), _speeds(single, figures.speed)]
    if crowds:
        parts += [f"{settings['batch']} prompts at once, tokens a second of all:", _speeds(crowds, figures.overall)]
    return "\n\n".join([*parts, _by_set(single), _machine(single), _must_hold(record), "\n".join(_remarks(record))])


def _heading(record: Mapping[str, Any], single: Sequence[Unit], crowds: Sequence[Unit]) -> str:
    settings, machine = record["settings"], record["machine"]
    return (
        f"{machine['processor']}, {len(settings['cores'])} cores, {machine['date']}. {len(single)} prompts in turn on "
        f"every arm, {len(crowds)} crowds;\ngreedy, up to {settings['tokens']} tokens, as many on every arm. Medians, "
        "quartiles in brackets.\nTokens a second after the first token; 'whole' with the prompt; 'same': outputs that "
        "begin as ours."
    )


def _speeds(units: Sequence[Unit], of: Callable[[figures.Turn], float | None]) -> str:
    rows = [("", "tok/s", "", "whole", "tokens/cycle", "same")]
    for label in figures.labels(units):
        values = figures.speeds(units, label, of)
        if values:
            around = spread(values)
            cycle, same = figures.tokens_per_cycle(units, label), figures.same_starts(units, label)
            rows.append((
                label, f"{around.median:.1f}", f"({around.low:.1f} to {around.high:.1f})",
                f"{median(figures.speeds(units, label, figures.overall)):.1f}",
                f"{cycle:.2f}" if cycle else "-", "-" if same is None else f"{same:.0%}",
            ))
    return _table(rows)


def _by_set(units: Sequence[Unit]) -> str:
    others = (PLAIN, LLAMA, figures.best(units, figures.VLLM_EAGLE))
    found = [figures.ratios(units, EAGLE, other) for other in others]
    rows = [("EAGLE-3 /", *("plain" if other == PLAIN else other for other in others))]
    for name in dict.fromkeys(unit["set"] for unit in units):
        rows.append((name, *(f"{median(one[name]):.2f}" if name in one else "-" for one in found)))
    return _table(rows)


def _machine(units: Sequence[Unit]) -> str:
    reads = [unit["turns"][FORWARDS]["read_gb_s"] for unit in units if FORWARDS in unit["turns"]]
    plain = [unit["turns"][PLAIN] for unit in units if PLAIN in unit["turns"]]
    reached = [figures.achieved(turn) for turn in plain if turn["decode_tokens"]]
    if not reads or not reached:
        return "Memory bandwidth: not measured."
    read, decode = spread(reads), spread(reached)
    return (
        f"Memory: {read.median:.1f} GB/s read ({read.low:.1f} to {read.high:.1f}); plain decoding moves "
        f"{decode.median:.1f} GB/s ({decode.low:.1f} to {decode.high:.1f})."
    )


def _must_hold(record: Mapping[str, Any]) -> str:
    rows: list[Row] = [("", "must hold", "is", "", "floor", "aim", "")]
    for line in figures.lines(record["units"], record["settings"]["batch"]):
        around, value = line.spread, line.value
        sign = "<=" if line.is_cost else ">="
        rows.append((
            line.number, line.name, "-" if value is None else f"{value:.3f}",
            f"({around.low:.3f} to {around.high:.3f})" if around else "", f"{sign} {line.floor}", f"{line.aim}",
            line.verdict,
        ))
    return _table(rows)


def _remarks(record: Mapping[str, Any]) -> Iterator[str]:
    for name, reason in record["left_out"].items():
        yield f"Left out: {name}: {reason}"
    for name, note in record["notes"].items():
        yield f"Not at its best: {name}: {note}"
    shares = {name: cpu / max(seconds, 1e-9) for name, (seconds, cpu) in record["idle"].items()}
    if shares:
        most = max(shares, key=lambda name: shares[name])
        yield f"Off turn the workers used {shares[most]:.2%} of a core at most ({most})."
    yield f"Load of the machine before the start: {record['machine']['load']:.1f}."


def _table(rows: Sequence[Row]) -> str:
    """Columns of numbers (or "-") to the right, the others to the left."""
    columns = [
        [cell.rjust(width) if all(map(NUMBER.fullmatch, column[1:])) else cell.ljust(width) for cell in column]
        for column in zip(*rows, strict=True)
        for width in [max(map(len, column))]
    ]
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))
