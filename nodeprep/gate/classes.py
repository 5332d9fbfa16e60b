"""The link class of a group of GPUs, from topology, links, peer status and NCCL's own policy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from nodeprep.gate.links import Hop, hops_below, slowest
from nodeprep.gate.nvlink import has_nvlink, nvlink_class
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gpu import Gpu
from nodeprep.model.nccl_policy import p2p_limit, within
from nodeprep.model.pci import Bdf
from nodeprep.model.topology import GpuPair, PathLevel
from nodeprep.model.tree import PciTree


class GroupClass(Record, frozen=True):
    """What the ring of a group runs over."""

    link_class: str | None
    """None: not decidable, or no figure is known for such a layout."""
    scale: float
    """Negotiated rate over that of 16 lanes of the same generation."""
    limiting_hop: str | None
    uplink_gbps: float | None
    """GB/s that one GPU has of an uplink it shares with others, where all go through memory."""
    mixed: bool
    """Some pairs reach each other directly, some through host memory."""
    reasoning: tuple[str, ...]


class _Way(Record, frozen=True):
    """One pair: its distance, and whether NCCL would go peer-to-peer."""

    pair: GpuPair
    level: PathLevel
    direct: bool


def classify(facts: NodeFacts, group: Sequence[int], nccl_version: str | None) -> GroupClass:
    """The class of the GPUs with these indices."""
    gpus = [gpu for gpu in facts.gpus if gpu.index in set(group)]
    if len(gpus) != len(set(group)) or len(gpus) < 2:
        return _unknown("the group names GPUs that are not there, or fewer than two")
    pairs = [facts.pair(a.index, b.index) or GpuPair(a=a.index, b=b.index)
             for a, b in combinations(gpus, 2)]  # fmt: skip
    joined = nvlink_class(gpus, pairs)
    if joined is not None:
        reason = f"NVLink joins all {len(gpus)} GPUs: {joined.hop}"
        if joined.link_class is None:
            return _unknown(reason, "no public figure for this NVLink layout")
        return GroupClass(
            link_class=joined.link_class, scale=1.0, limiting_hop=joined.hop, uplink_gbps=None,
            mixed=False, reasoning=(reason,),
        )  # fmt: skip
    return _classify_pcie(facts, gpus, pairs, nccl_version)


def _classify_pcie(
    facts: NodeFacts, gpus: Sequence[Gpu], pairs: Sequence[GpuPair], nccl_version: str | None
) -> GroupClass:
    notes = _nvlink_notes(pairs)
    tree = facts.tree
    ways = _ways(facts, gpus, pairs, nccl_version)
    if ways is None:
        return _unknown(*notes, "the distance of a pair is not known")
    switch = all(within(way.level, PathLevel.PXB) for way in ways)
    direct = all(way.direct for way in ways)
    some_direct = any(way.direct for way in ways)
    hops = _ring_hops(tree, gpus, to_root=not (switch and direct))
    if hops is None:
        return _unknown(*notes, "speed or width of a link is not known")
    narrowest = slowest(hops)
    notes = (*notes, *_way_notes(facts, ways, nccl_version, switch=switch, direct=direct))
    guest = _is_guest(facts)
    if guest:
        notes = (*notes, "a guest: bare-metal figures do not hold")
    link_class = _pcie_class(
        narrowest.generation, guest=guest, place=_place(facts, ways, switch=switch, direct=direct),
        direct=direct,
    )  # fmt: skip
    return GroupClass(
        link_class=link_class,
        scale=narrowest.gbps / narrowest.full_gbps,
        limiting_hop=str(narrowest),
        uplink_gbps=None if some_direct else _uplink_share(tree, gpus),
        mixed=some_direct and not direct,
        reasoning=(*notes, f"limiting link: {narrowest}"),
    )


def _pcie_class(generation: int, *, guest: bool, place: str, direct: bool) -> str | None:
    if guest:
        return "pcie3-root-shm" if generation == 3 else None
    if generation == 3 and not direct:
        return "pcie3-root-shm"
    return f"pcie{generation}-{place}-{'p2p' if direct else 'shm'}"


def _place(facts: NodeFacts, ways: Sequence[_Way], *, switch: bool, direct: bool) -> str:
    """`switch`, `root` or `sockets`: what the ring has to cross.

    NUMA nodes inside one socket (NPS, SNC) are no sockets; when their number is not known,
    different nodes count as sockets.
    """
    if switch and direct:
        return "switch"
    apart = any(way.level is PathLevel.SYS for way in ways)
    return "sockets" if apart and facts.platform.sockets != 1 else "root"


def _ways(
    facts: NodeFacts,
    gpus: Sequence[Gpu],
    pairs: Sequence[GpuPair],
    nccl_version: str | None,
) -> list[_Way] | None:
    """Every pair with its level and NCCL's choice; None when a level is not known."""
    limit = p2p_limit(facts.platform.cpu_vendor, len(gpus), _major_minor(nccl_version))
    by_index = {gpu.index: gpu for gpu in gpus}
    ways: list[_Way] = []
    for pair in pairs:
        level = _level(facts.tree, by_index[pair.a], by_index[pair.b], pair)
        if level is None:
            return None
        direct = has_nvlink(pair) or (pair.p2p_granted is not False and within(level, limit))
        ways.append(_Way(pair=pair, level=level, direct=direct))
    return ways


