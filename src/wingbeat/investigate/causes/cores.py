"""Fewer cores: quota, affinity, threads."""

from wingbeat.investigate.causes.shapes import ALL_ON_THE_CPU, BETWEEN_PHASES, ON_THE_CPU
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="cores",
    family="machine",
    question="Has the process fewer cores or threads?",
    predicts=(BETWEEN_PHASES, ALL_ON_THE_CPU, ON_THE_CPU),
    watches=(
        Watch("torch.threads", "less"), Watch("setting.threads", "less"), Watch("cpu.usable_cores", "less"),
        Watch("cpu.cores", "less"), Watch("cgroup.cpu.quota", "less"), Watch("cgroup.cpu.throttled", "more"),
        Watch("load.cpu.throttled", "more"), Watch("cgroup.cpus"), Watch("process.affinity"),
        Watch("workers.affinity"), Watch("process.nice", "more"), Watch("env.OMP_*"), Watch("env.MKL_*"),
        Watch("env.KMP_AFFINITY"),
    ),
    decides=("process.affinity|cpu.usable_cores", "cgroup.cpu.quota", "torch.threads|setting.threads|process.environ"),
    shape="one ratio on a CPU engine; on a GPU more time between its phases",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("threads",),
    near=3,
)  # fmt: skip
