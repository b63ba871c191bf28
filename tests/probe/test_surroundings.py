"""The bus, the kernel modules, control groups and containers, on captured machines."""

import pytest

from wingbeat.probe import bus, container
from wingbeat.probe.host import CapturedHost
from wingbeat.probe.reading import Reading, guarded, unknown

DEVICE, BRIDGE, PORT = "0000:1b:00.0", "0000:1a:00.0", "0000:19:01.0"
AT = bus.DEVICES
LINK = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def link(device, *values):
    return {f"{AT}/{device}/{name}": value for name, value in zip(LINK, values, strict=True)}


def test_the_path_of_a_device_goes_through_its_bridges():
    files = {
        **link(DEVICE, "32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"),
        **link(BRIDGE, "16.0 GT/s PCIe", "8", "32.0 GT/s PCIe", "16"),
        **link(PORT, "16.0 GT/s PCIe", "8", "32.0 GT/s PCIe", "16"),
        f"{AT}/{PORT}/aer_dev_correctable": "RxErr 0\nBadTLP 5\nTOTAL_ERR_COR 5",
        f"{AT}/{BRIDGE}/aer_dev_correctable": "RxErr 2\nTOTAL_ERR_COR 2",
        f"{AT}/{DEVICE}/numa_node": "1", f"{AT}/{DEVICE}/power/control": "on",
        f"{AT}/{DEVICE}/link/l1_aspm": "1", f"{AT}/{DEVICE}/link/l0s_aspm": "0",
    }  # fmt: skip
    real = f"/sys/devices/pci0000:19/{PORT}/{BRIDGE}/{DEVICE}"

    def read(files):
        host = CapturedHost(files, {}, {f"{AT}/{DEVICE}": real})
        return bus.device_fields(host, Reading("value", "00000000:1B:00.0"))

    found = read(files)
    path = found["pcie.path"].value
    assert [(one["device"], one["max_link_width"]) for one in path] == [(DEVICE, "16"), (BRIDGE, "16"), (PORT, "16")]
    assert (found["pcie.slowest"].value, found["pcie.errors"].value, found["numa"].value) == (128.0, 7, 1)
    assert (found["pcie.generation.host"].value, found["pcie.aspm"].value) == (5, ["l1_aspm"])
    assert found["pcie.runtime_pm"].value == "on"
    idle = read({**files, f"{AT}/{DEVICE}/current_link_speed": "2.5 GT/s PCIe"})
    assert (idle["pcie.path"].value, idle["pcie.slowest"].value) == (path, 40.0)
    odd = read({**files, f"{AT}/{PORT}/current_link_speed": "Unknown"})
    assert odd["pcie.slowest"].state == "unknown"


def test_a_path_that_is_not_told_is_unknown():
    for place in (Reading("value", "0000:00:05.0"), unknown("no permission")):
        found = bus.device_fields(CapturedHost({}, {}), place)
        assert {reading.state for reading in found.values()} == {"unknown"}


def read(probes, host):
    return {name: guarded(one, host) for name, one in probes.items()}


def test_a_module_updated_without_a_reboot():
    files = {
        "/sys/module/nvidia/version": "590.44.01",
        "/sys/module/nvidia/srcversion": "ABC",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module  590.44.01",
        "/proc/driver/nvidia/params": "EnableResizableBar: 0\n",
        "/sys/kernel/iommu_groups/1/type": "DMA-FQ\n",
        "/sys/kernel/iommu_groups/2/type": "identity\n",
        "/sys/module/pcie_aspm/parameters/policy": "default [performance] powersave",
    }
    log = "[1] usb 1-1: new\n[9] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    log += "\n[10] pcieport: AER: corrected"
    commands = {"modinfo -F version nvidia": "590.48.01", "modinfo -F license nvidia": "Dual MIT/GPL"}
    found = read(bus.probes(CapturedHost(files, {**commands, "dmesg --color=never": log})), CapturedHost({}, {}))
    assert (found["nvidia.module"].value, found["nvidia.module.on_disk"].value) == ("590.44.01", "590.48.01")
    assert (found["nvidia.module.licence"].value, found["iommu"].value) == ("Dual MIT/GPL", "DMA-FQ, identity")
    assert found["aspm"].value == "performance"
    assert found["kernel.errors"].value == 2
    assert "fallen off the bus" in found["kernel.errors"].raw
    assert found["nvidia.module.pending"].value == "590.44.01 runs, 590.48.01 is on disk: a reboot changes it"
    assert found["amdgpu.module"].state == found["amdgpu.module.on_disk"].state == "not applicable"


