"""What observing costs: the same generation with and without a timing observer, in turns.

    python benchmarks/observer_overhead.py [--pairs 20] [--max-tokens 96]

Prints the median of the paired ratios of time with the observer to time without, with quartiles, plain and drafting a
chain, whose cycles are the same in both; exits with 1 where observing costs more than it may. About 3 minutes.
"""

from __future__ import annotations

import argparse
import statistics
from time import perf_counter

from wingbeat import LLM, SamplingParams
from wingbeat.engine.settings import DraftSettings
from wingbeat.measure.clock import TimingObserver
from wingbeat.measure.stats import spread
from wingbeat.measure.workload import bundled

ALLOWED = 0.5  # percent


def seconds(llm: LLM, prompt: str, params: SamplingParams, watched: bool) -> float:
    """One generation, observed or not."""
    observer = TimingObserver() if watched else None
    begin = perf_counter()
    llm.generate([prompt], params, observer=observer)
    return perf_counter() - begin


def main() -> None:
    """Prints a line for each way of decoding."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=96)
    options = parser.parse_args()
    params = SamplingParams(max_tokens=options.max_tokens, ignore_eos=True)
    prompts = [prompt.text for prompt in bundled().prompts]
    llm, medians = LLM(), []
    for name, draft in (("plain", DraftSettings(drafter="none")), ("EAGLE-3, chain of 4", DraftSettings(steps=4))):
        llm.use(draft)
        seconds(llm, prompts[0], params, True)
        ratios = []
        for pair in range(options.pairs):
            prompt = prompts[pair % len(prompts)]
            order = (True, False, False, True) if pair % 2 else (False, True, True, False)
            times = {watched: [] for watched in order}
            for watched in order:
                times[watched].append(seconds(llm, prompt, params, watched))
            ratios.append(statistics.mean(times[True]) / statistics.mean(times[False]))
        found = spread([100 * (ratio - 1) for ratio in ratios])
        medians.append(found.median)
        around = f"({found.low:+.2f} to {found.high:+.2f})"
        print(f"{name}: {found.median:+.2f} % {around}, {found.count} pairs of two runs each", flush=True)
    print(f"The largest median is {max(medians):+.2f} %; allowed are {ALLOWED} %.")
    raise SystemExit(max(medians) > ALLOWED)


if __name__ == "__main__":
    main()
