"""The files of /proc and /sys that every built node has."""

from __future__ import annotations

from dataclasses import dataclass

from nodeprep.model.readings import ResourcesReading
from nodeprep.units import GIB
from tests.machines.node import Node


@dataclass(frozen=True)
class Host:
    """CPUs and memory of a server, or of a guest."""

    cpu_vendor: str
    cpu_model: str
    sockets: int
    numa_nodes: int
    cpus: int
    memory_gib: int
    virtualization: str = "none"


def host_files(
    node: Node, host: Host, *, kernel: str, cmdline: str, driver: str, config: str
) -> None:
    """Kernel, command line, CPUs, NUMA nodes, driver version, configuration file."""
    node.text("/proc/sys/kernel/osrelease", f"{kernel}\n")
    node.text("/proc/sys/kernel/random/boot_id", f"{node.boot_id}\n")
    node.text("/proc/cmdline", f"{cmdline}\n")
    node.text("/proc/cpuinfo", "\n".join(_cpu(index, host) for index in range(host.sockets)))
    node.text("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    node.text(
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build\n",
    )
    node.text("/etc/nodeprep/config.toml", config)
    node.directories["/sys/devices/system/node"] = [f"node{n}" for n in range(host.numa_nodes)]
    # The kernel makes this directory in any case; without an IOMMU it stays empty.
    node.directories["/sys/kernel/iommu_groups"] = []
    node.answer(
        ("systemd-detect-virt", "--vm"),
        f"{host.virtualization}\n",
        status=1 if host.virtualization == "none" else 0,
    )
    node.resources = ResourcesReading(
        logical_cpus=host.cpus,
        memory_total_bytes=host.memory_gib * GIB,
        memory_available_bytes=(host.memory_gib - 16) * GIB,
        swap_total_bytes=0,
        shm_total_bytes=host.memory_gib * GIB // 2,
    )


def _cpu(package: int, host: Host) -> str:
    guest = "" if host.virtualization == "none" else " hypervisor"
    return (
        f"processor\t: {package}\nvendor_id\t: {host.cpu_vendor}\nmodel name\t: {host.cpu_model}\n"
        f"physical id\t: {package}\nflags\t\t: fpu vme msr sse sse2 ht avx2{guest}\n"
    )
