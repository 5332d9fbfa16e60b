"""What a failure points at: pair, GPU, port, IOMMU, link, socket or shared memory; pure.

A cause is named only where its evidence was read.  The same collective with peer-to-peer off tells
peer-to-peer from everything else; pairs tell which GPU or bridge; registers tell why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from nodeprep.gate.judge import MEASURED, listed
from nodeprep.gate.neighbours import redirecting
from nodeprep.gate.suspects_places import common_bridge, common_gpu, narrow_hop
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.model.pci import Bdf
from nodeprep.model.topology import P2pStatus, PathLevel

Pair = tuple[int, int]
NO_GAIN = 1.1
"""Peer-to-peer below one switch is at least this much faster than host memory, or it climbs."""
_BROKEN = (GateVerdict.HUNG, GateVerdict.WRONG_DATA, GateVerdict.CRASHED)
_NOT_SUPPORTED = {
    P2pStatus.CNS: "p2p-chipset-not-supported",
    P2pStatus.GNS: "p2p-gpu-not-supported",
    P2pStatus.TNS: "p2p-topology-not-supported",
    P2pStatus.NS: "p2p-not-supported",
    P2pStatus.DR: "p2p-disabled-by-setting",
}
_P2P_OFF = ("NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce",)


class Case(Record, frozen=True):
    """Everything measured about one failure."""

    facts: NodeFacts
    group: tuple[int, ...]
    on: GateResult
    """The collective as it is."""
    off: GateResult | None
    """With peer-to-peer off; None: not measured."""
    pairs: dict[Pair, GateResult]

    @property
    def bad(self) -> tuple[Pair, ...]:
        """Pairs that are broken, or too slow for their own class."""
        return tuple(pair for pair, one in self.pairs.items() if _is_bad(one))

    @property
    def only_p2p(self) -> bool | None:
        """Whether the fault goes away with peer-to-peer off; None: not known."""
        if self.off is None or self.off.verdict is GateVerdict.PRECONDITION:
            return None
        return self.off.verdict in MEASURED if self.on.verdict in _BROKEN else None


def veto(on: GateResult, off: GateResult) -> str | None:
    """Why peer-to-peer must not be used: it alone hangs, crashes or corrupts data."""
    words = {
        GateVerdict.HUNG: "hung",
        GateVerdict.WRONG_DATA: "returned wrong values",
        GateVerdict.CRASHED: "crashed",
    }
    if on.verdict not in words or off.verdict not in MEASURED:
        return None
    return (
        f"with peer-to-peer the collective {words[on.verdict]}; without it the run ended and every "
        "value was right"
    )


def suspects(case: Case) -> tuple[Finding, ...]:
    """Findings, the most probable cause first; empty when nothing was told apart."""
    found = [
        *_redirection(case),
        *_translation(case),
        *_links(case),
        *_not_granted(case),
        *_sockets(case),
    ]
    found += _places(case, known=bool(found))
    if not found:
        found += _unproved(case)
    return tuple(found)


def _is_bad(one: GateResult) -> bool:
    return one.verdict in (*_BROKEN, GateVerdict.FAIL_BANDWIDTH, GateVerdict.FAIL_TRANSPORT)


def _suspected(case: Case) -> tuple[Pair, ...]:
    """The pairs to look at: the bad ones, else every pair of the group."""
    return case.bad or tuple(combinations(sorted(case.group), 2))


def _redirection(case: Case) -> Iterator[Finding]:
    """Ports on the way of suspected pairs whose control word redirects.

    A group that goes through host memory is not slowed by them, and one that fails with
    peer-to-peer off too has another cause.
    """
    if case.on.verdict is GateVerdict.FAIL_TRANSPORT or case.only_p2p is False:
        return
    ports: dict[Bdf, None] = {}
    for pair in _suspected(case):
        ports.update(dict.fromkeys(_redirecting(case, pair) or ()))
    if ports:
        yield Finding(
            id="acs-redirect-on-gpu-path",
            severity=Severity.CRITICAL,
            subject=listed(list(ports)),
            summary=f"{len(ports)} ports on the way between GPUs redirect peer traffic upwards",
            cause="every flow climbs to the root port and shares it, or is lost there",
            evidence=(*_figures(case), *_words(case, ports)),
            remedy=Remedy(
                text="clear the redirect bits of these ports",
                commands=("nodeprep acs plan", "sudo nodeprep acs apply"),
            ),
        )


def _translation(case: Case) -> Iterator[Finding]:
    """GPUs whose DMA the IOMMU translates, where only peer-to-peer fails."""
    if case.only_p2p is False or case.on.verdict is GateVerdict.FAIL_TRANSPORT:
        return
    groups = _translating(case)
    if groups and (case.only_p2p or _no_gain(case)):
        yield Finding(
            id="iommu-translated-p2p",
            severity=Severity.CRITICAL,
            subject=_gpus(case.group),
            summary="the IOMMU translates DMA of these GPUs, and peer-to-peer fails",
            cause="a translated peer address has no mapping, or its traffic climbs to the IOMMU",
            evidence=(*_figures(case), *groups),
            remedy=Remedy(
                text="iommu=pt, or the IOMMU off; then measure again with checked values",
                needs_reboot=True,
            ),
        )


def _links(case: Case) -> Iterator[Finding]:
    """One GPU whose link, or a hop above it, is narrower than those of the others."""
    gpu = common_gpu(case.bad, case.pairs)
    if gpu is None:
        return
    hop = narrow_hop(case.facts, gpu)
    if hop is not None:
        own = hop.below == _bdf(case, gpu)
        yield Finding(
            id="pcie-width-narrow" if own else "upstream-link-bottleneck",
            severity=Severity.WARNING,
            subject=f"GPU{gpu} {_bdf(case, gpu)}",
            summary=f"every slow pair has GPU{gpu} in it, whose way is narrow: {hop}",
            cause="slot, riser or bifurcation" if own else "a shared or narrow port above the slot",
            evidence=_figures(case),
            remedy=Remedy(text="reseat the card or change the slot, then measure again"),
        )


def _not_granted(case: Case) -> Iterator[Finding]:
    """Pairs that went through host memory because the driver grants no peer access."""
    by_status: dict[P2pStatus, list[str]] = {}
    for one in case.on.neighbours:
        pair = case.facts.pair(one.a, one.b)
        if pair is None or one.transport.startswith("P2P"):
            continue
        for status in {pair.p2p_read, pair.p2p_write} & _NOT_SUPPORTED.keys():
            assert status is not None
            by_status.setdefault(status, []).append(f"GPU{one.a}-GPU{one.b}")
    for status, pairs in by_status.items():
        yield Finding(
            id=_NOT_SUPPORTED[status],
            severity=Severity.WARNING,
            subject=listed(pairs),
            summary=f"the driver denies peer access ({status.value}): NCCL uses host memory",
            cause="platform, product or setting of the driver; no ACS bit changes it",
            evidence=_figures(case),
        )


def _sockets(case: Case) -> Iterator[Finding]:
    """Peer-to-peer between sockets that is slower than host memory."""
    on, off = case.on.measured_gbps, case.off.measured_gbps if case.off else None
    if on is None or off is None or on >= off or not _crosses_sockets(case):
        return
    yield Finding(
        id="cross-socket-p2p-slow",
        severity=Severity.WARNING,
        subject=_gpus(case.group),
        summary=f"peer-to-peer between sockets reaches {on:.1f} GB/s, host memory {off:.1f}",
        cause="the interconnect between the CPUs",
        evidence=_figures(case),
        remedy=Remedy(text="keep tensor parallel inside one socket, or cap NCCL_P2P_LEVEL"),
    )


def _places(case: Case, *, known: bool) -> Iterator[Finding]:
    """The GPU or bridge that all bad pairs share, and no good one; not where all pairs are bad."""
    if not case.bad or len(case.bad) == len(case.pairs) > 1 or known:
        return
    gpu = common_gpu(case.bad, case.pairs)
    bridge = common_bridge(case.facts, case.bad, case.pairs)
    if gpu is not None:
        subject, what = f"GPU{gpu} {_bdf(case, gpu)}", f"GPU{gpu}, or its slot"
    elif bridge is not None:
        subject, what = bridge, f"bridge {bridge}"
    else:
        subject = listed([f"GPU{a}-GPU{b}" for a, b in case.bad])
        what = "these pairs"
    yield Finding(
        id="p2p-path-suspect",
        severity=Severity.CRITICAL,
        subject=subject,
        summary=f"all {len(case.bad)} bad of {len(case.pairs)} pairs go through {what}",
        cause="the registers read show no reason; cable, riser, slot or the GPU itself",
        evidence=_figures(case),
        remedy=Remedy(text="reseat or change the card, and leave the GPU out until then"),
    )


def _unproved(case: Case) -> Iterator[Finding]:
    """No register tells why: what is left is told by the two arms."""
    if case.only_p2p:
        yield _p2p_alone(case)
    elif case.on.verdict is GateVerdict.HUNG:
        both = case.off is not None and case.off.verdict in _BROKEN
        yield Finding(
            id="collective-hang",
            severity=Severity.CRITICAL,
            subject=_gpus(case.group),
            summary="the collective hangs, with peer-to-peer off too" if both
            else "the collective hangs",
            cause="not peer-to-peer: shared memory, driver or software" if both else "not proved",
            evidence=_figures(case),
        )  # fmt: skip
    elif _no_gain(case) or case.on.verdict is GateVerdict.FAIL_BANDWIDTH:
        yield Finding(
            id="busbw-below-expected",
            severity=Severity.WARNING,
            subject=_gpus(case.group),
            summary="bandwidth is below what this layout reaches, and no register tells why",
            cause="power or clock limits, other load, memory channels, or a link fault under load",
            evidence=_figures(case),
        )


def _p2p_alone(case: Case) -> Finding:
    """The driver grants what does not work; registers that nobody could read are no proof."""
    clear = not _dark(case) and not _translating(case) and _iommu_known(case)
    return Finding(
        id="p2p-false-grant" if clear else "p2p-path-suspect",
        severity=Severity.CRITICAL,
        subject=_gpus(case.group),
        summary="peer-to-peer fails though the driver grants it"
        if clear
        else "peer-to-peer fails; ACS or IOMMU state of the way is not known",
        cause="BAR1, virtual machine, or driver: no port redirects and no IOMMU translates"
        if clear
        else "ACS redirection, IOMMU translation or a false grant",
        evidence=_figures(case),
        remedy=Remedy(text="keep peer-to-peer off until a checked transfer passes",
                      commands=_P2P_OFF),
    )  # fmt: skip


def _no_gain(case: Case) -> bool:
    """Whether peer-to-peer below one switch is no faster than host memory."""
    on, off = case.on.measured_gbps, case.off.measured_gbps if case.off else None
    return on is not None and off is not None and off > 0 and on / off < NO_GAIN


def _figures(case: Case) -> tuple[Evidence, ...]:
    lines = [Evidence(source="gate", text=_told(case.on))]
    if case.off is not None:
        lines.append(Evidence(source="gate, NCCL_P2P_DISABLE=1", text=_told(case.off)))
    lines += [
        Evidence(source=f"gate, GPU{a} and GPU{b}", text=_told(case.pairs[a, b]))
        for a, b in case.bad[:6]
    ]
    return tuple(lines)


def _told(result: GateResult) -> str:
    if result.measured_gbps is None:
        return f"{result.verdict.value}: {result.reason}"
    mark = "no mark" if result.threshold_gbps is None else f"the mark is {result.threshold_gbps:g}"
    return f"{result.verdict.value}: {result.measured_gbps:.2f} GB/s, {mark}"


def _words(case: Case, ports: dict[Bdf, None]) -> Iterator[Evidence]:
    for bdf in list(ports)[:8]:
        port = case.facts.functions[bdf]
        if port.acs is not None and port.acs.control is not None:
            yield Evidence(source=f"{bdf} ACSCtl", text=f"{int(port.acs.control):04x}")


def _translating(case: Case) -> tuple[Evidence, ...]:
    """IOMMU groups of the GPUs that are translated."""
    found = []
    for gpu in case.facts.gpus:
        function = case.facts.functions.get(gpu.bdf)
        number = function.iommu_group if function else None
        group = case.facts.iommu_groups.get(number) if number is not None else None
        if gpu.index in case.group and group and (group.type or "").startswith("DMA"):
            source = f"/sys/kernel/iommu_groups/{number}/type"
            found.append(Evidence(source=source, text=group.type or ""))
    return tuple(found)


def _iommu_known(case: Case) -> bool:
    if case.facts.platform.iommu_enabled is False:
        return True
    functions = [case.facts.functions.get(gpu.bdf) for gpu in case.facts.gpus]
    numbers = [one.iommu_group for one in functions if one is not None]
    return bool(numbers) and all(
        number is not None and number in case.facts.iommu_groups for number in numbers
    )


def _dark(case: Case) -> bool:
    """Whether some port on the way could not be read."""
    return any(_redirecting(case, pair) is None for pair in _suspected(case))


def _redirecting(case: Case, pair: Pair) -> tuple[Bdf, ...] | None:
    a, b = _bdf(case, pair[0]), _bdf(case, pair[1])
    return redirecting(case.facts.tree, a, b) if a and b else None


def _crosses_sockets(case: Case) -> bool:
    tree = case.facts.tree
    levels = {
        tree.level(a, b)
        for first, second in combinations(sorted(case.group), 2)
        if (a := _bdf(case, first)) and (b := _bdf(case, second))
        and {a, b} <= tree.functions.keys()
    }  # fmt: skip
    return PathLevel.SYS in levels


def _bdf(case: Case, index: int) -> Bdf | None:
    return next((gpu.bdf for gpu in case.facts.gpus if gpu.index == index), None)


def _gpus(indices: Sequence[int]) -> str:
    return ", ".join(f"GPU{index}" for index in sorted(indices))
