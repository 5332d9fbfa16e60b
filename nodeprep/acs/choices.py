"""Why each port is in the plan or left out of it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodeprep.acs.ways import Way
from nodeprep.model.acs import PortChoice
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import AcsStatus, Bdf, PciFunction, acs_names, acs_word
from nodeprep.model.topology import pairs_text
from nodeprep.model.tree import PciTree

_NVIDIA = 0x10DE
_KINDS = {0x0108: "NVMe", 0x0680: "a bridge device"}
_BASE_KINDS = {0x01: "storage", 0x02: "network", 0x03: "display", 0x12: "an accelerator"}


def choices(
    facts: NodeFacts,
    ways: Sequence[Way],
    targets: Mapping[Bdf, tuple[str, ...]],
) -> tuple[PortChoice, ...]:
    """Bridges above GPUs that have ACS or may have it, and every redirecting bridge elsewhere."""
    above = {bridge.bdf for gpu in facts.gpus for bridge in facts.tree.chain(gpu.bdf)}
    left_out = _LeftOut(facts.tree, ways)
    found = []
    for bdf, function in sorted(facts.functions.items()):
        if not function.is_bridge or function.acs_status is AcsStatus.ABSENT:
            continue
        if bdf in targets:
            reason = _included(function, targets[bdf])
        elif bdf in above:
            reason = left_out.reason(function)
        elif function.acs is not None and function.acs.redirects:
            reason = f"no GPU below it: {_what_is_below(facts.tree, bdf)}"
        else:
            continue
        found.append(PortChoice(bdf=bdf, included=bdf in targets, reason=reason))
    return tuple(found)


def _included(port: PciFunction, pairs: tuple[str, ...]) -> str:
    assert port.acs is not None
    bits = ", ".join(acs_names(port.acs.redirects))
    return f"{bits} send the peer traffic of {pairs_text(pairs)} up to the root complex"


class _LeftOut:
    """The ways by the ports they pass and by the bridges they turn below."""

    def __init__(self, tree: PciTree, ways: Sequence[Way]) -> None:
        self._passing: dict[Bdf, list[Way]] = {}
        self._turning: dict[Bdf, list[str]] = {}
        self._why_not = [way.why_not for way in ways if way.why_not is not None]
        for way in ways:
            for port in way.ports:
                self._passing.setdefault(port.bdf, []).append(way)
            for bdf in tree.path(way.common) if way.needed and way.common is not None else ():
                self._turning.setdefault(bdf, []).append(way.label)

    def reason(self, port: PciFunction) -> str:
        """The first that holds: clean already, above the turning point, or no pair needs it."""
        passing = self._passing.get(port.bdf, [])
        if any(way.needed for way in passing):
            if port.acs is None:
                return "its ACS words are not known"
            return f"no redirect bit is on ({acs_word(port.acs.control)})"
        turning = self._turning.get(port.bdf)
        if turning:
            return f"the peer traffic of {pairs_text(turning)} turns below it"
        reasons = [way.why_not for way in passing if way.why_not is not None] or self._why_not
        return reasons[0] if reasons else "no wanted pair has its way through it"


def _what_is_below(tree: PciTree, bdf: Bdf) -> str:
    kinds = {_kind(one) for one in tree.below(bdf) if not one.is_bridge}
    return ", ".join(sorted(kinds)) or "an empty slot"


def _kind(function: PciFunction) -> str:
    subclass = function.class_code >> 8
    if function.vendor_id == _NVIDIA and subclass == 0x0680:
        return "NVSwitch"
    return _KINDS.get(subclass) or _BASE_KINDS.get(subclass >> 8, "other devices")
