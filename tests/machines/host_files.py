"""The files of /proc and /sys that every built node has."""

from __future__ import annotations

from nodeprep.model.readings import ResourcesReading
from nodeprep.units import GIB
from tests.machines.node import Node


def bare_metal(
    node: Node,
    *,
    kernel: str,
    cmdline: str,
    cpu_vendor: str,
    cpu_model: str,
    sockets: int,
    numa_nodes: int,
    cpus: int,
    memory_gib: int,
    driver: str,
    config: str,
    virtualization: str = "none",
) -> None:
    """Kernel, command line, CPUs, NUMA nodes, driver version, configuration file."""
    node.text("/proc/sys/kernel/osrelease", f"{kernel}\n")
    node.text("/proc/sys/kernel/random/boot_id", f"{node.boot_id}\n")
    node.text("/proc/cmdline", f"{cmdline}\n")
    node.text(
        "/proc/cpuinfo",
        "\n".join(_cpu(index, cpu_vendor, cpu_model, virtualization) for index in range(sockets)),
    )
    node.text("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    node.text(
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build\n",
    )
    node.text("/etc/nodeprep/config.toml", config)
    node.directories["/sys/devices/system/node"] = [f"node{n}" for n in range(numa_nodes)]
    node.answer(
        ("systemd-detect-virt", "--vm"),
        f"{virtualization}\n",
        status=1 if virtualization == "none" else 0,
    )
    node.resources = ResourcesReading(
        logical_cpus=cpus,
        memory_total_bytes=memory_gib * GIB,
        memory_available_bytes=(memory_gib - 16) * GIB,
        swap_total_bytes=0,
        shm_total_bytes=memory_gib * GIB // 2,
    )


def _cpu(package: int, vendor: str, model: str, virtualization: str) -> str:
    flags = "fpu vme msr sse sse2 ht avx2" + ("" if virtualization == "none" else " hypervisor")
    return (
        f"processor\t: {package}\nvendor_id\t: {vendor}\nmodel name\t: {model}\n"
        f"physical id\t: {package}\nflags\t\t: {flags}\n"
    )
