"""Do training and serving agree on a head? The trainer's tokens per cycle and the engine's, on the same text.

    python benchmarks/train_serve.py [--model MODEL] [--head DIR] [--prompts FILE] [--limit 40] [--steps 4]

The engine answers the prompts, greedy, with a chain; the trainer then decodes the same answers on paper, cycle after
cycle, from the states of one forward over each. Exit code 1 if the two differ by 3 % or more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from wingbeat.cli.train_eval import Counter
from wingbeat.engine.llm import LLM
from wingbeat.engine.request import SamplingParams
from wingbeat.engine.settings import DraftSettings
from wingbeat.model.weights import load_head, load_target
from wingbeat.training.capture import Sample, run_target
from wingbeat.training.data import read_conversations
from wingbeat.training.loop import Learner
from wingbeat.training.vocab import teacher_for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--head")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=128)
    args = parser.parse_args()
    llm = LLM(args.model, head=args.head, draft=DraftSettings(steps=args.steps))
    prompts = [[dict(item.messages[0])] for item in read_conversations(args.prompts)[: args.limit]]
    counter = Counter(args.steps)
    done = llm.generate(prompts, SamplingParams(max_tokens=args.max_tokens), observer=counter)
    served = counter.figures()
    target = load_target(llm.model_path, torch.bfloat16)  # the engine's own is packed for inference
    head = load_head(llm.head_path, target)
    samples = [
        Sample(torch.tensor(item.prompt_tokens + item.tokens), torch.arange(len(item.prompt_tokens + item.tokens))
               >= len(item.prompt_tokens))
        for item in done
    ]
    learner = Learner(head, teacher_for(target, head, torch.bfloat16), bfloat16=True)
    batches = (run_target(target, samples[begin : begin + 4], head.config.taps) for begin in range(0, len(samples), 4))
    expected = learner.tally(batches, args.steps).result()
    ratio = served["tokens_per_cycle"] / expected.walked
    print(f"engine   {served['tokens_per_cycle']:.3f} tokens per cycle; by position", *_shares(served["unconditional"]))
    print(f"trainer  {expected.walked:.3f} tokens per cycle ({expected.expected:.3f} over all positions); by position",
          *_shares(expected.unconditional))
    print(f"engine / trainer {ratio:.3f}")
    return 0 if abs(ratio - 1) < 0.03 else 1


def _shares(values) -> list[str]:
    return [f"{value:.3f}" for value in values]


if __name__ == "__main__":
    sys.exit(main())
