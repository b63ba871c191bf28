"""llama.cpp through llama-cpp-python. Configuration: model (a .gguf file), context, threads, lookup (tokens or 0)."""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import Any

from serving_loop import Work, answer, serve


def start(given: dict[str, Any]) -> tuple[dict[str, str], Work]:
    """Loads the model; look-up in the prompt is fixed here, as llama-cpp-python wants it."""
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    draft = LlamaPromptLookupDecoding(num_pred_tokens=given["lookup"]) if given["lookup"] else None
    llm = llama_cpp.Llama(
        given["model"], n_ctx=given["context"], n_threads=given["threads"], n_threads_batch=given["threads"],
        draft_model=draft, verbose=False,
    )

    def work(job: dict[str, Any]) -> dict[str, Any]:
        [prompt], [length] = job["prompts"], job["lengths"]
        llm.reset()  # or it would keep the part of the prompt that it already knows
        begin = perf_counter()
        making = llm.generate(prompt, temp=0.0, repeat_penalty=1.0)
        tokens = [next(making)]
        first = perf_counter()
        tokens += islice(making, length - 1)
        end = perf_counter()
        return answer(end - begin, end - first, 1, [tokens])

    return {"llama-cpp-python": llama_cpp.__version__}, work


if __name__ == "__main__":
    serve(start)
