"""Other libraries: attention and matrix kernels, the compiler, or the server itself."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch
from wingbeat.probe.registry.software import ENGINES

CAUSE = Cause(
    key="library",
    family="software",
    question="Is it another kernel library or server?",
    predicts=(ANY,),
    watches=(
        *(Watch(f"installed.{name}") for name in ENGINES if "nccl" not in name and name != "torch"),
        Watch("loaded.cublas*"), Watch("loaded.cudnn*"), Watch("loaded.cudart*"), Watch("loaded.torch*"),
        Watch("loaded.gomp"), Watch("loaded.iomp"), Watch("loaded.allocator"), Watch("python"),
    ),
    decides=("python.packages",),
    shape="whatever the other code does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("library",),
    near=2,
)  # fmt: skip
