"""The way between two GPUs in words: hop by hop, what decides it, what would change it."""

from __future__ import annotations

import re

from nodeprep.audit.view import PairPath, View
from nodeprep.errors import UsageError
from nodeprep.model.finding import Finding
from nodeprep.model.nccl_policy import Transport, p2p_limit, transport
from nodeprep.model.pci import AcsStatus, PciFunction, acs_names, acs_word, link_text
from nodeprep.model.report import ExplainReport, Hop, PathLevels
from nodeprep.model.topology import P2pStatus, PathLevel, level_label
from nodeprep.stamp import Stamp

_LEVEL_WORDS = {
    PathLevel.PIX: "one PCIe switch joins them, at most one port away on each side",
    PathLevel.PXB: "several PCIe switches of one tree join them",
    PathLevel.PHB: "they meet in one host bridge of the CPU, no switch joins them",
    PathLevel.NODE: "they hang on different host bridges of one NUMA node",
    PathLevel.SYS: "they belong to different NUMA nodes",
    None: "the tree does not decide it: the NUMA node of a GPU is unknown",
}


def explain(
    view: View, findings: tuple[Finding, ...], a: int, b: int, head: Stamp
) -> ExplainReport:
    """Everything known about one pair of GPU indices. Raises UsageError for a wrong index."""
    path = _path(view, a, b)
    pair = path.pair
    limit = p2p_limit(view.facts.platform.cpu_vendor, len(view.facts.gpus))
    used = transport(pair, path.level, limit)
    return ExplainReport(
        **head,
        pair=(f"GPU{pair.a}", f"GPU{pair.b}"),
        hops=_hops(path),
        level=PathLevels(
            tree=level_label(path.level), driver=level_label(pair.driver_level, pair.nvlinks)
        ),
        level_words=_level_words(view, path),
        p2p={"read": _letter(pair.p2p_read), "write": _letter(pair.p2p_write)},
        nccl_path=_nccl_words(path, used, limit),
        would_change=_would_change(view, path, used),
        would_not_change=_would_not_change(path),
        iommu=_iommu_words(view, path),
        findings=tuple(finding for finding in findings if _concerns(path, finding)),
        machine=view.facts.machine,
    )


def _concerns(path: PairPath, finding: Finding) -> bool:
    """Whether a finding names the pair, one of its GPUs, or a function on its way."""
    route = path.route
    names = {path.name, f"GPU{path.pair.a}", f"GPU{path.pair.b}", route.a.bdf, route.b.bdf}
    names.update(port.bdf for port in route.ports)
    return not names.isdisjoint(re.split(r"[\s,]+", finding.subject))


def _level_words(view: View, path: PairPath) -> str:
    words = _LEVEL_WORDS[path.level]
    platform = view.facts.platform
    if path.level is PathLevel.SYS and platform.sockets == 1:
        words += ", though on one socket: the BIOS divides it (NPS or sub-NUMA clustering)"
    if path.over_nvlink:
        return f"NVLink x{path.pair.nvlinks} joins them; over PCIe {words}"
    return words


def _path(view: View, a: int, b: int) -> PairPath:
    count = len(view.facts.gpus)
    if a == b or not (0 <= a < count and 0 <= b < count):
        raise UsageError(
            f"no pair GPU{a} and GPU{b}: this node has {count} GPUs",
            hint=f"name two of GPU0 to GPU{count - 1}" if count > 1 else "see: nodeprep machines",
        )
    low, high = sorted((a, b))
    for path in view.paths:
        if (path.pair.a, path.pair.b) == (low, high):
            return path
    raise UsageError(f"GPU{a} or GPU{b} is not on the PCI bus of this node")


