"""The level that the tree implies, against the level that the driver prints."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import PairPath, View, alike, pair_names, pair_subject
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.nccl_policy import Transport, p2p_limit, transport
from nodeprep.model.topology import PathLevel, level_label


@check("level-mismatch")
def level_mismatch(view: View) -> Iterator[Finding]:
    """The driver knows bridges and NUMA nodes; where it disagrees with the tree, say why."""
    if view.guest:
        return
    differing = [path for path in view.paths if _differs(path)]
    if differing:
        yield Finding(
            id="level-mismatch",
            severity=Severity.INFO,
            subject=pair_subject(differing),
            summary="the driver prints another level than the PCI tree implies",
            cause=_cause(view, differing),
            evidence=tuple(
                Evidence(source=pair_names(same), text=levels)
                for levels, same in alike(differing, _levels).items()
            ),
            remedy=Remedy(
                text="trust the tree for placement; ACS is not the reason: it changes no level"
            ),
        )


@check("numa-unknown")
def numa_unknown(view: View) -> Iterator[Finding]:
    """A GPU whose NUMA node the firmware does not tell on a machine of several nodes."""
    lost = [
        gpu
        for gpu in view.gpus
        if gpu.bdf in view.facts.functions and view.facts.functions[gpu.bdf].numa_node is None
    ]
    if lost and (view.facts.platform.numa_nodes or 1) > 1:
        yield Finding(
            id="numa-unknown",
            severity=Severity.WARNING,
            subject=", ".join(f"GPU{gpu.index}" for gpu in lost),
            summary="the firmware does not say which NUMA node these GPUs belong to",
            cause="numa_node is -1: the ACPI tables carry no _PXM for their host bridge",
            evidence=tuple(Evidence(source=f"{gpu.bdf} numa_node", text="-1") for gpu in lost[:8]),
            remedy=Remedy(text="update the BIOS; until then set CPU affinity by hand"),
        )


@check("host-path-expected")
def host_path_expected(view: View) -> Iterator[Finding]:
    """Pairs that NCCL serves through host memory: lower figures are right, not a fault."""
    platform = view.facts.platform
    limit = p2p_limit(platform.cpu_vendor, len(view.facts.gpus))
    through_host = [
        path
        for path in view.paths
        if path.route.directly_attached and transport(path.pair, path.level, limit) is Transport.SHM
    ]
    if through_host:
        yield Finding(
            id="host-path-expected",
            severity=Severity.INFO,
            subject=pair_subject(through_host),
            summary="traffic between these GPUs goes through host memory, as it must here",
            cause=_host_path_cause(through_host),
            evidence=tuple(
                Evidence(source=pair_names(same), text=f"level {level}")
                for level, same in alike(through_host, _level).items()
            ),
            remedy=Remedy(text="judge bandwidth by this class, not by that of a switch"),
        )


def _level(path: PairPath) -> str:
    return level_label(path.level)


def _levels(path: PairPath) -> str:
    driver = level_label(path.pair.driver_level, path.pair.nvlinks)
    return f"tree {_level(path)}, driver {driver}"


def _host_path_cause(paths: list[PairPath]) -> str:
    """The driver's refusal where it refuses, NCCL's own limit where it does not."""
    if any(path.pair.p2p_granted is False for path in paths):
        return "the driver grants no P2P between them, so NCCL falls back to shared memory"
    return "no switch and no NVLink joins them, and NCCL uses PCIe P2P only up to PXB by choice"


def _differs(path: PairPath) -> bool:
    driver = path.pair.driver_level
    if driver is None or driver is PathLevel.NVLINK or path.level is None:
        return False
    return driver is not path.level


def _cause(view: View, differing: list[PairPath]) -> str:
    if any(path.route.a.numa_node is None or path.route.b.numa_node is None for path in differing):
        return "numa_node is unknown for one of the GPUs, so the driver falls back to SYS"
    if (view.facts.platform.sockets or 0) < (view.facts.platform.numa_nodes or 0):
        return "several NUMA nodes on one socket (NPS or sub-NUMA clustering) stretch the levels"
    return "an old driver, a container that hides part of sysfs, or a switch it does not see"
