"""Other environment variables, or variables that did not reach the workers."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

STARTS = (
    "CUDA_", "TORCH", "PYTORCH_", "TRITON_", "VLLM_", "SGLANG_", "SGL_", "FLASHINFER_", "CUBLAS_", "TRTLLM_", "HSA_",
    "HIP_", "GPU_", "MALLOC_", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONMALLOC", "KMP_", "RAY_",
)  # fmt: skip
CAUSE = Cause(
    key="environment",
    family="software",
    question="Are environment variables others, or lost on the way to the workers?",
    predicts=(ANY,),
    watches=(
        *(Watch(f"{place}.{start}*") for start in STARTS for place in ("env", "workers.env")),
        Watch("workers.lost"),
        Watch("workers.skew"),
    ),
    decides=("process.environ",),
    shape="whatever the variable does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server, with its workers",
    experiments=("environment",),
    near=2,
)
