"""Documents in the form of `nvidia-smi -q -x`, of several driver generations and devices; values are made up."""

from __future__ import annotations

IDLE_LINK = ("1", "16x")


def gpu(**changed: str) -> str:
    """One device as driver 570 and newer describe it. changed: element bodies by name below."""
    part = {
        "name": "NVIDIA H100 80GB HBM3", "bus": "00000000:1B:00.0", "uuid": "GPU-0", "util": "97 %", "pstate": "P0",
        "gen": "5", "max_gen": "5", "device_gen": "5", "host_gen": "5", "width": "16x", "max_width": "16x",
        "replays": "0", "sm": "1755 MHz", "mem": "2619 MHz", "sm_max": "1980 MHz", "mem_max": "2619 MHz",
        "app": "N/A", "draw": "412.10 W", "limit": "700.00 W", "used": "70012 MiB", "total": "81559 MiB",
        "mig": "Disabled", "mig_devices": "None", "processes": "", "fan": "N/A", "cap": "Not Active",
        "cap_us": "12000 us", "thermal_us": "0 us", "ecc": "0", "fabric": "Completed", "temp": "54 C",
    }  # fmt: skip
    part.update(changed)
    return """<gpu id="{bus}">
  <product_name>{name}</product_name><persistence_mode>Enabled</persistence_mode>
  <mig_mode><current_mig>{mig}</current_mig><pending_mig>{mig}</pending_mig></mig_mode>
  <mig_devices>{mig_devices}</mig_devices><uuid>{uuid}</uuid><vbios_version>96.00.89.00.01</vbios_version>
  <gpu_recovery_action>None</gpu_recovery_action><gsp_firmware_version>590.48.01</gsp_firmware_version>
  <pci><pci_bus_id>{bus}</pci_bus_id><pci_gpu_link_info>
    <pcie_gen><max_link_gen>{max_gen}</max_link_gen><current_link_gen>{gen}</current_link_gen>
      <device_current_link_gen>{gen}</device_current_link_gen><max_device_link_gen>{device_gen}</max_device_link_gen>
      <max_host_link_gen>{host_gen}</max_host_link_gen></pcie_gen>
    <link_widths><max_link_width>{max_width}</max_link_width><current_link_width>{width}</current_link_width>
    </link_widths></pci_gpu_link_info><replay_counter>{replays}</replay_counter></pci>
  <fan_speed>{fan}</fan_speed><performance_state>{pstate}</performance_state>
  <clocks_event_reasons><clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
    <clocks_event_reason_sw_power_cap>{cap}</clocks_event_reason_sw_power_cap></clocks_event_reasons>
  <clocks_event_reasons_counters>
    <clocks_event_reasons_counters_sw_power_cap>{cap_us}</clocks_event_reasons_counters_sw_power_cap>
    <clocks_event_reasons_counters_sync_boost>0 us</clocks_event_reasons_counters_sync_boost>
    <clocks_event_reasons_counters_sw_therm_slowdown>{thermal_us}</clocks_event_reasons_counters_sw_therm_slowdown>
    <clocks_event_reasons_counters_hw_therm_slowdown>0 us</clocks_event_reasons_counters_hw_therm_slowdown>
    <clocks_event_reasons_counters_hw_power_brake>0 us</clocks_event_reasons_counters_hw_power_brake>
  </clocks_event_reasons_counters>
  <fb_memory_usage><total>{total}</total><used>{used}</used></fb_memory_usage><compute_mode>Default</compute_mode>
  <utilization><gpu_util>{util}</gpu_util></utilization><ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
  <ecc_errors><volatile><dram_correctable>{ecc}</dram_correctable><dram_uncorrectable>{ecc}</dram_uncorrectable>
  </volatile></ecc_errors>
  <remapped_rows><remapped_row_unc>0</remapped_row_unc><remapped_row_pending>No</remapped_row_pending></remapped_rows>
  <temperature><gpu_temp>{temp}</gpu_temp><memory_temp>62 C</memory_temp></temperature>
  <gpu_power_readings><power_state>P0</power_state><average_power_draw>{draw}</average_power_draw>
    <instant_power_draw>{draw}</instant_power_draw><current_power_limit>{limit}</current_power_limit>
    <requested_power_limit>{limit}</requested_power_limit><default_power_limit>700.00 W</default_power_limit>
    <max_power_limit>700.00 W</max_power_limit></gpu_power_readings>
  <clocks><graphics_clock>{sm}</graphics_clock><sm_clock>{sm}</sm_clock><mem_clock>{mem}</mem_clock></clocks>
  <applications_clocks><graphics_clock>{app}</graphics_clock><mem_clock>{app}</mem_clock></applications_clocks>
  <max_clocks><sm_clock>{sm_max}</sm_clock><mem_clock>{mem_max}</mem_clock></max_clocks>
  <fabric><state>{fabric}</state><status>Success</status></fabric>
  <processes>{processes}</processes></gpu>""".format(**part)