def _hops(path: PairPath) -> tuple[Hop, ...]:
    route = path.route
    down = [_hop(port, "b") for port in reversed(route.below_b)]
    if route.common is not None:
        middle = [_hop(route.common, "common")]
    else:
        middle = [
            Hop(bdf=None, what=f"host bridge {end.root_bus or 'unknown'}", side=side,
                numa_node=end.numa_node)
            for end, side in ((route.a, "a"), (route.b, "b"))
        ]  # fmt: skip
        if route.a.root_bus == route.b.root_bus:
            middle = middle[:1]
    up = [_hop(port, "a") for port in route.below_a]
    return (_hop(route.a, "a"), *up, *middle, *down, _hop(route.b, "b"))


def _hop(function: PciFunction, side: str) -> Hop:
    return Hop(
        bdf=function.bdf,
        what=function.kind,
        side=side,
        vendor_device=function.vendor_device,
        name=function.name,
        acs=_acs_text(function),
        redirects=acs_names(function.acs.redirects) if function.acs else (),
        link=None if function.link is None else link_text(function.link),
        numa_node=function.numa_node,
    )


def _acs_text(function: PciFunction) -> str | None:
    if function.acs is not None:
        return acs_word(function.acs.control)
    return "none" if function.acs_status is AcsStatus.ABSENT else None


def _letter(status: P2pStatus | None) -> str:
    return "unknown" if status is None else status.value


def _nccl_words(path: PairPath, used: Transport | None, limit: PathLevel) -> str:
    if used is None:
        return "unknown: level or P2P status could not be read"
    if used is Transport.P2P and path.route.redirecting:
        return f"{used.value}, but redirected through the root complex on the way"
    if used is Transport.SHM and path.pair.p2p_granted:
        return f"{used.value}: P2P is granted, but NCCL uses it only up to {limit.value} by default"
    return used.value


def _would_change(view: View, path: PairPath, used: Transport | None) -> tuple[str, ...]:
    words: list[str] = []
    if path.over_nvlink or view.guest:
        return ()
    redirecting = [port.bdf for port in path.route.redirecting]
    if redirecting and path.pair.p2p_granted is not False:
        words.append(
            f"clearing the redirect bits on {', '.join(redirecting)}: peer traffic turns round in "
            "the switch (the level stays the same)"
            if not path.route.directly_attached
            else f"clearing the redirect bits on {', '.join(redirecting)}: only where P2P is used"
        )
    if used is Transport.SHM and path.pair.p2p_granted:
        words.append(
            f"NCCL_P2P_LEVEL={level_label(path.level)}: NCCL then uses P2P here; measure both, "
            "through the CPU it is often slower"
        )
    if path.route.directly_attached and not _of_the_cards(path):
        words.append("moving both cards below one PCIe switch")
    return tuple(words)


def _would_not_change(path: PairPath) -> tuple[str, ...]:
    words = ["ACS settings: they change no level, and no P2P letter is a verdict on ACS"]
    if path.pair.p2p_granted is False:
        letter = next(one for one in _letters(path) if one is not P2pStatus.OK)
        words.append(f"no ACS or IOMMU setting turns {letter.value} into OK")
        if _of_the_cards(path):
            words.append("moving the cards: the limit lies in them or in their driver")
    return tuple(words)


def _letters(path: PairPath) -> tuple[P2pStatus, ...]:
    return tuple(one for one in (path.pair.p2p_read, path.pair.p2p_write) if one is not None)


def _of_the_cards(path: PairPath) -> bool:
    """P2P is refused because of the GPUs or their driver, wherever they are plugged in."""
    return any(one in (P2pStatus.GNS, P2pStatus.NS, P2pStatus.DR) for one in _letters(path))


def _iommu_words(view: View, path: PairPath) -> str:
    groups = [view.facts.iommu_groups.get(end.iommu_group) if end.iommu_group is not None else None
              for end in (path.route.a, path.route.b)]  # fmt: skip
    if any(groups):
        return ", ".join(
            f"group {group.number} {group.type or 'type unknown'}" for group in groups if group
        )
    enabled = view.facts.platform.iommu_enabled
    return "unknown" if enabled is None else ("on, groups unknown" if enabled else "off")
