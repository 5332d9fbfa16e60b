"""When ACS may not be changed: each reason with its own text and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nodeprep.model.acs import Refusal
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.pci import Bdf, ConfigAccess, PciFunction

_RESTRICTED = ("integrity", "confidentiality")
_GIVEN_AWAY = ("vfio", "pciback", "uio", "pci-stub")
"""Parts of the names of drivers that hand a function to a guest or to user space: vfio-pci and its
vendor variants, xen-pciback, uio_pci_generic, igb_uio, pci-stub."""


class Change(Record, frozen=True):
    """What a plan would touch, for the guards to look at."""

    ports: tuple[PciFunction, ...]
    """Ports to write."""
    unknown: Mapping[Bdf, tuple[str, ...]]
    """Ports of wanted paths whose ACS words could not be read, with the pairs that need them."""
    lost_gpus: tuple[str, ...]
    """GPUs whose place in the tree is not known."""
    switches: tuple[Bdf, ...]
    """The common bridges that peer traffic would turn below."""
    kernel_parameter: str

    @property
    def empty(self) -> bool:
        return not (self.ports or self.unknown or self.lost_gpus)


def refusals(
    facts: NodeFacts,
    change: Change,
    *,
    allow_in_guest: bool,
    allow_in_use: bool = False,
) -> tuple[Refusal, ...]:
    """Every reason not to make the change; nothing to change or to learn is no reason."""
    if change.empty:
        return ()
    found = [
        *(() if allow_in_guest else _guest(facts)),
        *_lockdown(facts, change.kernel_parameter),
        *_given_away(facts, change),
        *_shared(facts, change.ports),
        *(() if allow_in_use else _in_use(facts, change.ports)),
        *_unknown(facts, change),
    ]
    return tuple(found)


def reach(facts: NodeFacts, change: Change) -> frozenset[Bdf]:
    """Every function that freed traffic could reach: below switches and root ports, in groups."""
    near = {one.bdf for one in _below_and_grouped(facts, change.ports)}
    near.update(one.bdf for switch in change.switches for one in facts.tree.below(switch))
    # From a freed root port traffic turns in the root complex, towards its neighbours.
    roots = {port.root_bus for port in change.ports if port.parent is None}
    near.update(one.bdf for one in facts.functions.values() if one.root_bus in roots)
    return frozenset(near)


def _guest(facts: NodeFacts) -> Iterator[Refusal]:
    kind = facts.platform.virtualization
    if kind is None and facts.origin is not Origin.FABRICATED:
        yield Refusal(
            subject="virtualization",
            reason="it is not known whether this is a guest: its ports may be the hypervisor's",
            hint="run as root, with systemd-detect-virt installed; or set acs.allow_in_guest",
        )
    elif kind not in (None, "none"):
        yield Refusal(
            subject="virtualization",
            reason=f"this is a guest ({kind}): ACS of the real fabric is decided by the host",
            hint="change it on the host; for a fully passed-through or emulated fabric set "
            "acs.allow_in_guest",
        )


def _lockdown(facts: NodeFacts, kernel_parameter: str) -> Iterator[Refusal]:
    mode = facts.platform.lockdown
    if mode in _RESTRICTED:
        instead = f" or boot with {kernel_parameter}" if kernel_parameter else ""
        yield Refusal(
            subject="lockdown",
            reason=f"kernel lockdown ({mode}) lets nobody write configuration space",
            hint=f"switch ACS off in the firmware setup{instead}",
        )


def _given_away(facts: NodeFacts, change: Change) -> Iterator[Refusal]:
    """Functions of a guest, wherever a freed port could reach them: below its switch, in groups.

    Wider than the other guards: a guest's device behind its own, untouched port of the same switch
    becomes reachable from the freed ports.
    """
    near = reach(facts, change)
    for function in _functions(facts, near):
        holder = _holder(function)
        if holder is not None:
            yield Refusal(
                subject=function.bdf,
                reason=f"{function.bdf} ({function.vendor_device}) is given to a guest or to user "
                f"space ({holder}): freeing the ports beside it breaks its isolation",
                hint="release it (driverctl unset-override), or choose other pairs with --pairs",
            )
    for number in sorted(_groups(facts, near)):
        group = facts.iommu_groups.get(number)
        if group is not None and group.type == "unmanaged" and not _explained(facts, group.members):
            yield Refusal(
                subject=f"IOMMU group {number}",
                reason=f"IOMMU group {number} is in the hands of user space (type unmanaged)",
                hint="find its owner: ls -l /dev/vfio; choose other pairs with --pairs",
            )


def _shared(facts: NodeFacts, ports: Sequence[PciFunction]) -> Iterator[Refusal]:
    """Functions that several tenants may share."""
    for function in _below_and_grouped(facts, ports):
        if function.mdev_parent:
            yield Refusal(
                subject=function.bdf,
                reason=f"{function.bdf} is a parent of mediated devices (vGPU)",
                hint="remove its mediated devices and types, or choose other pairs with --pairs",
            )
        if function.sriov_vfs:
            yield Refusal(
                subject=function.bdf,
                reason=f"{function.bdf} has {function.sriov_vfs} SR-IOV virtual functions switched "
                "on: their tenants rely on this isolation",
                hint=f"echo 0 > /sys/bus/pci/devices/{function.bdf}/sriov_numvfs, or choose other "
                "pairs with --pairs",
            )


def _in_use(facts: NodeFacts, ports: Sequence[PciFunction]) -> Iterator[Refusal]:
    """Peer traffic under way must not change its route."""
    below = {one.bdf for port in ports for one in facts.tree.below(port.bdf)}
    for gpu in facts.gpus:
        if gpu.bdf in below and gpu.processes:
            pids = ", ".join(str(process.pid) for process in gpu.processes[:4])
            yield Refusal(
                subject=f"GPU{gpu.index}",
                reason=f"GPU{gpu.index} is in use (process {pids}): peer traffic may be under way",
                hint="stop what uses the GPUs first",
            )
        elif gpu.bdf in below and gpu.processes is None and _driver_runs(facts, gpu.bdf):
            yield Refusal(
                subject=f"GPU{gpu.index}",
                reason=f"it is not known whether GPU{gpu.index} is in use: the driver is silent",
                hint="see whether nvidia-smi answers; or act with --force --reason",
            )


def _driver_runs(facts: NodeFacts, bdf: Bdf) -> bool:
    """Whether NVIDIA's driver holds the GPU: without it no program can use peer traffic."""
    function = facts.functions.get(bdf)
    return function is not None and function.driver == "nvidia"


