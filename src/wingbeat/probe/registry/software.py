"""Fields of the process and its code: arguments, environment, libraries, packages, checkouts, models, caches."""

from __future__ import annotations

from wingbeat.probe.registry.field import Field, Kind

ENGINES = (
    "vllm", "sglang", "sgl-kernel", "torch", "triton", "transformers", "flashinfer-python", "flash-attn", "xformers",
    "wingbeat", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cublas-cu12", "nvidia-cublas", "nvidia-cudnn-cu12",
    "deep-gemm", "torchao", "ray", "numpy", "tokenizers", "safetensors", "gguf",
)  # fmt: skip
LOADED = {
    "nccl": "all-reduce", "rccl": "all-reduce", "nvml": "nothing", "gomp": "host", "iomp": "host", "allocator": "host",
}  # fmt: skip


def _env(name: str, importance: int, predicts: str) -> Field:
    return Field(name, "", "text", "state", importance, predicts, "/proc/PID/environ", "process.environ")


def _installed(name: str, importance: int) -> Field:
    return Field(f"installed.{name}", "", "text", "identity", importance, "code", "*.dist-info", "python.packages")


def _model(role: str) -> tuple[Field, ...]:
    def entry(name: str, kind: Kind, importance: int, how: str, predicts: str = "acceptance") -> Field:
        return Field(f"{role}.{name}", "", "text", kind, importance, predicts, how)

    return (
        entry("name", "identity", 2, "argument or the server's argv"),
        entry("folder", "identity", 0, "the path, links followed", "nothing"),
        entry("config", "identity", 3, "config.json, hashed", "code"),
        entry("generation_config", "identity", 3, "generation_config.json, hashed: default sampling"),
        entry("tokenizer", "identity", 3, "tokenizer files, hashed"),
        entry("chat_template", "identity", 3, "the template's text, hashed"),
        entry("code", "identity", 3, "*.py of the folder, hashed", "code"),
        entry("weights", "identity", 3, "headers, sizes and samples of the weights, hashed"),
    )


FIELDS = (
    Field("git.commit", "", "text", "identity", 3, "code", "git rev-parse HEAD"),
    Field("git.diff", "", "text", "identity", 3, "code", "git diff HEAD, hashed; its text is the raw value"),
    Field("git.untracked", "", "list", "identity", 1, "code", "git ls-files --others, hashed"),
    Field("wingbeat.source", "", "text", "identity", 3, "code", "the files of the running package, hashed"),
    Field("editable.*", "", "text", "identity", 3, "code", "direct_url.json, then git", "python.packages"),
    Field("packages.patched", "", "list", "identity", 3, "code", "files against their RECORD"),
    Field("packages.startup", "", "list", "identity", 3, "code", "*.pth, sitecustomize.py, usercustomize.py, hashed"),
    Field("process.argv", "", "list", "identity", 3, "code", "/proc/PID/cmdline"),
    Field("process.files", "", "list", "identity", 3, "code", "files that arguments name, hashed"),
    *(_env(f"env.{start}*", 3, "all-reduce") for start in ("NCCL_", "RCCL_", "UCX_", "GLOO_")),
    _env("env.*", 2, "code"),
    Field("workers.env.*", "", "text", "state", 3, "code", "/proc/PID/environ of children", "workers.environ"),
    Field("workers.lost", "", "list", "state", 3, "all-reduce", "variables that no child has"),
    Field("workers.skew", "", "list", "state", 3, "all-reduce", "variables that differ between children"),
    Field("workers.count", "", "number", "state", 2, "host", "/proc/*/stat"),
    Field("workers.affinity", "", "list", "state", 2, "host", "/proc/PID/status of children"),
    Field("workers.environ", "", "number", "state", 0, "nothing", "/proc/PID/environ of children: how many were read"),
    Field("workers.argv", "", "list", "noise", 0, "nothing", "/proc/PID/cmdline of children"),
    Field("nccl.conf.*", "", "list", "state", 3, "all-reduce", "/etc/nccl.conf, ~/.nccl.conf, NCCL_CONF_FILE"),
    *(
        Field(f"loaded.{name}", "", "text", "identity", 3, effect, "/proc/PID/maps", "process.maps")
        for name, effect in LOADED.items()
    ),
    Field("loaded.*", "", "text", "identity", 3, "code", "/proc/PID/maps", "process.maps"),
    *(_installed(name, 3) for name in ENGINES),
    _installed("*", 1),
    Field("python", "", "text", "identity", 2, "host", "the running interpreter"),
    Field("python.packages", "", "number", "identity", 0, "nothing", "*.dist-info of the process"),
    Field("torch.loaded", "", "text", "identity", 3, "code", "torch.__version__"),
    Field("torch.threads", "", "number", "state", 3, "host", "torch.get_num_threads()"),
    *_model("model"),
    *_model("head"),
    Field("cache.*", "", "table", "noise", 1, "launch", "names, sizes, tuned choices of the folder"),
    Field("cache.vllm_autotune", "", "table", "state", 2, "launch", "autotune files, hashed"),
    Field("cache.sglang_autotune", "", "table", "state", 2, "launch", "autotune files, hashed"),
    Field("process.observers", "", "list", "state", 3, "host", "the interpreter's hooks, torch's profiler, TracerPid"),
    Field("process.affinity", "", "text", "state", 3, "host", "/proc/PID/status"),
    Field("process.nice", "", "number", "state", 2, "contention", "/proc/PID/stat"),
    Field("process.locked_memory", "bytes", "text", "state", 1, "link", "/proc/PID/limits"),
    Field("process.open_files", "", "text", "state", 0, "nothing", "/proc/PID/limits"),
    Field("process.executable", "", "text", "identity", 1, "code", "/proc/PID/exe"),
    Field("process.folder", "", "text", "state", 0, "nothing", "/proc/PID/cwd"),
    Field("process.environ", "", "number", "state", 0, "nothing", "/proc/PID/environ"),
    Field("process.maps", "", "number", "noise", 0, "nothing", "/proc/PID/maps"),
    Field("process.pid", "", "number", "noise", 0, "nothing", "the process asked about"),
    Field("process.uptime", "s", "number", "noise", 1, "acceptance", "/proc/PID/stat"),
    Field("process.threads", "", "number", "noise", 0, "host", "/proc/PID/status"),
    Field("probe.*", "", "text", "noise", 0, "nothing", "a group of fields that could not be read at all"),
    Field("process.switches", "", "counter", "noise", 1, "contention", "involuntary switches, /proc/PID/status"),
)
