"""IOMMU groups and their domain types (Documentation/ABI/testing/sysfs-kernel-iommu_groups)."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.facts.asking import names_or_none, text_or_none
from nodeprep.host.base import Host
from nodeprep.model.facts import IommuGroup
from nodeprep.model.pci import Bdf, PciFunction

GROUPS = "/sys/kernel/iommu_groups"


def collect_groups(host: Host, functions: Mapping[Bdf, PciFunction]) -> dict[int, IommuGroup]:
    """The groups that PCI functions are in; a type that cannot be read is None."""
    members: dict[int, list[Bdf]] = {}
    for function in functions.values():
        if function.iommu_group is not None:
            members.setdefault(function.iommu_group, []).append(function.bdf)
    return {
        number: IommuGroup(number=number, type=_type(host, number), members=tuple(bdfs))
        for number, bdfs in sorted(members.items())
    }


def iommu_enabled(host: Host) -> bool | None:
    """Whether the kernel made any group; None when it does not say."""
    names = names_or_none(host, GROUPS)
    return None if names is None else bool(names)


def _type(host: Host, number: int) -> str | None:
    return text_or_none(host, f"{GROUPS}/{number}/type") or None