def _level(tree: PciTree, a: Gpu, b: Gpu, pair: GpuPair) -> PathLevel | None:
    """The level over PCIe; the driver's word counts where the tree is not known."""
    if a.bdf in tree.functions and b.bdf in tree.functions:
        level = tree.level(a.bdf, b.bdf)
        if level is not None:
            return level
    return None if pair.driver_level is PathLevel.NVLINK else pair.driver_level


def _ring_hops(tree: PciTree, gpus: Sequence[Gpu], *, to_root: bool) -> list[Hop] | None:
    """Every link the ring crosses; None when one of them cannot be rated."""
    hops: list[Hop] = []
    for gpu in gpus:
        turn = None if to_root else _highest_turn(tree, gpu, gpus)
        for hop in hops_below(tree, gpu, turn):
            if hop is None:
                return None
            hops.append(hop)
    return hops or None


def _highest_turn(tree: PciTree, gpu: Gpu, gpus: Sequence[Gpu]) -> Bdf | None:
    """The highest bridge at which this GPU's ways to the others turn.

    The chain above a GPU is ordered nearest first, so the farthest turning point comes last.
    """
    turns = {
        route.common.bdf
        for other in gpus
        if other is not gpu
        and (route := tree.route(gpu.bdf, other.bdf))
        and route.common is not None
    }
    above = [bridge.bdf for bridge in tree.chain(gpu.bdf) if bridge.bdf in turns]
    return above[-1] if above else None


def _uplink_share(tree: PciTree, gpus: Sequence[Gpu]) -> float | None:
    """GB/s each GPU has of the root link it shares, when all traffic passes host memory."""
    members: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        chain = tree.chain(gpu.bdf)
        if chain:
            members.setdefault(chain[-1].bdf, []).append(gpu)
    shares = []
    for behind in members.values():
        known = [hop for hop in hops_below(tree, behind[0], None) if hop is not None]
        if len(behind) > 1 and known:
            shares.append(slowest(known).gbps / len(behind))
    return min(shares, default=None)


def _is_guest(facts: NodeFacts) -> bool:
    return facts.platform.virtualization not in (None, "none")


def _nvlink_notes(pairs: Sequence[GpuPair]) -> tuple[str, ...]:
    joined = sum(has_nvlink(pair) for pair in pairs)
    if not joined:
        return ()
    return (f"NVLink joins {joined} of {len(pairs)} pairs only: the ring runs over PCIe",)


def _way_notes(
    facts: NodeFacts, ways: Sequence[_Way], nccl_version: str | None, *, switch: bool, direct: bool
) -> tuple[str, ...]:
    levels = sorted({way.level.value for way in ways})
    notes = [f"levels {', '.join(levels)}" + (": one switch tree" if switch else "")]
    denied = [way.pair for way in ways if way.pair.p2p_granted is False]
    if denied:
        shown = ", ".join(f"{pair.a}-{pair.b}" for pair in denied[:6])
        notes.append(f"the driver denies peer access between {shown}")
    elif not direct:
        vendor = facts.platform.cpu_vendor or "an unknown CPU vendor"
        version = nccl_version or "2.23 or later"
        notes.append(f"NCCL {version} goes through host memory at this distance on {vendor}")
    if direct and any(way.pair.p2p_granted is None for way in ways):
        notes.append("peer status not known: taken as granted")
    return tuple(notes)


def _major_minor(nccl_version: str | None) -> tuple[int, int] | None:
    """`2.22.3` is (2, 22)."""
    parts = (nccl_version or "").split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def _unknown(*reasoning: str) -> GroupClass:
    return GroupClass(
        link_class=None, scale=1.0, limiting_hop=None, uplink_gbps=None, mixed=False,
        reasoning=reasoning,
    )  # fmt: skip
