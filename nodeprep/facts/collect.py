"""All collectors, each with its own status: one that fails is a fact, never the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from nodeprep.errors import HostError, NodeprepError, NotFound
from nodeprep.facts.asking import text_or_none
from nodeprep.facts.gpus import Driver, accelerators, ask_driver, merge
from nodeprep.facts.iommu import collect_groups
from nodeprep.facts.names import collect_names
from nodeprep.facts.pci import collect_functions, unreadable
from nodeprep.facts.platform import collect_platform
from nodeprep.facts.resources import collect_resources
from nodeprep.host.base import Host
from nodeprep.model.facts import CollectorStatus, HostResources, IommuGroup, NodeFacts, Platform
from nodeprep.model.pci import Bdf, PciFunction
from nodeprep.model.tree import PciTree
from nodeprep.settings import Accelerators

T = TypeVar("T")
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class _Watch:
    """Runs collectors, and keeps how long each took and what it lacked."""

    def __init__(self) -> None:
        self.statuses: list[CollectorStatus] = []

    def collect(self, name: str, work: Callable[[], T], otherwise: T) -> T:
        started = time.monotonic()
        error = hint = None
        try:
            value = work()
        except NodeprepError as problem:
            value, error, hint = otherwise, problem.message, problem.hint or None
        self.statuses.append(
            CollectorStatus(
                name=name,
                ok=error is None,
                duration_s=round(time.monotonic() - started, 4),
                error=error,
                hint=hint,
            )
        )
        return value

    def lacks(self, name: str, error: str, hint: str | None) -> None:
        """Marks a collector that answered, but not in full; no hint: nothing is to be done."""
        self.statuses = [
            replace(status, ok=False, error=error, hint=hint) if status.name == name else status
            for status in self.statuses
        ]


def collect(host: Host, policy: Accelerators, *, names: bool = True) -> NodeFacts:
    """Everything known about the node behind `host`."""
    watch = _Watch()
    no_functions: dict[Bdf, PciFunction] = {}
    no_groups: dict[int, IommuGroup] = {}
    functions = watch.collect("pci", lambda: collect_functions(host), no_functions)
    groups = watch.collect("iommu", lambda: collect_groups(host, functions), no_groups)
    platform = watch.collect("platform", lambda: collect_platform(host), Platform())
    driver = watch.collect("gpu-driver", lambda: ask_driver(host), Driver({}, ()))
    if driver.problem:
        watch.lacks(
            "gpu-driver", f"{driver.problem}; the text of nvidia-smi was read instead", None
        )
    resources = watch.collect("resources", lambda: collect_resources(host), HostResources())
    bdfs = accelerators(functions, policy)
    _note_unreadable(watch, functions, bdfs)
    if names and bdfs:
        nameless: Mapping[Bdf, str] = {}
        called = watch.collect("names", lambda: collect_names(host), nameless)
        functions = {
            bdf: replace(one, name=called[bdf]) if bdf in called else one
            for bdf, one in functions.items()
        }
    gpus, pairs = merge(bdfs, driver, functions)
    return NodeFacts(
        origin=host.origin,
        machine=host.machine,
        constructed=host.constructed,
        is_root=host.is_root,
        boot_id=text_or_none(host, BOOT_ID),
        functions=functions,
        gpus=gpus,
        pairs=pairs,
        iommu_groups=groups,
        platform=platform,
        resources=resources,
        statuses=tuple(watch.statuses),
    )


def collect_with_gpus(host: Host, policy: Accelerators, *, names: bool = True) -> NodeFacts:
    """The same, for what makes no sense without a GPU. Raises NotFound when there is none."""
    facts = collect(host, policy, names=names)
    if facts.gpus:
        return facts
    bus = facts.status("pci")
    if bus is not None and bus.error and not facts.functions:
        raise NotFound(f"the PCI bus could not be listed: {bus.error}", hint=bus.hint or "lspci -D")
    where = "this computer" if host.machine is None and not host.simulates else "the recording"
    raise NotFound(
        f"no accelerator among {len(facts.functions)} PCI functions of {where} "
        f"(vendors {', '.join(policy.vendors)}, classes {', '.join(policy.classes)})",
        hint="see a recorded node with: nodeprep bringup --machine l40s-acs",
    )


def reread(host: Host, facts: NodeFacts) -> NodeFacts:
    """The same facts with the PCI functions read again: what a write really did."""
    try:
        functions = collect_functions(host)
    except HostError:
        functions = {}
    named = {
        bdf: replace(one, name=facts.functions[bdf].name) if bdf in facts.functions else one
        for bdf, one in functions.items()
    }
    return replace(facts, functions=named)


def _note_unreadable(watch: _Watch, functions: dict[Bdf, PciFunction], gpus: Iterable[Bdf]) -> None:
    """Configuration space out of reach matters on the way to a GPU."""
    tree = PciTree(functions)
    on_path = {bdf for gpu in gpus for bdf in tree.path(gpu)}
    dark = [bdf for bdf in unreadable(functions) if bdf in on_path]
    if dark:
        watch.lacks(
            "pci",
            f"the extended configuration space of {len(dark)} of {len(on_path)} functions on GPU "
            "paths is out of reach, so their ACS state is unknown",
            "run as root",
        )
