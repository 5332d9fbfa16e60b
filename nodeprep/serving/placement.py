"""Which GPUs form a tensor-parallel group, and how they reach each other; pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb, factorial

from nodeprep.errors import UsageError
from nodeprep.model.facts import IommuGroup, NodeFacts
from nodeprep.model.gpu import Gpu
from nodeprep.model.serving import Interconnect
from nodeprep.model.topology import PathLevel

# Costs of a pair: nearest first.  Redirected below its switch, a pair's traffic goes as far as
# that of two root ports.  A pair the driver grants no peer access, and one of unlike GPUs, cost
# more than any distance.
_COST = {
    PathLevel.NVLINK: 0,
    PathLevel.PIX: 1,
    PathLevel.PXB: 2,
    PathLevel.PHB: 3,
    PathLevel.NODE: 4,
    PathLevel.SYS: 5,
}
_UNKNOWN_COST = 6
_NOT_GRANTED_COST = 10
_REDIRECTED_COST = 2
_UNLIKE_COST = 20
_MOST_GROUPS = 5000
"""Beyond this many candidates only neighbours in bus order are considered."""

_SWITCHED = (PathLevel.PIX, PathLevel.PXB)

Group = tuple[Gpu, ...]


def pair_level(facts: NodeFacts, a: Gpu, b: Gpu) -> PathLevel | None:
    """How two GPUs reach each other: NVLink, else by the tree, else by the driver's word."""
    pair = facts.pair(a.index, b.index)
    if pair is not None and pair.nvlinks:
        return PathLevel.NVLINK
    level = None
    if a.bdf in facts.functions and b.bdf in facts.functions:
        level = facts.tree.level(a.bdf, b.bdf)
    return level if level is not None or pair is None else pair.driver_level


def choose_group(facts: NodeFacts, size: int) -> Group:
    """The `size` GPUs that reach each other best, in PCI bus order; empty without known GPUs.

    The worst pair decides, then the sum over all pairs, then the order on the bus.  Raises
    UsageError when the node has fewer GPUs.
    """
    gpus = tuple(sorted(facts.gpus, key=lambda gpu: gpu.index))
    if not gpus or size == len(gpus):
        return gpus
    if size > len(gpus):
        raise UsageError(
            f"tensor parallel {size} on a node with {len(gpus)} GPUs",
            hint=f"use --tp {len(gpus)} or less",
        )
    costs = {(a.index, b.index): _pair_cost(facts, a, b) for a, b in combinations(gpus, 2)}

    def cost(group: Group) -> tuple[int, int, tuple[int, ...]]:
        pairs = [costs[a.index, b.index] for a, b in combinations(group, 2)]
        return max(pairs, default=0), sum(pairs), tuple(gpu.index for gpu in group)

    return min(_candidates(gpus, size), key=cost)


def choose_groups(facts: NodeFacts, size: int, count: int) -> tuple[Group, ...]:
    """`count` groups of `size` GPUs without a GPU in common, each and all in PCI bus order.

    The worst pair of any group decides, then the sum over all groups.  Raises UsageError when the
    node has too few GPUs.
    """
    if count == 1:
        return (choose_group(facts, size),)
    gpus = tuple(sorted(facts.gpus, key=lambda gpu: gpu.index))
    if size * count > len(gpus):
        raise UsageError(
            f"{count} groups of {size} GPUs on a node with {len(gpus)} GPUs",
            hint=f"set serving.groups to {len(gpus) // size or 1} or less",
        )
    costs = {(a.index, b.index): _pair_cost(facts, a, b) for a, b in combinations(gpus, 2)}
    best = min(_partitions(gpus, size, count), key=lambda groups: _cost_of(groups, costs))
    return tuple(sorted(best, key=lambda group: group[0].index))


def _cost_of(groups: tuple[Group, ...], costs: dict[tuple[int, int], int]) -> tuple[int, int]:
    pairs = [costs[a.index, b.index] for group in groups for a, b in combinations(group, 2)]
    return max(pairs, default=0), sum(pairs)


def _partitions(gpus: Group, size: int, count: int) -> Iterator[tuple[Group, ...]]:
    """Every way to make the groups; neighbours in bus order only where there are too many."""
    ways = 1
    for made in range(count):
        ways *= comb(len(gpus) - made * size, size)
    if ways // factorial(count) > _MOST_GROUPS:
        yield tuple(gpus[at * size : (at + 1) * size] for at in range(count))
        return
    yield from _split(gpus, size, count)