def log(*gpus: str, driver: str = "590.48.01", cuda: str = "13.1") -> str:
    """The whole document."""
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log><timestamp>Sun Nov 29 10:00:00 2026</timestamp><driver_version>{driver}</driver_version>
<cuda_version>{cuda}</cuda_version><attached_gpus>{len(gpus)}</attached_gpus>{"".join(gpus)}</nvidia_smi_log>"""


def process(pid: int, name: str = "/usr/bin/python3", kind: str = "C") -> str:
    """One process on a device."""
    return (
        f"<process_info><pid>{pid}</pid><type>{kind}</type><process_name>{name} --flag</process_name>"
        "<used_memory>69000 MiB</used_memory></process_info>"
    )


# An old driver: other names for reasons and power, no counters, no firmware, an older shape of ECC errors.
DRIVER_470 = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">
<nvidia_smi_log><driver_version>470.182.03</driver_version><cuda_version>11.4</cuda_version>
<attached_gpus>1</attached_gpus><gpu id="00000000:3B:00.0">
  <product_name>NVIDIA GeForce GTX 1080</product_name><persistence_mode>Disabled</persistence_mode>
  <mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode><mig_devices>None</mig_devices>
  <uuid>GPU-1080</uuid><vbios_version>86.04.17.00.80</vbios_version>
  <pci><pci_bus_id>00000000:3B:00.0</pci_bus_id><pci_gpu_link_info>
    <pcie_gen><max_link_gen>3</max_link_gen><current_link_gen>3</current_link_gen></pcie_gen>
    <link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
  </pci_gpu_link_info><replay_counter>3</replay_counter></pci>
  <fan_speed>49 %</fan_speed><performance_state>P2</performance_state>
  <clocks_throttle_reasons><clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle>
    <clocks_throttle_reason_applications_clocks_setting>Active</clocks_throttle_reason_applications_clocks_setting>
    <clocks_throttle_reason_sw_power_cap>Active</clocks_throttle_reason_sw_power_cap>
    <clocks_throttle_reason_hw_thermal_slowdown>Not Active</clocks_throttle_reason_hw_thermal_slowdown>
  </clocks_throttle_reasons>
  <fb_memory_usage><total>8192 MiB</total><used>6270 MiB</used></fb_memory_usage><compute_mode>Default</compute_mode>
  <utilization><gpu_util>88 %</gpu_util></utilization><ecc_mode><current_ecc>N/A</current_ecc></ecc_mode>
  <ecc_errors><volatile><single_bit><total>N/A</total></single_bit><double_bit><total>2</total></double_bit></volatile>
  </ecc_errors><temperature><gpu_temp>71 C</gpu_temp><memory_temp>N/A</memory_temp></temperature>
  <power_readings><power_state>P2</power_state><power_draw>148.31 W</power_draw><power_limit>180.00 W</power_limit>
    <default_power_limit>180.00 W</default_power_limit><enforced_power_limit>150.00 W</enforced_power_limit>
    <max_power_limit>216.00 W</max_power_limit></power_readings>
  <clocks><sm_clock>1607 MHz</sm_clock><mem_clock>4513 MHz</mem_clock></clocks>
  <applications_clocks><graphics_clock>Requested functionality has been deprecated</graphics_clock>
    <mem_clock>[Not Supported]</mem_clock></applications_clocks>
  <max_clocks><sm_clock>1911 MHz</sm_clock><mem_clock>5005 MHz</mem_clock></max_clocks>
  <processes><process_info><pid>77</pid><type>C</type><process_name>python</process_name>
    <used_memory>6000 MiB</used_memory></process_info></processes></gpu></nvidia_smi_log>"""