def test_a_kernel_log_without_permission_is_unknown():
    host = CapturedHost({}, {"dmesg --color=never": (1, "dmesg: read kernel buffer failed: Operation not permitted")})
    found = read(bus.probes(host), host)
    assert found["kernel.errors"].state == "unknown"
    assert "not permitted" in found["kernel.errors"].reason
    assert found["iommu"].state == "unknown"
    for files, state in ({"/sys/class/iommu": ""}, "off"), ({"/sys/class/iommu/dmar0": ""}, "on"):
        assert bus.iommu(CapturedHost(files, {})) == state


@pytest.mark.parametrize(
    ("disk", "expected"), [("ABC", "none"), ("DEF", "ABC runs, DEF is on disk: a reboot changes it")]
)
def test_a_module_built_again_under_the_same_version(disk, expected):
    files = {"/sys/module/nvidia/version": "590.48.01", "/sys/module/nvidia/srcversion": "ABC"}
    told = {"modinfo -F version nvidia": "590.48.01", "modinfo -F srcversion nvidia": disk}
    assert bus.pending(CapturedHost(files, told), "nvidia") == expected
    hidden = guarded(lambda: bus.pending(CapturedHost(files, {}), "nvidia"))
    assert hidden.state == "unknown"


LSPCI = """0000:19:01.0 PCI bridge: Intel Corporation Device 352a (prog-if 00 [Normal decode])
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\tCapabilities: [140 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-

0000:1b:00.0 3D controller: NVIDIA Corporation GH100
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0, Latency L0s unlimited
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes
"""


def test_what_lspci_tells_of_the_way_between_devices():
    files = {f"{AT}/{DEVICE}/vendor": bus.NVIDIA, f"{AT}/{DEVICE}/class": "0x030200"}

    def told(files, said):
        return read(bus.probes(CapturedHost(files, {"lspci -D -vvv": said})), CapturedHost({}, {}))

    found = told(files, LSPCI)
    assert found["bus.acs"].value == [PORT]
    assert found["bus.payload"].value == {DEVICE: "256 bytes, MaxReadReq 4096"}
    assert told(files, LSPCI.replace("ReqRedir+", "ReqRedir-"))["bus.acs"].value == []
    denied = told(files, f"{PORT} PCI bridge: x\n\tCapabilities: <access denied>")
    assert denied["bus.acs"].state == denied["bus.payload"].state == "unknown"
    assert told({}, LSPCI)["bus.acs"].state == "not applicable"


V2 = {
    "/proc/7/cgroup": "0::/kubepods/pod1/box",
    "/sys/fs/cgroup/kubepods/pod1/cpu.max": "150000 100000",
    "/sys/fs/cgroup/kubepods/pod1/box/cpu.stat": "usage_usec 10\nnr_periods 9\nnr_throttled 4\nthrottled_usec 2500",
    "/sys/fs/cgroup/kubepods/pod1/box/memory.max": "max",
    "/sys/fs/cgroup/cpuset.cpus.effective": "0-7",
    "/proc/1/cgroup": "0::/kubepods/pod1/box",
    "/proc/cpuinfo": "flags\t: fpu hypervisor lm",
}
V1 = {
    "/proc/7/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n0::/",
    "/proc/7/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
    "/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1",
    "/sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
    "/sys/fs/cgroup/cpu/box/cpu.stat": "nr_periods 0\nnr_throttled 2\nthrottled_time 5000000",
    "/sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1048576",
}


def test_control_groups_of_both_versions():
    new, old = (read(container.probes(host, 7), host) for host in (CapturedHost(V2, {}), CapturedHost(V1, {})))
    assert (new["cgroup.cpu.quota"].value, new["cgroup.cpus"].value) == (1.5, "0-7")
    assert new["cgroup.cpu.throttled"].value == {"times": 4, "us": 2500}
    assert new["cgroup.memory.limit"].state == old["cgroup.cpu.quota"].state == "not applicable"
    assert (new["container"].value, new["virtual_machine"].value) == ("kubepods", "unnamed")
    assert old["cgroup.cpu.throttled"].value == {"times": 2, "us": 5000}
    assert old["cgroup.memory.limit"].value == 1048576
    assert (old["cgroup.cpus"].state, old["container"].value) == ("unknown", "none")


@pytest.mark.parametrize(("said", "expected"), [("kvm", "kvm"), ((1, "none"), "none")])
def test_what_systemd_says_of_the_machine(said, expected):
    assert container.virtual_machine(CapturedHost(V2, {"systemd-detect-virt --vm": said})) == expected
