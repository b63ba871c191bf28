"""How often an investigation names the right cause first, and how often it accuses where nothing was found.

Every case of `planted_cases` becomes two records with fingerprints: 3 launches a side whose speeds differ by 0.6 %
from launch to launch, and readings that always move (uptime, load, temperature, memory in use). Cases without a cause
are drawn 5 times. Cases with a cause are also told backwards (what was slow becomes fast), and with two harmless
changes beside the cause, which is harder: some of these might bring about what was seen, had the cause not been there.

    python benchmarks/planted.py [--verbose]
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import replace
from typing import Any

from planted_cases import CAUSED, HARMLESS, INNOCENT, Planted

from wingbeat.investigate.case import Investigation, investigate
from wingbeat.investigate.side import side
from wingbeat.measure.record import Figure, Launch, RunRecord

LEAST_RIGHT, MOST_WRONG = 0.90, 0.02
LAUNCHES, NOISE, DRAWN, SAMPLES = 3, 0.006, 5, 160
USUAL = {"draft": 4.0, "verify": 19.0, "host": 1.0, "plain": 12.5, "ttft": 200.0, "tokens": 2.6}  # ms; the last: tokens
SETTINGS: dict[str, Any] = {
    "temperature": 0.0, "max_tokens": 256, "concurrency": 1, "sha256": "ab" * 32, "attention_backend": "fa3",
    "steps": 3, "dtype": "bfloat16", "disable_cuda_graph": False, "template": "ab12", "tp_size": 2,
}  # fmt: skip
DEVICE: dict[str, Any] = {
    "name": "NVIDIA RTX PRO 6000 Blackwell", "power.limit": 600, "clock.sm": 2400, "pcie.generation": 5, "others": 0,
    "clock.sm.max": 3090, "pstate": "P0", "ecc": "on", "numa": 0,
}  # fmt: skip
LOADED: dict[str, Any] = {"clock.sm": 2400, "pcie.generation": 5, "pcie.width": 16, "temperature": 64}
MACHINE: dict[str, Any] = {
    "boot_id": "b1", "nvidia.driver": "590.48.01", "nvidia.module": "590.48.01", "gpu.topology": ["PHB"],
    "gpu.p2p": ["OK"], "iommu": "identity", "loaded.nccl": "libnccl.so.2.27.5", "installed.torch": "2.10.0",
    "installed.vllm": "0.11.0", "installed.nvidia-nccl-cu12": "2.27.5", "python.packages": 240, "packages.patched": [],
    "git.commit": "5c1e", "cpu.governor": {"performance": 64}, "cpu.boost": "on", "cpu.cores": 64,
    "cpu.model": "AMD EPYC 9575F", "process.maps": 300,
    "cpu.usable_cores": 64, "cgroup.cpu.quota": 32.0, "numa.nodes": {"node0": "0-63"}, "numa.balancing": "0",
    "container.shared_memory": 64 << 30, "pressure.cpu": 1.0, "head.weights": "aa", "head.config": "aa",
    "model.weights": "aa", "model.config": "aa", "model.tokenizer": "aa", "model.chat_template": "aa",
    "process.uptime": 600, "process.environ": 40, "env.HOME": "/root", "torch.threads": 8, "workers.count": 2,
    "workers.lost": [], "process.argv": ["serve"],
}  # fmt: skip
MOVING = {  # readings that are never the same
    "uptime": (1e4, 9e5), "cpu.load_average": (0.5, 2.5), "process.pid": (1000, 60000), "gpu.0.temperature": (40, 60),
    "gpu.0.memory.used": (70000, 71000), "gpu.0.power.draw": (250, 330), "memory.swapped_in": (0, 3),
    "process.switches": (100, 900), "cpu.softirq": (1e4, 9e4),
}  # fmt: skip
COUNTERS = ("gpu.0.slowed.thermal", "gpu.0.slowed.power_cap", "gpu.0.pcie.replays", "cpu.steal")


def run(case: Planted, seed: int = 0, backwards: bool = False) -> Investigation:
    """The investigation of a case. backwards: with the sides exchanged, so that what was slow becomes fast."""
    rng = random.Random(f"{case.thread}{seed}")
    before, after = (side(name, _record(case, place, rng), "eagle3") for place, name in enumerate("AB"))
    return investigate(after, before) if backwards else investigate(before, after)


def _record(case: Planted, after: int, rng: random.Random) -> RunRecord:
    chosen = {**SETTINGS, **{name: pair[after] for name, pair in case.settings.items()}}
    workload = {name: chosen.pop(name) for name in ("sha256", "concurrency")}
    what, over = chosen.pop("definition", None), chosen.pop("over", "")
    effective = {"definitions": {"tokens_per_cycle": {"what": what, "over": over}}} if what else {}
    start, end = _fingerprints(case, after, rng)
    launches = [
        Launch(
            fingerprint=start, fingerprint_after=end, finished=True, effective={"eagle3": effective},
            calibration={"before": _calibration(case, after, rng)}, **_measured(case, after, place, rng),
        )
        for place in range(1 if case.single else LAUNCHES + 2 * (case.course == "bimodal"))
    ]  # fmt: skip
    return RunRecord("bench", "", chosen, workload, ["plain", "eagle3"], launches, source="vllm-bench")


def _measured(case: Planted, after: int, place: int, rng: random.Random) -> dict[str, Any]:
    """The figures of a launch, and where a case is about the course of a run also its cycles."""
    levels = {name: value * (case.moves.get(name, 1.0) if after else 1.0) for name, value in USUAL.items()}
    factor = rng.gauss(1.0, NOISE) * (1.27 if case.course == "bimodal" and place % 2 == after and place else 1.0)
    cycle = factor * (levels["draft"] + levels["verify"] + levels["host"])
    series = _series(case.course if after else "", cycle, rng) if case.course not in ("", "bimodal") else []
    cycle = sum(series) / len(series) if series else cycle
    speed = 1000 * (USUAL["tokens"] if "speed" in case.moves else levels["tokens"]) / cycle
    figures = {
        "tokens_per_second": speed, "tokens_per_cycle": levels["tokens"], "cycle_ms": cycle, "context": 2000.0,
        "ttft_ms": levels["ttft"] * factor, "captured": 1.0, "prefix_hits": 0.0,
        **{f"{name}_ms": levels[name] * factor for name in ("draft", "verify", "host") if not series},
        **{name: pair[after] for name, pair in case.figures.items()},
    }  # fmt: skip
    known = {name: Figure(value) for name, value in figures.items() if not case.only or name in case.only}
    plain = {} if case.only else {"tokens_per_second": Figure(1000 / levels["plain"] / factor)}
    samples = {"eagle3": {"cycle_ms": series}} if series else {}
    return {"figures": {"plain": plain, "eagle3": known}, "samples": samples}


def _series(course: str, cycle: float, rng: random.Random) -> list[float]:
    """The times of a run's cycles in order."""
    shapes = {
        "warm-up": lambda share: 3.0 if share < 0.1 else 1.0,
        "compilation": lambda share: 25.0 if int(share * SAMPLES) in (31, 74, 102) else 1.0,
        "drift": lambda share: 1 + 0.5 * share,
    }
    shape = shapes.get(course, lambda share: 1.0)
    return [cycle * shape(place / SAMPLES) * rng.gauss(1, 0.02) for place in range(SAMPLES)]


