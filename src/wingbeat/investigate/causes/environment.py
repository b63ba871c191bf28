"""Other environment variables, or variables that did not reach the workers."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch
from wingbeat.probe.process import PREFIXES

ELSEWHERE = ("NCCL_", "RCCL_", "UCX_", "OMP_", "MKL_", "KMP_")  # other causes look at these
PLACES = ("HF_", "HUGGING_FACE_", "VIRTUAL_ENV", "CONDA_PREFIX")  # where files lie: these are looked at themselves
STARTS = [start for start in PREFIXES if start not in (*ELSEWHERE, *PLACES)]
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
