"""Devices in the forms in which drivers of several generations tell them (`nvidia-smi -q -x`); values are made up."""

from __future__ import annotations

from typing import Any

from smi import log

REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
    "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown",
)  # fmt: skip


def element(name: str, body: Any) -> str:
    """One element: of a text, of others by name, or the same several times."""
    if isinstance(body, list):
        return "".join(element(name, one) for one in body)
    inner = "".join(element(*one) for one in body.items()) if isinstance(body, dict) else body
    return f"<{name}>{inner}</{name}>"


def reasons(word: str, active: str = "", otherwise: str = "Not Active") -> dict[str, Any]:
    """The block about what holds the clocks back. word: "throttle" up to driver 535, "event" from 545 on."""
    told = {f"clocks_{word}_reason_{name}": "Active" if name == active else otherwise for name in REASONS}
    return {f"clocks_{word}_reasons": told}


def document(driver: str, cuda: str, *more: dict[str, Any]) -> str:
    """The whole document of one busy device, with what differs from one driver to the next."""
    link = {"max_link_gen": "4", "current_link_gen": "4", "max_device_link_gen": "4", "max_host_link_gen": "5"}
    body: dict[str, Any] = {
        "product_name": "NVIDIA A100-SXM4-80GB", "persistence_mode": "Enabled",
        "mig_mode": {"current_mig": "Disabled"}, "mig_devices": "None", "uuid": "GPU-1", "vbios_version": "92.00.45",
        "gpu_virtualization_mode": {"virtualization_mode": "None"}, "gsp_firmware_version": driver,
        "pci": {
            "pci_bus_id": "00000000:07:00.0",
            "pci_gpu_link_info": {
                "pcie_gen": link, "link_widths": {"max_link_width": "16x", "current_link_width": "16x"},
            },
            "replay_counter": "0",
        },
        "fan_speed": "N/A", "performance_state": "P0",
        "fb_memory_usage": {"total": "81920 MiB", "reserved": "621 MiB", "used": "4 MiB"},
        "compute_mode": "Default", "utilization": {"gpu_util": "99 %"}, "ecc_mode": {"current_ecc": "Enabled"},
        "remapped_rows": {"remapped_row_unc": "0", "remapped_row_pending": "No"},
        "temperature": {"gpu_temp": "61 C", "memory_temp": "70 C"},
        "clocks": {"graphics_clock": "1410 MHz", "sm_clock": "1410 MHz", "mem_clock": "1593 MHz"},
        "applications_clocks": {"graphics_clock": "1275 MHz", "mem_clock": "1593 MHz"},
        "max_clocks": {"sm_clock": "1410 MHz", "mem_clock": "1593 MHz"}, "processes": "",
    }  # fmt: skip
    for changes in more:
        body.update(changes)
    return log(element("gpu", {name: one for name, one in body.items() if one is not None}), driver=driver, cuda=cuda)


def ecc(**counts: str) -> dict[str, Any]:
    """Errors by memory, since the driver was loaded."""
    return {"ecc_errors": {"volatile": counts}}


OLD_POWER = {
    "power_readings": {
        "power_state": "P0", "power_draw": "301.10 W", "power_limit": "400.00 W", "default_power_limit": "400.00 W",
        "enforced_power_limit": "350.00 W", "max_power_limit": "400.00 W",
    },
}  # fmt: skip
POWER = {
    "gpu_power_readings": {
        "power_state": "P0", "power_draw": "301.10 W", "current_power_limit": "350.00 W",
        "requested_power_limit": "350.00 W", "default_power_limit": "400.00 W", "max_power_limit": "400.00 W",
    },
    "module_power_readings": {"power_draw": "N/A", "current_power_limit": "N/A"},
}  # fmt: skip

DRIVER_515 = document(
    "515.105.01", "11.7", reasons("throttle", "sw_power_cap"), OLD_POWER,
    ecc(sram_correctable="0", sram_uncorrectable="1", dram_correctable="4", dram_uncorrectable="2"),
)  # fmt: skip
DRIVER_530 = document(  # a consumer card: whole blocks that it does not have, and a runtime that is not installed
    "530.30.02", "Not Found", reasons("throttle"), OLD_POWER, {"remapped_rows": "N/A", "gsp_firmware_version": "N/A"},
    {"ecc_errors": {"volatile": {f"{bits}_bit": {"total": "N/A"} for bits in ("single", "double")}}},
    {"fabric": {"state": "N/A", "status": "N/A"}},
)  # fmt: skip
DRIVER_535 = document(
    "535.129.03", "12.2", reasons("throttle", "sw_power_cap"), POWER,
    ecc(sram_correctable="0", sram_uncorrectable="1", dram_correctable="4", dram_uncorrectable="2"),
)  # fmt: skip
DRIVER_550 = document(
    "550.127.05", "12.4", reasons("event", "sw_power_cap"), POWER,
    ecc(
        sram_correctable="0", sram_uncorrectable_parity="1", sram_uncorrectable_secded="0", dram_correctable="4",
        dram_uncorrectable="2",
    ),
)  # fmt: skip
MIG = document(
    "550.127.05", "12.4", reasons("event"), POWER, ecc(dram_correctable="0", dram_uncorrectable="0"),
    {
        "mig_mode": {"current_mig": "Enabled"}, "utilization": {"gpu_util": "N/A"},
        "mig_devices": {
            "mig_device": [
                {"index": str(index), "gpu_instance_id": str(index + 1), "fb_memory_usage": {"used": "298 MiB"}}
                for index in range(3)
            ],
        },
        "processes": {
            "process_info": {
                "gpu_instance_id": "1", "compute_instance_id": "0", "pid": "77", "type": "C", "process_name": "python",
                "used_memory": "270 MiB",
            },
        },
    },
)  # fmt: skip
NOTHING = dict.fromkeys(("gpu_temp", "memory_temp"), "N/A")
VGPU = document(  # in the guest: neither link nor power nor clocks are its own
    "550.127.05", "12.4", reasons("event", otherwise="N/A"),
    ecc(sram_correctable="N/A", dram_correctable="N/A", dram_uncorrectable="N/A"),
    {
        "product_name": "NVIDIA L40S-8Q", "gpu_virtualization_mode": {"virtualization_mode": "VGPU"},
        "vgpu_software_licensed_product": {
            "licensed_product_name": "NVIDIA RTX Virtual Workstation", "license_status": "Unlicensed (Restricted)",
        },
        "pci": {
            "pci_bus_id": "00000000:02:00.0",
            "pci_gpu_link_info": {
                "pcie_gen": {"max_link_gen": "N/A", "current_link_gen": "N/A"},
                "link_widths": {"max_link_width": "N/A", "current_link_width": "N/A"},
            },
            "replay_counter": "N/A",
        },
        "temperature": NOTHING, "gpu_power_readings": {"power_draw": "N/A", "current_power_limit": "N/A"},
        "clocks": {"sm_clock": "2520 MHz", "mem_clock": "9001 MHz"}, "max_clocks": "N/A", "applications_clocks": "N/A",
    },
)  # fmt: skip
