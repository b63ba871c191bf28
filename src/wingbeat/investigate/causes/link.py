"""The PCIe link: fewer lanes or a lower generation under load, or errors that are sent again."""

from wingbeat.investigate.causes.shapes import TARGET_STEPS
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="link",
    family="devices",
    question="Is a PCIe link slower, narrower or faulty?",
    predicts=(
        TARGET_STEPS,
        Prediction("everything that is exchanged between GPUs", moves=("verify", "plain"), stays=("tokens",)),
        Prediction("copies between host and GPU", moves=("host",), stays=("tokens",)),
        Prediction("prefill alone", moves=("prefill",), stays=("tokens", "verify")),
    ),
    watches=(
        Watch("load.gpu.*.pcie.generation", "less"), Watch("load.gpu.*.pcie.width", "less"),
        Watch("gpu.*.pcie.width", "less"), Watch("gpu.*.pcie.*.max", "less"),
        Watch("load.gpu.*.pcie.slowest", "less"), Watch("gpu.*.pcie.slowest", "less"),
        Watch("gpu.*.pcie.generation.host", "less"), Watch("gpu.*.pcie.path"), Watch("gpu.*.pcie.replays", "more"),
        Watch("gpu.*.pcie.errors", "more"), Watch("kernel.errors", "more"), Watch("aspm"), Watch("gpu.*.pcie.aspm"),
        Watch("gpu.*.pcie.runtime_pm"), Watch("bus.payload"), Watch("calibration.copy_*", "more"),
    ),
    decides=("load.gpu.*.pcie.generation", "load.gpu.*.pcie.width"),
    shape="grows with the bytes exchanged: width x batch; prefill most",
    see="`wingbeat fingerprint --under-load`",
    experiments=("link", "load"),
    near=3,
    needs="devices",
)  # fmt: skip
