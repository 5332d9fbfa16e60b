"""The least change that frees GPU paths of redirection, or why it may not be made; pure.

A port redirects when Request Redirect, Completion Redirect or Egress Control is on (PCI Express
6.0, 6.12.1.1; Linux pci_bridge_has_acs_redir).  What counts is every bridge below the lowest one
that both GPUs share: there peer traffic would turn.  Only those three bits are cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nodeprep.acs.choices import choices
from nodeprep.acs.guards import Change, refusals
from nodeprep.acs.kernel_parameter import kernel_parameter
from nodeprep.acs.pairs import PairChoice
from nodeprep.acs.ways import Way, find_ways
from nodeprep.model.acs import AcsPlan, AcsWrite
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import REDIRECT, AcsStatus, Bdf, PciFunction, acs_names, acs_word
from nodeprep.model.tree import PciTree


def plan(
    facts: NodeFacts,
    *,
    pairs: PairChoice,
    all_bits: bool = False,
    forced_reason: str | None = None,
    allow_in_guest: bool = False,
    allow_in_use: bool = False,
) -> AcsPlan:
    """Writes and refusals for the wanted pairs.

    With refusals the writes stay in the plan as information; `apply` makes none of them unless
    there is a forced_reason.  all_bits: clear whole control words, isolation and all.
    allow_in_use: peer traffic may be under way.
    """
    tree = facts.tree
    ways = find_ways(facts, pairs)
    targets = _ports(ways, redirecting)
    writes = tuple(
        _write(tree, facts.functions[bdf], labels, all_bits) for bdf, labels in targets.items()
    )
    platform = facts.platform
    words = _words_at_boot(facts, ways, all_bits=all_bits) if targets else {}
    parameter = kernel_parameter(words, tree, platform.kernel_release, platform.cmdline)
    change = Change(
        ports=tuple(facts.functions[bdf] for bdf in targets),
        unknown=_ports(ways, unreadable),
        lost_gpus=tuple(sorted({gpu for way in ways for gpu in way.lost_gpus})),
        switches=_switches(ways, targets),
        kernel_parameter=parameter.text,
    )
    against = refusals(facts, change, allow_in_guest=allow_in_guest, allow_in_use=allow_in_use)
    return AcsPlan(
        actions=(*writes, *against),
        choices=choices(facts, ways, targets),
        kernel_parameter=parameter.text,
        forced_reason=(forced_reason or "").strip() or None,
        notes=parameter.notes,
        warnings=_warnings(facts, writes, all_bits=all_bits, allow_in_guest=allow_in_guest),
        switches=change.switches,
        allow_in_guest=allow_in_guest,
        allow_in_use=allow_in_use,
    )


def _warnings(
    facts: NodeFacts, writes: Sequence[AcsWrite], *, all_bits: bool, allow_in_guest: bool
) -> tuple[str, ...]:
    """What goes beyond the default, said in every report."""
    found = []
    if all_bits and writes:
        found.append(
            "all bits: source validation, upstream forwarding and translation blocking go too, so "
            "functions below these ports may spoof addresses; redirection alone is mask 002c"
        )
    kind = facts.platform.virtualization
    if allow_in_guest and kind not in (None, "none"):
        found.append(f"acs.allow_in_guest: written although this is a guest ({kind})")
    return tuple(found)


def redirecting(port: PciFunction) -> bool:
    """Whether a port sends peer traffic upwards."""
    return port.acs is not None and bool(port.acs.redirects)


def may_redirect(port: PciFunction) -> bool:
    """Whether the kernel would have a port redirect at boot, whatever it does now."""
    return port.acs is not None and bool((port.acs.capabilities | port.acs.control) & REDIRECT)


def _words_at_boot(facts: NodeFacts, ways: Sequence[Way], *, all_bits: bool) -> dict[Bdf, int]:
    """The control word of every port on the needed ways: also of those that are clear for now,
    by somebody's hand, and would redirect again after the next boot."""
    found = {}
    for bdf in _ports(ways, may_redirect):
        acs = facts.functions[bdf].acs
        assert acs is not None
        found[bdf] = 0 if all_bits else int(acs.control & ~REDIRECT)
    return found


def unreadable(port: PciFunction) -> bool:
    """Whether it is not known what a port does with peer traffic."""
    return port.acs is None and port.acs_status is not AcsStatus.ABSENT


def _ports(
    ways: Sequence[Way], wanted: Callable[[PciFunction], bool]
) -> dict[Bdf, tuple[str, ...]]:
    """Ports on needed ways for which `wanted` holds, in bus order, with the pairs behind them."""
    found: dict[Bdf, tuple[str, ...]] = {}
    for way in ways:
        for port in way.ports if way.needed else ():
            if wanted(port):
                found[port.bdf] = (*found.get(port.bdf, ()), way.label)
    return dict(sorted(found.items()))


def _switches(ways: Sequence[Way], targets: Mapping[Bdf, tuple[str, ...]]) -> tuple[Bdf, ...]:
    """The common bridges below which freed traffic would turn."""
    freed = (way for way in ways if any(port.bdf in targets for port in way.ports))
    return tuple(sorted({way.common for way in freed if way.common is not None}))


def _write(tree: PciTree, port: PciFunction, pairs: tuple[str, ...], all_bits: bool) -> AcsWrite:
    assert port.acs is not None
    before = int(port.acs.control)
    bits = ", ".join(acs_names(port.acs.redirects))
    what = "all bits are cleared as asked for, isolation too" if all_bits else "all others stay"
    groups = {one.iommu_group for one in (port, *tree.below(port.bdf))}
    return AcsWrite(
        bdf=port.bdf,
        before=acs_word(before),
        after=acs_word(0 if all_bits else before & ~int(REDIRECT)),
        pairs=pairs,
        reason=f"{bits} send peer traffic up to the root complex; {what}",
        port=f"{port.kind} {port.vendor_device}",
        weakens_groups=tuple(sorted(number for number in groups if number is not None)),
    )
