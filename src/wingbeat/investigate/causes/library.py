"""Other libraries: attention and matrix kernels, the compiler, or the server itself."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

PACKAGES = (
    "vllm*", "sgl*", "wingbeat", "transformers", "ray", "triton*", "pytorch-triton*", "flash*", "xformers", "torchao",
    "deep-*", "nvidia-c*", "nvidia-nv[js]*", "cuda-*", "tilelang*", "aiter", "amd-*", "mscclpp*", "compressed-tensors",
    "lmcache*", "kernels", "mkl", "intel-*",
)  # fmt: skip
CAUSE = Cause(
    key="library",
    family="software",
    question="Is it another kernel library or server?",
    predicts=(ANY,),
    watches=(
        *(Watch(f"installed.{name}") for name in PACKAGES),
        Watch("loaded.cublas*"), Watch("loaded.cudnn*"), Watch("loaded.cudart*"), Watch("loaded.torch*"),
        Watch("loaded.hip"), Watch("loaded.mkl"), Watch("loaded.openblas"), Watch("loaded.gomp"), Watch("loaded.iomp"),
        Watch("loaded.libc"), Watch("loaded.allocator"), Watch("python"),
    ),
    decides=("python.packages", "process.maps"),
    shape="whatever the other code does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("library",),
    near=2,
)  # fmt: skip
