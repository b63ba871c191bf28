"""The cost model on published tables: round time against drafted steps, break-even and the best number of steps.

    python benchmarks/published_fits.py

Tables: vllm#20780 (Llama-3.1-8B-Instruct, one H100, batch 1, MT-bench) and sglang PR#4247 (the same model). A round is
what a cycle is here: TPOT x tokens per round. Bytes come from the models' configurations.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from wingbeat.measure.roofline import Line, fit, speed_up
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.cost import Block, draft_step, target_step

STEPS = (2, 3, 4, 5, 6, 7)
PLAIN_MS = 7.07  # vllm#20780, one token without drafting
TOKENS_PER_ROUND = {  # vllm#20780
    "EAGLE-1": (2.10, 2.29, 2.39, 2.43, 2.45, 2.47),
    "EAGLE-3": (2.36, 2.79, 3.08, 3.32, 3.46, 3.54),
}
TPOT_MS = {
    "EAGLE-1": (4.37, 4.29, 4.48, 4.71, 4.94, 5.20),
    "EAGLE-3": (4.32, 4.09, 4.05, 4.13, 4.20, 4.29),
}
SGLANG = {8: (378.57, 5.39), 5: (361.7, 4.68)}  # sglang PR#4247: steps: tokens a second, tokens per round
SGLANG_EAGER = (276.3, 5.36)  # the same with 8 steps, without CUDA graphs
SGLANG_PLAIN = 158.34  # tokens a second in the EAGLE-3 paper: another run
H100_GB_PER_S = 3350.0  # NVIDIA's data sheet, SXM

LLAMA_8B = TargetConfig(
    family="llama", vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_layers=32, num_heads=32,
    num_kv_heads=8, head_dim=128,
)  # fmt: skip
EAGLE3_HEAD = HeadConfig.for_target(LLAMA_8B, 32000)


def round_ms(method: str) -> list[float]:
    """Milliseconds a round for each of STEPS."""
    return [tpot * tokens for tpot, tokens in zip(TPOT_MS[method], TOKENS_PER_ROUND[method], strict=True)]


def round_line(method: str) -> Line:
    """Round time = a + b x steps."""
    return fit(STEPS, round_ms(method))


def predicted_tpot(method: str) -> list[float]:
    """TPOT for each of STEPS, from the line and the acceptance."""
    line = round_line(method)
    pairs = zip(STEPS, TOKENS_PER_ROUND[method], strict=True)
    return [PLAIN_MS / speed_up(tokens, line.at(steps), PLAIN_MS) for steps, tokens in pairs]


def best_steps(tpot: list[float] | tuple[float, ...]) -> int:
    """The number of steps with the lowest TPOT."""
    return STEPS[tpot.index(min(tpot))]


def sglang_round_ms(tokens_per_second: float, tokens: float) -> float:
    """Milliseconds a round."""
    return 1000 * tokens / tokens_per_second


def sglang_step_ms() -> float:
    """Milliseconds of a drafted step, from rounds of 5 and of 8."""
    return fit(list(SGLANG), [sglang_round_ms(*SGLANG[steps]) for steps in SGLANG]).slope


def graph_share() -> float:
    """The part of an eager round that CUDA graphs save."""
    return 1 - sglang_round_ms(*SGLANG[8]) / sglang_round_ms(*SGLANG_EAGER)


def least_ms() -> dict[str, float]:
    """What an H100 must take at least to read the weights (bfloat16, empty cache): decode, and a step of each head.

    EAGLE-1's head is one layer of the target and the target's own output matrix, after a matrix of [2H, H].
    """
    first = target_step(replace(LLAMA_8B, num_layers=1), Block(), item=2).bytes
    found = {
        "decode": target_step(LLAMA_8B, Block(), item=2).bytes,
        "EAGLE-1": first + 2 * 2 * LLAMA_8B.hidden_size**2,
        "EAGLE-3": draft_step(EAGLE3_HEAD, Block(), item=2).bytes,
    }
    return {name: size / H100_GB_PER_S / 1e6 for name, size in found.items()}


def main() -> None:
    least = least_ms()
    for method in TPOT_MS:
        line, predicted = round_line(method), predicted_tpot(method)
        print(f"vllm#20780, {method}: round time = {line.intercept:.2f} + {line.slope:.3f} K ms "
              f"= {line.intercept / PLAIN_MS:.2f} + {line.slope / PLAIN_MS:.3f} K plain steps")
        print(f"{'K':>3} {'round ms':>9} {'fit':>7} {'off':>7} {'TPOT ms':>8} {'fit':>6} {'needed':>7} {'has':>5}")
        rows = zip(STEPS, round_ms(method), TPOT_MS[method], predicted, TOKENS_PER_ROUND[method], strict=True)
        for steps, measured, tpot, guess, tokens in rows:
            fitted = line.at(steps)
            print(f"{steps:>3} {measured:>9.2f} {fitted:>7.2f} {fitted / measured - 1:>+7.1%} {tpot:>8.2f} "
                  f"{guess:>6.2f} {fitted / PLAIN_MS:>7.2f} {tokens:>5.2f}")
        off = [line.at(steps) / measured - 1 for steps, measured in zip(STEPS, round_ms(method), strict=True)]
        print(f"deviation: root mean square {statistics.fmean(one**2 for one in off) ** 0.5:.1%}, worst "
              f"{line.worst:.1%}; best K: fit {best_steps(predicted)}, published {best_steps(TPOT_MS[method])}")
        print(f"a drafted step takes {line.slope:.2f} ms, {line.slope / least[method]:.1f} times what reading its "
              f"weights takes at 3.35 TB/s ({least[method]:.2f} ms)\n")
    print(f"plain decoding takes {PLAIN_MS / least['decode']:.1f} times what reading the weights takes "
          f"({least['decode']:.2f} ms)")
    print(f"sglang PR#4247: rounds of {sglang_round_ms(*SGLANG[5]):.2f} ms (5 steps) and "
          f"{sglang_round_ms(*SGLANG[8]):.2f} ms (8): {sglang_step_ms():.3f} ms a step, "
          f"{sglang_step_ms() * SGLANG_PLAIN / 1000:.3f} plain steps; without graphs "
          f"{sglang_round_ms(*SGLANG_EAGER):.2f} ms: graphs save {graph_share():.0%} of a round")


if __name__ == "__main__":
    main()
