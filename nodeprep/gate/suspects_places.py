"""What bad pairs have in common: a GPU, a bridge, a narrow link; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nodeprep.gate.links import Hop, hops_below
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import Bdf

Pair = tuple[int, int]


def common_gpu(bad: Collection[Pair], tested: Iterable[Pair]) -> int | None:
    """The one GPU that is in every bad pair and in no good one; None: not decidable.

    One bad pair out of one says nothing about which of the two it is.
    """
    good = [pair for pair in tested if pair not in bad]
    if not bad or not good:
        return None
    shared = set.intersection(*(set(pair) for pair in bad))
    guilty = [gpu for gpu in shared if not any(gpu in pair for pair in good)]
    return guilty[0] if len(guilty) == 1 else None


def common_bridge(facts: NodeFacts, bad: Collection[Pair], tested: Iterable[Pair]) -> Bdf | None:
    """The lowest bridge that every bad way uses and no good one."""
    good = [pair for pair in tested if pair not in bad]
    if not bad or not good:
        return None
    used = [_bridges(facts, pair) for pair in bad]
    shared = set(used[0]).intersection(*map(set, used[1:]))
    spared = {bridge for pair in good for bridge in _bridges(facts, pair)}
    return next((bridge for bridge in used[0] if bridge in shared - spared), None)


def narrow_hop(facts: NodeFacts, index: int) -> Hop | None:
    """The first hop above a GPU that carries less than the best way of its neighbours."""
    ways = {
        gpu.index: [hop for hop in hops_below(facts.tree, gpu, None) if hop is not None]
        for gpu in facts.gpus
    }
    own = ways.get(index, [])
    others = [min(hop.gbps for hop in hops) for key, hops in ways.items() if key != index and hops]
    if not own or not others:
        return None
    return next((hop for hop in own if hop.gbps < max(others)), None)


def _bridges(facts: NodeFacts, pair: Pair) -> list[Bdf]:
    """The ports of the way between two GPUs, its turning point included, nearest first."""
    bdfs = [gpu.bdf for gpu in facts.gpus if gpu.index in pair]
    if len(bdfs) != 2 or not set(bdfs) <= facts.functions.keys():
        return []
    route = facts.tree.route(*bdfs)
    ports = [port.bdf for port in route.ports]
    return ports + ([route.common.bdf] if route.common is not None else [])
