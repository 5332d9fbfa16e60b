"""The guards once more, under the lock: what the plan saw may have changed while it waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nodeprep.acs.guards import Change, reach, refusals
from nodeprep.errors import HostError, NodeprepError, ParseError
from nodeprep.facts.gpus import ask_driver
from nodeprep.facts.iommu import collect_groups
from nodeprep.facts.pci import DEVICES, read_function
from nodeprep.facts.platform import read_lockdown
from nodeprep.host.base import Host
from nodeprep.model.acs import AcsPlan, Refusal
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import Bdf, PciFunction, parse_bdf


def new_refusals(host: Host, facts: NodeFacts, plan: AcsPlan) -> tuple[Refusal, ...]:
    """Reasons against the plan that it did not know of: bindings, groups, processes, lockdown.

    Only what the guards look at is read again: the functions around the ports, and those that
    appeared since.  A reason forced for the plan is not forced for what came after it.
    """
    now = read_again(host, facts, plan)
    change = _change(now, plan)
    known = set(plan.refusals)
    found = refusals(
        now, change, allow_in_guest=plan.allow_in_guest, allow_in_use=plan.allow_in_use
    )
    return tuple(one for one in found if one not in known)


def read_again(host: Host, facts: NodeFacts, plan: AcsPlan) -> NodeFacts:
    """The facts with everything that the guards of this plan look at read anew."""
    near = set(reach(facts, _change(facts, plan)))
    fresh = {bdf: _patched(host, facts, bdf) for bdf in (*near, *_appeared(host, facts))}
    functions = {
        bdf: fresh.get(bdf) or one
        for bdf, one in facts.functions.items()
        if bdf not in fresh or fresh[bdf] is not None
    } | {bdf: one for bdf, one in fresh.items() if one is not None}
    groups = collect_groups(host, {bdf: functions[bdf] for bdf in near if bdf in functions})
    known = {
        number: replace(group, type=group.type or _old_type(facts, number))
        for number, group in groups.items()
    }
    lockdown = read_lockdown(host) or facts.platform.lockdown
    return replace(
        facts,
        functions=functions,
        iommu_groups=facts.iommu_groups | known,
        platform=replace(facts.platform, lockdown=lockdown),
        gpus=_gpus(host, facts),
    )


def reread_ports(host: Host, facts: NodeFacts, ports: Iterable[Bdf]) -> NodeFacts:
    """The facts with these ports read again: what a write really did."""
    fresh = {bdf: read_function(host, bdf) for bdf in ports}
    return replace(facts, functions=facts.functions | fresh)


def _change(facts: NodeFacts, plan: AcsPlan) -> Change:
    ports = (facts.functions.get(write.bdf) for write in plan.writes)
    return Change(
        ports=tuple(port for port in ports if port is not None),
        unknown={},
        lost_gpus=(),
        switches=plan.switches,
        kernel_parameter=plan.kernel_parameter,
    )


def _appeared(host: Host, facts: NodeFacts) -> Iterator[Bdf]:
    try:
        names = host.list_dir(DEVICES)
    except HostError:
        return
    for name in names:
        try:
            bdf = parse_bdf(name)
        except ParseError:
            continue
        if bdf not in facts.functions:
            yield bdf


def _patched(host: Host, facts: NodeFacts, bdf: Bdf) -> PciFunction | None:
    """The function as it is; None: it is gone. What only the plan's reading knew is kept."""
    one = read_function(host, bdf)
    if one.parent is None and one.root_bus is None:
        return None
    old = facts.functions.get(bdf)
    return one if old is None else replace(one, iommu_group=one.iommu_group or old.iommu_group)


def _old_type(facts: NodeFacts, number: int) -> str | None:
    old = facts.iommu_groups.get(number)
    return None if old is None else old.type


def _gpus(host: Host, facts: NodeFacts) -> tuple[Gpu, ...]:
    """The GPUs with the processes that use them at this moment, where the driver tells."""
    if all(gpu.processes is None for gpu in facts.gpus):
        return facts.gpus
    try:
        current = ask_driver(host).gpus
    except NodeprepError:
        return facts.gpus
    return tuple(
        replace(gpu, processes=current[gpu.bdf].processes) if gpu.bdf in current else gpu
        for gpu in facts.gpus
    )
