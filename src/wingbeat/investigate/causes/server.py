"""Other limits of the server: memory, chunking, scheduling, parallelism."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="server",
    family="configuration",
    question="Is the server configured another way?",
    predicts=(ANY,),
    watches=tuple(
        Watch(f"setting.{name}")
        for name in (
            "[tdep]p", "[tdep]p_size", "*_parallel_size", "enable_expert_parallel", "mem_fraction_static",
            "gpu_memory_utilization", "chunked_prefill_size", "max_num_batched_tokens", "enable_dp_attention",
            "disable_radix_cache", "enable_prefix_caching", "disable_overlap_schedule", "schedule_*", "stream_interval",
            "moe_*", "speculative_moe_*", "numa_bind", "async_scheduling", "decode_log_interval",
        )
    ),
    decides=("setting.arguments",),
    shape="whatever the setting does; the same in every launch",
    see="a run recorded with its settings",
    experiments=("configuration",),
    near=2,
)  # fmt: skip
