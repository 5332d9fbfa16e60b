"""The transport of every neighbour pair by NCCL's log, beside driver and registers; pure.

A rank is the GPU at that place of the group in bus order (CUDA_DEVICE_ORDER=PCI_BUS_ID).
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeprep.gate.command import members
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import GateResult, GateVerdict, Neighbours
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import AcsStatus, Bdf
from nodeprep.model.tree import PciTree

_MOST_NAMED = 4


def neighbours(
    facts: NodeFacts, group: Sequence[int], transports: dict[str, str]
) -> tuple[Neighbours, ...]:
    """Every pair of ranks that the log joins (`0->1`), once for both directions."""
    gpus = members(facts, group)
    found: dict[tuple[int, int], Neighbours] = {}
    for pair, transport in transports.items():
        ranks = [int(part) for part in pair.split("->") if part.isdecimal()]
        if len(ranks) != 2 or max(ranks) >= len(gpus) or ranks[0] == ranks[1]:
            continue
        low, high = sorted(ranks)
        known = found.get((low, high))
        if known is None or known.transport.startswith("P2P"):
            found[low, high] = _joined(facts, gpus[low], gpus[high], transport)
    return tuple(found[key] for key in sorted(found))


def explained(result: GateResult, expected: str | None) -> str:
    """Pair, peer status by the driver and ACS state of what went another way than expected, or of
    peer-to-peer that is slow; empty where nothing is to be told."""
    if result.verdict is GateVerdict.FAIL_TRANSPORT:
        wrong = [one for one in result.neighbours if _is_wrong(one, expected)]
    elif result.verdict is GateVerdict.FAIL_BANDWIDTH:
        wrong = [one for one in result.neighbours if one.redirecting]
    else:
        return ""
    alike: dict[tuple[str, str], list[Neighbours]] = {}
    for one in wrong:
        alike.setdefault((one.transport, _status(one)), []).append(one)
    return "; ".join(
        f"{_pairs(ways)} {transport}, {status}, {_ports(ways)}"
        for (transport, status), ways in alike.items()
    )


def _is_wrong(one: Neighbours, expected: str | None) -> bool:
    kind = one.transport.partition("/")[0]
    return kind in ("NET", "COLLNET") or (expected == "P2P" and kind == "SHM")


def _pairs(ways: Sequence[Neighbours]) -> str:
    named = [f"GPU{one.a}-GPU{one.b}" for one in ways[:_MOST_NAMED]]
    more = len(ways) - len(named)
    return " ".join(named) + (f" and {more} more" if more > 0 else "")


def _status(one: Neighbours) -> str:
    if one.p2p_read is None and one.p2p_write is None:
        return "peer status not known"
    return f"NVML read {one.p2p_read or '?'} write {one.p2p_write or '?'}"


def _ports(ways: Sequence[Neighbours]) -> str:
    """The ACS state of these ways: redirecting ports, or that there are none."""
    ports = tuple(dict.fromkeys(port for one in ways for port in one.redirecting or ()))
    if ports:
        more = f" and {len(ports) - _MOST_NAMED} more" if len(ports) > _MOST_NAMED else ""
        return f"ACS redirects at {' '.join(ports[:_MOST_NAMED])}{more}"
    dark = any(one.redirecting is None for one in ways)
    return "ACS not known" if dark else "no ACS redirection on the way"


def _joined(facts: NodeFacts, a: Gpu, b: Gpu, transport: str) -> Neighbours:
    pair = facts.pair(a.index, b.index)
    level = facts.tree.level(a.bdf, b.bdf) if {a.bdf, b.bdf} <= facts.functions.keys() else None
    nvlink = pair is not None and bool(pair.nvlinks)
    return Neighbours(
        a=a.index,
        b=b.index,
        transport=transport,
        level=f"NV{pair.nvlinks}" if pair and nvlink else level.value if level else None,
        p2p_read=pair.p2p_read.value if pair and pair.p2p_read else None,
        p2p_write=pair.p2p_write.value if pair and pair.p2p_write else None,
        redirecting=redirecting(facts.tree, a.bdf, b.bdf),
    )


def redirecting(tree: PciTree, a: Bdf, b: Bdf) -> tuple[Bdf, ...] | None:
    """Ports between two functions that redirect; None: the tree or some register is not known."""
    if not {a, b} <= tree.functions.keys():
        return None
    route = tree.route(a, b)
    ports = tuple(port.bdf for port in route.redirecting)
    dark = any(port.acs_status is AcsStatus.UNKNOWN for port in route.ports)
    return None if dark and not ports else ports
