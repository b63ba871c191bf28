"""transformers' own generate. Configuration: model (a directory), threads, lookup (tokens taken from the prompt)."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from serving_loop import Work, answer, serve


class Arrivals:
    """A streamer that keeps when tokens came, and how many at once; the first to come is the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.counts: list[int] = []

    def put(self, tokens: Any) -> None:
        """Called by generate with new tokens."""
        self.times.append(perf_counter())
        self.counts.append(tokens.numel())

    def end(self) -> None:
        """Called by generate when it is done."""


def start(given: dict[str, Any]) -> tuple[dict[str, str], Work]:
    """Loads the model in bfloat16."""
    import torch
    import transformers

    torch.set_num_threads(given["threads"])
    model = transformers.AutoModelForCausalLM.from_pretrained(given["model"], dtype=torch.bfloat16).eval()
    model.generation_config.eos_token_id = None  # as many tokens as asked for

    def work(job: dict[str, Any]) -> dict[str, Any]:
        [prompt], [length] = job["prompts"], job["lengths"]
        ids, arrivals = torch.tensor([prompt]), Arrivals()
        more = {"prompt_lookup_num_tokens": given["lookup"]} if job["arm"] == "look-up" else {}
        begin = perf_counter()
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=length, pad_token_id=0,
            streamer=arrivals, **more,
        )
        end = perf_counter()
        return answer(end - begin, end - arrivals.times[1], arrivals.counts[1], [output[0, len(prompt) :].tolist()])

    return {"transformers": transformers.__version__, "torch": torch.__version__}, work


if __name__ == "__main__":
    serve(start)