def _fingerprints(case: Planted, after: int, rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    count = {"gpu": 2, "one": 1, "cpu": 0}[case.rig]
    values = dict(MACHINE)
    for index in range(count):
        values |= {f"gpu.{index}.{name}": value for name, value in DEVICE.items()}
        values |= {f"load.gpu.{index}.{name}": _spread(value) for name, value in LOADED.items()}
    for name, pair in case.fields.items():
        for full in _expand(name, count):
            values[full] = _spread(pair[after]) if full.startswith("load.gpu") else pair[after]
    moving = {name: rng.uniform(*ends) for name, ends in MOVING.items() if count or not name.startswith("gpu")}
    counters = dict.fromkeys((name for name in COUNTERS if count or not name.startswith("gpu")), 10.0)
    grown = {full: pair[after] for name, pair in case.counters.items() for full in _expand(name, count)}
    counters |= dict.fromkeys(grown, 10.0)
    start = {**_read({**moving, **values, **counters}), **_devices(count)}
    ended = {name: value + grown.get(name, 0.0) for name, value in counters.items()}
    return start, {**start, **_read(ended)}


def _devices(count: int) -> dict[str, Any]:
    if count:
        return {"gpu.count": {"state": "value", "value": count}, "load.samples": {"state": "value", "value": 8}}
    return {"gpu.count": {"state": "not applicable", "reason": "no device here"}}


def _expand(name: str, count: int) -> list[str]:
    return [name.replace("*", str(index)) for index in range(count)] if "*" in name else [name]


def _spread(value: Any) -> dict[str, Any]:
    return {"min": value, "median": value, "max": value, "n": 8}


def _read(values: dict[str, Any]) -> dict[str, Any]:
    """As `probe.to_json` has it; a value of None is absent."""
    return {name: {"state": "value", "value": value} for name, value in values.items() if value is not None}


def _calibration(case: Planted, after: int, rng: random.Random) -> dict[str, float]:
    usual = {"memory_read": 1400.0, "matrix_product": 3e5, "launch": 6.0}
    usual |= {name: pair[after] for name, pair in case.calibration.items()}
    return {name: value * rng.gauss(1, 0.01) for name, value in usual.items()}


def first(found: Investigation) -> str:
    """The cause that is named first, or how it ended."""
    return found.accused[0].cause.key if found.accused else found.outcome


def distracted(case: Planted) -> Planted:
    """The case with two harmless changes beside it."""
    rng = random.Random(case.thread)
    possible = [name for name in HARMLESS if name not in case.fields and (case.rig != "cpu" or "gpu" not in name)]
    return replace(case, fields={**{name: HARMLESS[name] for name in rng.sample(possible, 2)}, **case.fields})


def score(verbose: bool = False) -> tuple[dict[str, float], float]:
    """The share of caused cases whose right cause comes first, by how they are told, and of the others that accuse."""
    right: dict[str, list[bool]] = {"as it was": [], "backwards": [], "with two harmless changes beside it": []}
    wrong = []
    for case in CAUSED:
        for told, named in zip(right, (run(case), run(case, backwards=True), run(distracted(case))), strict=True):
            right[told].append(first(named) in case.right)
            if verbose or not right[told][-1]:
                verdict = "right" if right[told][-1] else "MISSED"
                print(f"{verdict}  {case.thread}, {told}: {first(named)}, is {' or '.join(case.right)}")
    for case in INNOCENT:
        for seed in range(DRAWN):
            found = run(case, seed)
            wrong.append(bool(found.accused))
            if wrong[-1] or (verbose and not seed):
                print(f"{'ACCUSED' if wrong[-1] else 'right'}  {case.thread}: {first(found)}")
    return {told: sum(one) / len(one) for told, one in right.items()}, sum(wrong) / len(wrong)


def main() -> None:
    """Prints the score; exits with 1 where it is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbose", action="store_true", help="print every case")
    start = time.perf_counter()
    right, wrong = score(parser.parse_args().verbose)
    print(f"Right cause first, of {len(CAUSED)} cases (at least {LEAST_RIGHT:.0%}):")
    for told, share in right.items():
        print(f"  {told}: {share:.1%}")
    print(f"Accused wrongly: {wrong:.1%} of {DRAWN * len(INNOCENT)} drawings of {len(INNOCENT)} cases "
          f"(at most {MOST_WRONG:.0%}). {time.perf_counter() - start:.0f} s.")  # fmt: skip
    raise SystemExit(min(right.values()) < LEAST_RIGHT or wrong > MOST_WRONG)


if __name__ == "__main__":
    main()
