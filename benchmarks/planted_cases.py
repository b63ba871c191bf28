"""Cases with a known answer, from public threads: what changed, and how the figures moved.

A case: where it comes from; the causes that count as right (none: nothing that was observed is the cause); moves:
factors of figures; fields, settings, counters: before and after ("*": every GPU); rig: "gpu" (2), "one" GPU or "cpu".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Pairs = dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Planted:
    """figures: before and after, in place of what `moves` makes of the usual ones; course: how the cycles of the side
    after went over time; single: one launch a side; only: the figures that are known (empty: all)."""

    thread: str
    right: tuple[str, ...]
    moves: dict[str, float] = field(default_factory=dict)
    fields: Pairs = field(default_factory=dict)
    settings: Pairs = field(default_factory=dict)
    counters: Pairs = field(default_factory=dict)
    figures: Pairs = field(default_factory=dict)
    calibration: Pairs = field(default_factory=dict)
    rig: str = "gpu"
    course: str = ""
    single: bool = False
    only: tuple[str, ...] = ()


def uniform(by: float) -> dict[str, float]:
    """Every phase longer by one factor."""
    return {"draft": by, "verify": by, "host": by, "plain": by, "ttft": by}


def steps(by: float) -> dict[str, float]:
    """Verify and plain decoding longer by one factor."""
    return {"verify": by, "plain": by}


CLOCK, GENERATION, WIDTH = "load.gpu.*.clock.sm", "load.gpu.*.pcie.generation", "load.gpu.*.pcie.width"
SPEED = ("tokens_per_second", "tokens_per_cycle")

CAUSED = (
    Planted("club-3090#1098", ("topology",), steps(1.6), {"gpu.topology": (["GPU0 GPU1 PHB"], ["GPU0 GPU1 NODE"])}),
    Planted("rtx6kpro PR#88", ("link",), {**steps(1.4), "ttft": 1.9}, {GENERATION: (5, 2)}),
    Planted("open-gpu-kernel-modules#1010", ("link",), {**steps(1.7), "ttft": 2.5}, {GENERATION: (4, 1)}),
    Planted("vllm#14628", ("link",), steps(1.3), {WIDTH: (16, 8)}, counters={"gpu.*.pcie.replays": (0, 4100)}),
    Planted("nccl#2079", ("topology",), steps(1.5), {"iommu": ("identity", "DMA")}),
    Planted("nccl#2094", ("nccl",), steps(1.15), {"loaded.nccl": ("libnccl.so.2.28.3", "libnccl.so.2.29.2")}),
    Planted("sparkring#193", ("nccl_settings",), steps(1.3), {"env.NCCL_MIN_NCHANNELS": ("8", None)}),
    Planted("NeMo-RL#601", ("environment",), steps(1.4), {"workers.lost": ([], ["NCCL_P2P_LEVEL"])}),
    Planted("vllm PR#16992", ("nccl_settings",), steps(1.25), {"env.NCCL_CUMEM_ENABLE": ("1", "0")}),
    Planted("vllm#56128", ("nccl_settings",), steps(1.35), settings={"disable_custom_all_reduce": (False, True)}),
    Planted("sglang PR#37746", ("nccl_settings",), {"tokens": 0.645}, settings={"all_reduce_backend": ("a", "auto")}),
    Planted("club-3090#585", ("clocks",), uniform(1.11), {CLOCK: (1800, 1600), "gpu.*.power.limit": (370, 250)}),
    Planted("club-3090#104", ("clocks",), uniform(1.5), {CLOCK: (1800, 1200), "gpu.*.power.limit": (370, 230)}),
    Planted("llm-rig#97", ("thermal",), uniform(1.2), {"load.gpu.*.temperature": (66, 91)},
            counters={"gpu.*.slowed.thermal": (0, 9e6)}),
    Planted("club-3090#178", ("thermal", "clocks"), uniform(1.25), {CLOCK: (1800, 1450)},
            counters={"gpu.*.slowed.hardware_thermal": (0, 5e6)}),
    Planted("Isaac-GR00T#379", ("clocks",), uniform(1.8), {CLOCK: (2400, 1300)}),
    Planted("vllm#2057", ("driver",), uniform(1.39), {"nvidia.driver": ("531.79", "536.23")}),
    Planted("vllm#27325", ("captured",), {"verify": 1.25}, settings={"cudagraph_mode": ("FULL", "PIECEWISE")}),
    Planted("sglang#4247", ("captured",), {}, settings={"disable_cuda_graph": (False, True)}, single=True, only=SPEED,
            figures={"tokens_per_second": (378.0, 276.0), "tokens_per_cycle": (5.39, 5.36)}),
    Planted("fastrl PR#4", ("captured",), {"verify": 1.2, "draft": 1.3}, figures={"captured": (1.0, 0.0)}),
    Planted("sglang PR#29202", ("captured",), {"draft": 3.0},
            {"env.SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": (None, "1")}),
    Planted("sglang PR#40346", ("captured",), {"verify": 2.0, "draft": 2.0}, settings={"cuda_graph_max_bs": (128, 8)}),
    Planted("sglang PR#18364", ("attention",), {"tokens": 0.75}, settings={"attention_backend": ("fa2", "fa3")}),
    Planted("sglang PR#13976", ("attention",), {"verify": 2.0},
            settings={"speculative_attention_mode": ("decode", "prefill")}),
    Planted("sglang#4360", ("attention",), {"verify": 4.0}, settings={"attention_backend": ("flashinfer", "triton")}),
    Planted("MLA expanded", ("attention",), {"verify": 1.53},
            {"env.VLLM_ATTENTION_BACKEND": ("FLASHMLA", "TRITON_MLA")}),
    Planted("flashinfer#3920", ("launch",), steps(1.09), {"cache.vllm_autotune": ({"a": "1f"}, {"a": "9c"})}),
    Planted("legacy-rocm-build#6347", ("launch",), course="bimodal"),
    Planted("vllm#43078", ("warmup",), course="warm-up"),
    Planted("JIT in the timed window", ("compilation",), course="compilation"),
    Planted("vllm#3520", ("leak",), course="drift"),
    Planted("vllm#52884", ("draft_cache",), {"tokens": 0.8, "ttft": 0.2}, figures={"prefix_hits": (0.0, 0.86)}),
    Planted("vllm#41838", ("draft_cache",), {"tokens": 0.72}, {"process.uptime": (600, 190000)}),
    Planted("triton server#4875", ("cpu",), {"host": 6.0}, {"cpu.governor": ({"performance": 64}, {"powersave": 64})}),
    Planted("vllm PR#30492", ("numa",), {"host": 9.0},
            {"numa.balancing": ("0", "1"), "numa.nodes": ({"node0": "0-31", "node1": "32-63"},) * 2}),
    Planted("qwen38-27b-rtx3090#3", ("cores",), {"host": 20.0}, {"cgroup.cpu.quota": (32.0, 4.0)}),
    Planted("vllm PR#1125", ("shared_memory",), {"host": 7.0}, {"container.shared_memory": (64 << 30, 64 << 20)}),
    Planted("exllamav2#153", ("tenants",), uniform(1.5), {"gpu.*.others": (0, 1)}),
    Planted("vllm-ascend#72", ("observer",), {"verify": 1.3, "draft": 1.3}, settings={"profile": (False, True)}),
    Planted("CUDA_LAUNCH_BLOCKING", ("observer",), {"verify": 1.4, "draft": 1.6, "plain": 1.3},
            {"env.CUDA_LAUNCH_BLOCKING": (None, "1")}),
    Planted("tokenspeed#1305", ("prompts",), {"tokens": 0.5}, settings={"template": ("ab12", None)}),
    Planted("sglang PR#4716", ("prompts",), {"tokens": 0.41}, settings={"sha256": ("aa" * 32, "bb" * 32)}),
    Planted("aiperf#1046", ("prompts",), {"tokens": 0.6}, settings={"dataset_name": ("sharegpt", "random")}),
    Planted("EAGLE#143", ("sampling",), {"tokens": 0.71}, settings={"temperature": (0.0, 1.0)}),
    Planted("vllm#43009", ("sampling",), {"tokens": 0.8}, {"model.generation_config": ("1a", "2b")}),
    Planted("sglang#9345", ("sampling",), {"verify": 1.7}, settings={"temperature": (0.0, 0.6)}),
    Planted("vllm#40551", ("sampling",), {"tokens": 0.85}, settings={"rejection_sample_method": ("block", "strict")}),
    Planted("imp#964", ("context",), {"verify": 1.5, "plain": 1.2}, figures={"context": (900, 9000)}),
    Planted("vllm#54691", ("output_length",), {"verify": 1.3}, settings={"max_tokens": (128, 2048)}),
    Planted("sglang PR#34290", ("concurrency",), {"verify": 1.9}, settings={"max_running_requests": (128, 48)}),
    Planted("sglang#4759", ("concurrency",), {"verify": 3.0}, settings={"concurrency": (1, 128)}),
    Planted("vllm#42508", ("definition",), {"tokens": 1.3, "speed": 1.0},
            settings={"definition": ("accepted of drafted", "with the target's own")}),
    Planted("vllm#26191", ("library",), {"tokens": 0.85}, {"installed.vllm": ("0.10.1", "0.11.0")}),
    Planted("sglang#32787", ("library",), steps(1.26), {"installed.sgl-kernel": ("0.3.8", "0.3.9")}),
    Planted("sglang#7568", ("library",), single=True, only=("tokens_per_second",),
            fields={"installed.sglang": ("0.4.6", "0.4.8")}, figures={"tokens_per_second": (27.0, 20.0)}),
    Planted("sglang PR#21272, as reported", ("speculation",), single=True, only=SPEED,
            settings={"speculative_algorithm": ("EAGLE3", "EAGLE")},
            figures={"tokens_per_second": (170.0, 61.0), "tokens_per_cycle": (2.8, 1.0)}),
    Planted("club-3090#104, as reported", ("clocks",), single=True, only=("tokens_per_second",),
            fields={CLOCK: (1800, 1190), "gpu.*.power.limit": (370, 230)},
            figures={"tokens_per_second": (100.0, 66.0)}),
    Planted("vllm#31030", ("library",), uniform(2.1), {"installed.vllm": ("0.10.2", "0.12.0")}),
    Planted("llama.cpp#26024", ("library",), uniform(3.0),
            {"loaded.cudart": ("libcudart.so.12", None), CLOCK: (1905, 1710)}),
    Planted("torch upgraded", ("torch",), steps(1.2), {"installed.torch": ("2.10.0", "2.11.0")}),
    Planted("half the GPUs", ("server",), steps(1.7), settings={"tp_size": (2, 1)}),
    Planted("sglang PR#34528", ("all_reduce",), {"verify": 1.5}, calibration={"all_reduce_256k": (40.0, 95.0)}),
    Planted("vllm#39963", ("client",), settings={"client": ("a", "b")}, figures={"tokens_per_second": (108.0, 60.0)}),
    Planted("vllm#45741", ("code",), uniform(8.0), {"git.commit": ("5c1e", "77ab")}),
    Planted("sglang#32582", ("code",), steps(3.0), {"editable.sglang": ("30924~1", "30924")}),
    Planted("patched wheel", ("patches",), {"draft": 3.0},
            {"packages.patched": ([], ["vllm/v1/spec_decode/eagle.py"])}),
    Planted("sglang PR#21272", ("speculation",), {"tokens": 0.39},
            settings={"speculative_algorithm": ("EAGLE3", "EAGLE")}),
    Planted("sglang#8228", ("speculation",), {"tokens": 0.8}, settings={"speculative_num_draft_tokens": (3, 2)}),
    Planted("rtx6kpro PR#10", ("speculation",), {"verify": 1.3, "draft": 2.5},
            settings={"speculative_num_steps": (1, 3)}),
    Planted("llama.cpp#25908", ("speculation",), {"tokens": 0.6}, settings={"p_min": (0.75, 0.0)}),
    Planted("vllm PR#43671", ("head",), {"tokens": 0.45}, {"head.config": ("aa", "ab")},
            figures={"acceptance_1": (0.45, 0.10), "acceptance_2": (0.3, 0.02)}),
    Planted("vllm PR#50170", ("head",), {"tokens": 0.4}, {"head.config": ("aa", "ac")}),
    Planted("SpecForge#265", ("head",), {"tokens": 0.88}, {"head.config": ("aa", "ad")},
            figures={"acceptance_1": (0.75, 0.74), "acceptance_2": (0.6, 0.42)}),
    Planted("shuffled vocabulary", ("head",), {"tokens": 0.4}, {"head.weights": ("aa", "ae")},
            figures={"acceptance_1": (0.75, 0.01), "acceptance_2": (0.6, 0.0)}),
    Planted("speculators#751", ("undertrained",), {"tokens": 0.8}, {"head.weights": ("aa", "af")},
            figures={"acceptance_1": (0.75, 0.55), "acceptance_2": (0.6, 0.35)}),
    Planted("sglang-omni weights", ("target",), {"tokens": 0.8}, {"model.weights": ("aa", "b0")}),
    Planted("quantised target", ("precision",), {"tokens": 0.7, "verify": 0.85},
            settings={"quantization": (None, "fp8")}),
    Planted("V4.1-Flash DGX Spark#1", ("platform",), uniform(1.5), calibration={"memory_read": (230, 152)}),
    Planted("minefield PR#55", ("platform", "clocks"), uniform(1.9), {CLOCK: (2400, 1250)},
            calibration={"matrix_product": (90, 48)}),
    Planted("lium-io#1229", ("clocks",), uniform(0.8),
            {"boot_id": ("b1", "b2"), "gpu.*.power.limit": (350, 450), CLOCK: (1500, 1850)}),
    Planted("reset by a reboot", ("reboot",), uniform(1.3), {"boot_id": ("b1", "b2")}),
    Planted("SGLANG_SIMULATE_ACC_LEN", ("degenerate",), {"tokens": 1.5},
            {"env.SGLANG_SIMULATE_ACC_LEN": (None, "3.5")}),
    Planted("GPU swapped", ("hardware",), uniform(1.6), {"gpu.*.name": ("NVIDIA H100", "NVIDIA A100")}),
    Planted("threads on a CPU", ("cores",), uniform(1.8), {"torch.threads": (2, 1)}, rig="cpu"),
    Planted("taskset on a CPU", ("cores",), uniform(1.9), rig="cpu",
            fields={"cpu.usable_cores": (2, 1), "process.affinity": ("0-1", "0")}),
    Planted("a neighbour on a CPU", ("tenants",), uniform(1.5), {"pressure.cpu": (1.0, 81.0)}, rig="cpu",
            counters={"cpu.steal": (3, 4000)}),
    Planted("float32 on a CPU", ("precision",), uniform(1.9), settings={"dtype": ("bfloat16", "float32")}, rig="cpu"),
    Planted("eager on a CPU", ("captured",), {"verify": 1.4}, settings={"extend": (False, True)}, rig="cpu"),
    Planted("an override of TF32", ("environment",), steps(1.3), {"env.NVIDIA_TF32_OVERRIDE": (None, "0")}),
    Planted("BLAS threads in the workers", ("environment",), {"host": 8.0},
            {"workers.env.OPENBLAS_NUM_THREADS": ("8", "1")}),
    Planted("no DMA-BUF", ("nccl_settings",), steps(1.2), {"env.NCCL_DMABUF_ENABLE": ("1", "0")}),
    Planted("other cubins", ("library",), {"verify": 1.4}, {"installed.flashinfer-cubin": ("0.3.0", "0.4.0")}),
    Planted("cuDNN of CUDA 13", ("library",), steps(1.2), {"installed.nvidia-cudnn-cu13": ("9.10", "9.13")}),
    Planted("another MKL", ("library",), uniform(1.3), {"loaded.mkl": ("2024.2", "2025.1")}, rig="cpu"),
    Planted("half the GPUs, by a short flag", ("server",), steps(1.7),
            {"process.argv": (["serve", "-tp", "2"], ["serve", "-tp", "1"])}),
    Planted("half the GPUs for the draft", ("server",), {"draft": 1.8},
            settings={"draft_tensor_parallel_size": (2, 1)}),
    Planted("no padding to captured sizes", ("captured",), {"verify": 1.4},
            settings={"disable_cuda_graph_padding": (False, True)}),
    Planted("attention of the draft", ("attention",), {"draft": 3.0},
            settings={"speculative_draft_attention_backend": ("fa3", "triton")}),
    Planted("longer contexts, less accepted", ("context",), {"tokens": 0.6}, figures={"context": (900, 9000)}),
    Planted("sglang PR#37745", ("all_reduce",), {"tokens": 0.645},
            settings={"enable_flashinfer_allreduce_fusion": (False, True)}),
    Planted("llm-rig#97, cycle by cycle", ("thermal",), {"plain": 1.25}, course="drift",
            counters={"gpu.*.slowed.thermal": (0, 9e6)}),
    Planted("since the server started", ("definition",), {"tokens": 1.3, "speed": 1.0},
            settings={"definition": ("with the target's own",) * 2, "over": ("the run", "since the server started")}),
    Planted("template of the server", ("prompts",), {"tokens": 0.5}, {"model.chat_template": ("aa", "ab")}),
    Planted("tokenizers upgraded", ("tokenizer",), {"host": 7.0}, {"installed.tokenizers": ("0.21.0", "0.22.0")}),
    Planted("governor on a CPU", ("cpu",), uniform(1.4), {"cpu.governor": ({"performance": 8}, {"powersave": 8})},
            rig="cpu"),
)  # fmt: skip

INNOCENT = (
    Planted("the same again", ()),
    Planted("the same again, one launch", (), single=True),
    Planted("the same again on a CPU", (), rig="cpu"),
    Planted("the same again, one GPU", (), rig="one"),
    Planted("vllm#53436: spread of acceptance", (), {"tokens": 0.97}, single=True),
    Planted("speculators PR#793: noise", (), {"tokens": 0.94}, single=True, only=SPEED),
    Planted("dead end: verify", (), {"verify": 1.53}),
    Planted("dead end: verify, lower clock", (), {"verify": 1.53}, {CLOCK: (2430, 2320)}),
    Planted("dead end: acceptance", (), {"tokens": 0.75}),
    Planted("dead end: everything", (), uniform(1.3)),
    Planted("dead end: drafting", (), {"draft": 3.0}),
    Planted("dead end: host", (), {"host": 8.0}),
    Planted("dead end on a CPU", (), uniform(1.4), rig="cpu"),
    Planted("another driver, the same speed", (), {}, {"nvidia.driver": ("580.65", "590.48")}),
    Planted("another driver, other acceptance", (), {"tokens": 0.8}, {"nvidia.driver": ("580.65", "590.48")}),
    Planted("a reboot, verify alone", (), {"verify": 1.5}, {"boot_id": ("b1", "b2")}),
    Planted("a reboot, other acceptance", (), {"tokens": 0.8}, {"boot_id": ("b1", "b2")}),
    Planted("less power, and faster", (), uniform(0.8), {"gpu.*.power.limit": (450, 350)}),
    Planted("a link at rest", (), {"verify": 1.5}, {"gpu.*.pcie.generation": (5, 1)}),
    Planted("a clock at rest", (), uniform(1.3), {"gpu.*.clock.sm": (2400, 210), "gpu.*.pstate": ("P0", "P8")}),
    Planted("governor, verify alone", (), {"verify": 1.5}, {"cpu.governor": ({"performance": 64}, {"powersave": 64})}),
    Planted("another NCCL, one GPU", (), {"verify": 1.5}, {"loaded.nccl": ("2.27", "2.28")}, rig="one"),
    Planted("another head, verify alone", (), {"verify": 1.5}, {"head.weights": ("aa", "bb")}),
    Planted("long uptime, verify alone", (), {"verify": 1.5}, {"process.uptime": (600, 190000)}),
    Planted("shorter contexts, and slower", (), {"verify": 1.4}, figures={"context": (9000, 2000)}),
    Planted("a package that does nothing here", (), {"verify": 1.5}, {"installed.rich": ("14.0", "14.1")}),
    Planted("a variable that does nothing here", (), {"tokens": 0.8}, {"env.TERM": ("xterm", "dumb")}),
    Planted("a warmer room", (), {"verify": 1.5}, {"gpu.*.temperature": (55, 64)}),
    Planted("a busy machine, other acceptance", (), {"tokens": 0.8}, {"pressure.cpu": (1.0, 70.0)}),
    Planted("topology, other acceptance", (), {"tokens": 0.8}, {"gpu.topology": (["PHB"], ["NODE"])}),
    Planted("little shared memory, other acceptance", (), {"tokens": 0.8},
            {"container.shared_memory": (64 << 30, 64 << 20)}),
    Planted("another head, configured otherwise, verify alone", (), {"verify": 1.5}, {"head.config": ("aa", "ab")}),
    Planted("template of the server, verify alone", (), {"verify": 1.5}, {"model.chat_template": ("aa", "ab")}),
    Planted("a tuned cache drawn anew, the same speed", (), {}, {"cache.vllm_autotune": ({"a": "1f"}, {"a": "9c"})}),
    Planted("a server just started", (), {"tokens": 0.8}, {"process.uptime": (5, 40)}),
    Planted("a server started anew, other acceptance", (), {"tokens": 0.8}, {"process.uptime": (190000, 600)}),
    Planted("a larger quota", (), {"host": 8.0}, {"cgroup.cpu.quota": (4.0, 32.0)}),
    Planted("lower clocks, drafting above all", (), {"draft": 3.0, "verify": 1.2, "plain": 1.2}, {CLOCK: (2400, 1700)}),
    Planted("fans at rest", (), uniform(1.3), {"gpu.*.fan": (70, 20)}),
    Planted("contexts a little longer", (), {"verify": 1.53}, figures={"context": (2000, 2240)}),
    Planted("more steps, everything slower", (), uniform(1.3), settings={"steps": (3, 4)}),
    Planted("numpy, verify alone", (), {"verify": 1.5}, {"installed.numpy": ("2.2.0", "2.3.0")}),
    Planted("tokenizers, verify alone", (), {"verify": 1.5}, {"installed.tokenizers": ("0.21.0", "0.22.0")}),
    Planted("weights read another way", (), {"verify": 1.5}, {"installed.safetensors": ("0.5.0", "0.6.0")}),
    Planted("NVML for Python", (), steps(1.3), {"installed.nvidia-ml-py": ("13.580", "13.590")}),
    Planted("files elsewhere", (), {"verify": 1.5}, {"env.HF_HOME": ("/a", "/b")}),
    Planted("less warm-up, and steady cycles", (), {"verify": 1.5}, settings={"warmup": (3, 1)}, course="steady"),
    Planted("a profiler, other acceptance", (), {"tokens": 0.8}, settings={"profile": (False, True)}),
    Planted("other ports and names", (), {"verify": 1.5},
            {"process.argv": (["serve", "--port", "1", "--name", "a"], ["serve", "--port", "2", "--name", "b"])}),
)  # fmt: skip

HARMLESS: Pairs = {  # changes that are put beside a cause
    "boot_id": ("b8", "b9"), "installed.rich": ("14.0", "14.1"), "env.TERM": ("xterm", "dumb"),
    "gpu.0.pcie.generation": (5, 1), "process.uptime": (700, 150000), "nvidia.driver": ("580.65", "590.48.01"),
    "container.shared_memory": (64 << 30, 32 << 30), "cpu.governor": ({"performance": 64}, {"schedutil": 64}),
    "gpu.0.ecc": ("on", "off"), "installed.transformers": ("5.0", "5.1"), "kernel.version": ("6.8.0-40", "6.8.0-45"),
}  # fmt: skip
