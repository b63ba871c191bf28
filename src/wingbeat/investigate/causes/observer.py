"""Measuring itself: a profiler, extra logging or synchronising on one side."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, SLOWER_CYCLES, WHILE_MEASURED
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="observer",
    family="measurement conditions",
    question="Did a profiler or extra logging run on one side?",
    predicts=(ALL_PHASES, WHILE_MEASURED, SLOWER_CYCLES),
    watches=tuple(
        Watch(pattern)
        for pattern in (
            "setting.profile*", "setting.enable_profil*", "setting.trace*", "run.observer", "process.observers",
            "setting.torch_profiler*",
            "env.CUDA_LAUNCH_BLOCKING", "env.NCCL_DEBUG*", "env.TORCH_LOGS", "env.*PROFIL*", "env.NSYS_*", "env.NVTX_*",
            "env.CUDA_INJECTION64_PATH", "env.TORCH_SHOW_*", "env.VLLM_CUSTOM_SCOPES_FOR_PROFILING",
            "env.VLLM_NVTX_SCOPES_FOR_PROFILING", "env.SGLANG_RECORD_STEP_TIME", "setting.log_level",
        )
    ),
    decides=("run.observer", "process.observers"),
    shape="a constant time for every launch of work; gone without it",
    see="a note of how each figure was taken, or a second run without the profiler",
    experiments=("unobserved", "repeat"),
    near=3,
)  # fmt: skip
