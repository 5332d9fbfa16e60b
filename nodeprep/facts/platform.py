"""Kernel, command line, virtualization, lockdown, CPU."""

from __future__ import annotations

import re

import msgspec

from nodeprep.errors import HostError
from nodeprep.facts.asking import names_or_none, text_or_none
from nodeprep.facts.iommu import iommu_enabled
from nodeprep.host.base import Host
from nodeprep.model.facts import Origin, Platform

_LOCKDOWN = re.compile(r"\[(\w+)\]")
_DETECT_DEADLINE_S = 5.0


class Stated(msgspec.Struct, frozen=True):
    """`host.json` beside a fabricated tree: what its maker states of the machine. All optional."""

    virt: str | None = None
    virtualization: str | None = None
    lockdown: str | None = None
    kernel: str | None = None
    cmdline: str | None = None
    cpu: str | None = None
    cpu_vendor: str | None = None
    sockets: int | None = None
    iommu: str | None = None
    """off, passthrough or translated."""


def collect_platform(host: Host) -> Platform:
    """What the kernel says of itself and of the machine below it."""
    if host.origin is Origin.FABRICATED:
        return _stated(host)
    cpuinfo = text_or_none(host, "/proc/cpuinfo") or ""
    return Platform(
        kernel_release=text_or_none(host, "/proc/sys/kernel/osrelease"),
        cmdline=text_or_none(host, "/proc/cmdline"),
        virtualization=_virtualization(host, cpuinfo),
        lockdown=_lockdown(host),
        cpu_vendor=_cpu_field(cpuinfo, "vendor_id"),
        cpu_model=_cpu_field(cpuinfo, "model name"),
        sockets=_sockets(cpuinfo),
        numa_nodes=_numa_nodes(host),
        driver_version=_driver_version(host),
        iommu_enabled=iommu_enabled(host),
    )


def read_lockdown(host: Host) -> str | None:
    """The lockdown mode at this moment: it can be raised while the kernel runs."""
    return _stated(host).lockdown if host.origin is Origin.FABRICATED else _lockdown(host)


def _stated(host: Host) -> Platform:
    try:
        stated = msgspec.json.decode(host.read_bytes("/host.json"), type=Stated)
    except HostError:
        return Platform()
    except msgspec.MsgspecError as error:
        raise HostError(f"host.json of the fabricated tree: {error}") from None
    return Platform(
        kernel_release=stated.kernel,
        cmdline=stated.cmdline,
        virtualization=stated.virtualization or stated.virt,
        lockdown=stated.lockdown,
        cpu_vendor=stated.cpu_vendor,
        cpu_model=stated.cpu,
        sockets=stated.sockets,
        iommu_enabled=None if stated.iommu is None else stated.iommu != "off",
    )


def _virtualization(host: Host, cpuinfo: str) -> str | None:
    """`none` on bare metal, the hypervisor's name in a guest, None when nobody can tell.

    systemd-detect-virt exits 1 and prints `none` on bare metal.  Without it the CPU's hypervisor
    flag still tells a guest; its absence alone proves nothing.
    """
    try:
        result = host.run(("systemd-detect-virt", "--vm"), deadline_s=_DETECT_DEADLINE_S)
    except HostError:
        result = None
    if result is not None and (word := result.stdout.strip()):
        return word.split()[0][:40]
    flags = _cpu_field(cpuinfo, "flags")
    return "unknown hypervisor" if flags is not None and "hypervisor" in flags.split() else None


def _lockdown(host: Host) -> str | None:
    """The bracketed word of `none [integrity] confidentiality`.

    A kernel without the lockdown module has no such file where securityfs is mounted: nothing is
    locked down then.
    """
    text = text_or_none(host, "/sys/kernel/security/lockdown")
    if text is not None:
        match = _LOCKDOWN.search(text)
        return match[1] if match else None
    return "none" if names_or_none(host, "/sys/kernel/security") else None


def _driver_version(host: Host) -> str | None:
    """`NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build`."""
    text = text_or_none(host, "/proc/driver/nvidia/version")
    match = re.search(r"\b(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b", text) if text else None
    return match[1] if match else None


def _cpu_field(cpuinfo: str, name: str) -> str | None:
    match = re.search(rf"^{name}\s*:[ \t]*(.*)$", cpuinfo, re.MULTILINE)
    return match[1].strip() or None if match else None


def _sockets(cpuinfo: str) -> int | None:
    packages = set(re.findall(r"^physical id\s*:\s*(\d+)$", cpuinfo, re.MULTILINE))
    return len(packages) or None


def _numa_nodes(host: Host) -> int | None:
    names = names_or_none(host, "/sys/devices/system/node") or ()
    return sum(re.fullmatch(r"node\d+", name) is not None for name in names) or None