def _split(gpus: Group, size: int, count: int) -> Iterator[tuple[Group, ...]]:
    """Groups are made in the order of their first GPU, so that none comes twice."""
    if count == 0:
        yield ()
        return
    for at in range(len(gpus) - size * count + 1):
        first, rest = gpus[at], gpus[at + 1 :]
        for others in combinations(rest, size - 1):
            group = (first, *others)
            left = tuple(gpu for gpu in rest if gpu not in others)
            for further in _split(left, size, count - 1):
                yield (group, *further)


def _candidates(gpus: Group, size: int) -> list[Group]:
    if comb(len(gpus), size) <= _MOST_GROUPS:
        return list(combinations(gpus, size))
    return [gpus[start : start + size] for start in range(len(gpus) - size + 1)]


def _pair_cost(facts: NodeFacts, a: Gpu, b: Gpu) -> int:
    level = pair_level(facts, a, b)
    pair = facts.pair(a.index, b.index)
    cost = _UNKNOWN_COST if level is None else _COST.get(level, _UNKNOWN_COST)
    if pair is not None and pair.p2p_granted is False:
        cost += _NOT_GRANTED_COST
    if _is_redirected(facts, a, b, level):
        cost += _REDIRECTED_COST
    return cost + (_UNLIKE_COST if a.name != b.name else 0)


def _is_redirected(facts: NodeFacts, a: Gpu, b: Gpu, level: PathLevel | None) -> bool:
    """Whether ports below the pair's own switch send its traffic upwards."""
    if level not in _SWITCHED or not {a.bdf, b.bdf} <= set(facts.functions):
        return False
    return bool(facts.tree.route(a.bdf, b.bdf).redirecting)


def interconnect(facts: NodeFacts, group: Group) -> Interconnect:
    """The worst way between any two GPUs of a group decides."""
    if not group:
        return Interconnect.UNKNOWN
    if len(group) == 1:
        return Interconnect.SINGLE
    levels = {pair_level(facts, a, b) for a, b in combinations(group, 2)}
    if None in levels:
        return Interconnect.UNKNOWN
    if levels == {PathLevel.NVLINK}:
        return Interconnect.NVLINK
    nearby = all(level in (PathLevel.NVLINK, *_SWITCHED) for level in levels)
    return Interconnect.SWITCH if nearby else Interconnect.HOST


def p2p_granted(facts: NodeFacts, group: Group) -> bool | None:
    """Whether the driver grants peer access to every pair; None: not known of some pair."""
    pairs = [facts.pair(a.index, b.index) for a, b in combinations(group, 2)]
    words = [None if pair is None else pair.p2p_granted for pair in pairs]
    if False in words:
        return False
    return None if None in words else True


def redirecting_ports(facts: NodeFacts, group: Group) -> tuple[str, ...]:
    """Ports on the PCIe way of a pair of the group that send peer traffic upwards."""
    ports = {
        port.bdf
        for a, b in combinations(group, 2)
        if a.bdf in facts.functions and b.bdf in facts.functions
        for port in facts.tree.route(a.bdf, b.bdf).redirecting
    }
    return tuple(sorted(ports))


def translating_groups(facts: NodeFacts, group: Group) -> tuple[int, ...]:
    """IOMMU groups of the GPUs in which the IOMMU translates DMA."""
    numbers = {facts.functions[gpu.bdf].iommu_group for gpu in group if gpu.bdf in facts.functions}
    groups = [facts.iommu_groups.get(number) for number in numbers if number is not None]
    return tuple(sorted(one.number for one in groups if one is not None and _translates(one)))


def _translates(group: IommuGroup) -> bool:
    return group.type is not None and group.type.startswith("DMA")


def numa_nodes(facts: NodeFacts, group: Group) -> tuple[int, ...]:
    """NUMA nodes of the group; a GPU whose node is unknown adds none."""
    found = {facts.functions[gpu.bdf].numa_node for gpu in group if gpu.bdf in facts.functions}
    return tuple(sorted(node for node in found if node is not None and node >= 0))
