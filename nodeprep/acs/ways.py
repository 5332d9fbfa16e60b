"""The ways between wanted GPU pairs: the ports they pass, and whether PCIe matters; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.acs.pairs import PairChoice, pair_label
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import Bdf, PciFunction
from nodeprep.model.topology import GpuPair, PathLevel
from nodeprep.model.tree import PciTree, Route

_NETWORK = 0x02
"""Base class of network controllers."""


class Way(Record, frozen=True):
    """The way of one wanted pair."""

    label: str
    """`GPU0-GPU1`, or `GPU0-0000:45:00.0` for a network adapter."""
    ports: tuple[PciFunction, ...] = ()
    """Bridges below the lowest common one, both sides; all of them where there is none."""
    common: Bdf | None = None
    why_not: str | None = None
    """Why the ports of this pair are left alone; None: they matter."""
    lost_gpus: tuple[str, ...] = ()
    """GPUs of the pair whose place in the tree is not known."""

    @property
    def needed(self) -> bool:
        return self.why_not is None


def find_ways(facts: NodeFacts, pairs: PairChoice) -> tuple[Way, ...]:
    """The way of every wanted pair. Raises UsageError for a GPU that is not there."""
    between_gpus = (
        _way(facts, a, b, facts.pair(a, b), explicit=pairs.explicit)
        for a, b in pairs.wanted(len(facts.gpus))
    )
    return (*between_gpus, *(_nic_ways(facts) if pairs.nics else ()))


def _nic_ways(facts: NodeFacts) -> Iterator[Way]:
    """Each GPU with each network adapter: GPUDirect RDMA goes where a bridge joins the two."""
    nics = [
        one
        for one in facts.functions.values()
        if one.class_code >> 16 == _NETWORK and not one.is_vf
    ]
    for gpu in facts.gpus:
        if lost := tuple(_lost(facts.tree, gpu)):
            yield Way(label=f"GPU{gpu.index}-NIC", lost_gpus=lost)
            continue
        for nic in nics:
            label = f"GPU{gpu.index}-{nic.bdf}"
            route = facts.tree.route(gpu.bdf, nic.bdf)
            apart = f"{label} meet in the root complex: no bridge joins them"
            yield Way(
                label=label,
                ports=route.ports,
                common=None if route.common is None else route.common.bdf,
                why_not=apart if route.directly_attached else None,
            )


def _way(facts: NodeFacts, a: int, b: int, pair: GpuPair | None, *, explicit: bool) -> Way:
    label = pair_label(a, b)
    if pair is not None and _has_nvlink(pair):
        return Way(label=label, why_not=f"{label} is connected by NVLink")
    lost = tuple(_lost(facts.tree, facts.gpus[a], facts.gpus[b]))
    if lost:
        return Way(label=label, lost_gpus=lost)
    route = facts.tree.route(facts.gpus[a].bdf, facts.gpus[b].bdf)
    return Way(
        label=label,
        ports=route.ports,
        common=None if route.common is None else route.common.bdf,
        why_not=None if explicit else _why_not(label, route, pair),
    )


def _has_nvlink(pair: GpuPair) -> bool:
    return bool(pair.nvlinks) or pair.driver_level is PathLevel.NVLINK


def _lost(tree: PciTree, *gpus: Gpu) -> Iterator[str]:
    for gpu in gpus:
        if tree.broken(gpu.bdf):
            yield f"GPU{gpu.index} ({gpu.bdf})"


def _why_not(label: str, route: Route, pair: GpuPair | None) -> str | None:
    """Directly attached pairs go through the root complex in any case.

    A redirecting root port matters to them only where the driver grants P2P, which then may hang.
    """
    granted = None if pair is None else pair.p2p_granted
    if not route.directly_attached or granted:
        return None
    known = "does not grant" if granted is False else "is not known to grant"
    return f"{label} meet in the root complex, and the driver {known} P2P between them"