def _unknown(facts: NodeFacts, change: Change) -> Iterator[Refusal]:
    for bdf, pairs in change.unknown.items():
        port = facts.functions[bdf]
        why, hint = _UNREADABLE.get(port.config_access, _UNREADABLE[ConfigAccess.NONE])
        yield Refusal(
            subject=bdf,
            reason=f"ACS of {port.kind} {bdf} on the path of {', '.join(pairs)} is unknown: {why}",
            hint=hint,
        )
    for gpu in change.lost_gpus:
        yield Refusal(
            subject=gpu,
            reason=f"the place of {gpu} in the PCI tree is not known",
            hint="look for it with lspci -D; it may have fallen off the bus",
        )


_UNREADABLE = {
    ConfigAccess.FULL: ("its list of capabilities is damaged", "compare with lspci -vvv -s"),
    ConfigAccess.CONVENTIONAL: (
        "this platform does not reach the extended configuration space",
        "look for MMCONFIG/ECAM in the kernel log; in a guest the host decides",
    ),
    ConfigAccess.HEADER: ("only root may read its registers", "run as root"),
    ConfigAccess.NONE: (
        "it does not answer, or nobody recorded it",
        "run as root; if it stays, the port is asleep or off the bus",
    ),
}


def _holder(function: PciFunction) -> str | None:
    """Who holds a function that was given away."""
    if function.driver is not None and any(part in function.driver for part in _GIVEN_AWAY):
        return f"driver {function.driver}"
    override = function.driver_override
    if override is not None and any(part in override for part in _GIVEN_AWAY):
        return f"driver_override {override}"
    return None


def _below_and_grouped(facts: NodeFacts, ports: Iterable[PciFunction]) -> tuple[PciFunction, ...]:
    """Everything below the ports, and everything in their IOMMU groups and in those below."""
    near = {one.bdf for port in ports for one in (port, *facts.tree.below(port.bdf))}
    numbers = _groups(facts, near)
    near.update(one.bdf for one in facts.functions.values() if one.iommu_group in numbers)
    return _functions(facts, near)


def _groups(facts: NodeFacts, bdfs: Iterable[Bdf]) -> set[int]:
    found = (facts.functions[bdf].iommu_group for bdf in bdfs if bdf in facts.functions)
    return {number for number in found if number is not None}


def _explained(facts: NodeFacts, members: Iterable[Bdf]) -> bool:
    """Whether a member's own driver tells already who owns the group."""
    return any(_holder(function) is not None for function in _functions(facts, members))


def _functions(facts: NodeFacts, bdfs: Iterable[Bdf]) -> tuple[PciFunction, ...]:
    return tuple(facts.functions[bdf] for bdf in sorted(bdfs) if bdf in facts.functions)
