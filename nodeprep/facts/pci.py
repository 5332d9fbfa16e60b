"""The PCI functions of a node, in their tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from nodeprep.errors import HostError, ParseError
from nodeprep.facts.asking import (
    link_name_or_none,
    names_or_none,
    number_or_none,
    text_or_none,
)
from nodeprep.host.base import Host
from nodeprep.model.lspci import LspciFunction
from nodeprep.model.pci import (
    AcsStatus,
    Bdf,
    ConfigAccess,
    LinkStatus,
    PciFunction,
    bus_of,
    parse_bdf,
)
from nodeprep.model.pci_config import PciConfig
from nodeprep.parse.pci_config import parse_pci_config

DEVICES = "/sys/bus/pci/devices"

# Vendors whose functions matter on a GPU path, by their names in pci.ids.
_VENDORS = (
    ("NVIDIA Corporation", 0x10DE),
    ("Advanced Micro Devices, Inc. [AMD/ATI]", 0x1002),
    ("Advanced Micro Devices, Inc. [AMD]", 0x1022),
    ("Intel Corporation", 0x8086),
    ("Broadcom / LSI", 0x1000),
    ("Habana Labs", 0x1DA3),
    ("Mellanox Technologies", 0x15B3),
    ("PLX Technology", 0x10B5),
    ("PMC-Sierra", 0x11F8),
)

_HEADER_WILL_DO = (0x01, 0x02, 0x05, 0x07, 0x08, 0x0C)
"""Base classes whose capabilities nothing here looks at: storage, network, memory, communication,
system peripherals, serial buses.  What decides about them are the bridges above."""

_ROOT = re.compile(r"pci([0-9a-f]{4,8}:[0-9a-f]{2})")


def collect_functions(host: Host) -> dict[Bdf, PciFunction]:
    """Every function that sysfs lists, in bus order.

    Configuration space is read sparingly; what could not be read stays unknown.
    """
    functions: dict[Bdf, PciFunction] = {}
    for name in host.list_dir(DEVICES):
        try:
            bdf = parse_bdf(name)
        except ParseError:
            continue
        functions[bdf] = _function(host, bdf)
    return _with_parents(functions)


def functions_from_lspci(listed: tuple[LspciFunction, ...]) -> dict[Bdf, PciFunction]:
    """The same tree from a recorded `lspci -vvv`: bridges are joined by their bus numbers."""
    functions = {one.bdf: _listed(one) for one in listed}
    return _with_parents(dict(sorted(functions.items())))


def unreadable(functions: Mapping[Bdf, PciFunction]) -> tuple[Bdf, ...]:
    """Functions whose extended configuration space was out of reach."""
    return tuple(
        one.bdf for one in functions.values() if one.config_access is not ConfigAccess.FULL
    )


def read_function(host: Host, bdf: Bdf) -> PciFunction:
    """One function as it is at this moment; without what only the whole tree tells."""
    return _function(host, bdf)


def _function(host: Host, bdf: Bdf) -> PciFunction:
    place = f"{DEVICES}/{bdf}"
    chain, root_bus = _place_in_tree(host, place)
    config = _config(host, place)
    shared = _shared(host, place) if config.header_type in (0, None) else {}
    return PciFunction(
        bdf=bdf,
        vendor_id=_identity(host, place, "vendor", config.vendor_id),
        device_id=_identity(host, place, "device", config.device_id),
        class_code=_identity(host, place, "class", config.class_code),
        subsystem_vendor_id=config.subsystem_vendor_id,
        subsystem_id=config.subsystem_id,
        port_type=config.port_type,
        parent=chain[-1] if chain else None,
        root_bus=root_bus,
        secondary_bus=config.secondary_bus,
        numa_node=_numa_node(host, place),
        iommu_group=number_or_none(link_name_or_none(host, f"{place}/iommu_group")),
        driver=link_name_or_none(host, f"{place}/driver"),
        driver_override=_override(host, place),
        **shared,
        link=config.link or _link_from_sysfs(host, place),
        acs_status=config.acs_status,
        acs=config.acs,
        config_access=config.config_access,
    )


def _shared(host: Host, place: str) -> dict[str, Any]:
    """How an endpoint is divided among tenants; a bridge never is."""
    return {
        "sriov_vfs": number_or_none(text_or_none(host, f"{place}/sriov_numvfs")),
        "is_vf": link_name_or_none(host, f"{place}/physfn") is not None,
        "mdev_parent": names_or_none(host, f"{place}/mdev_supported_types") is not None,
    }


def _listed(one: LspciFunction) -> PciFunction:
    return PciFunction(
        bdf=one.bdf,
        vendor_id=one.vendor_id or _vendor_of(one.name),
        device_id=one.device_id or 0,
        class_code=one.class_code or 0,
        name=one.name,
        port_type=one.port_type,
        secondary_bus=one.secondary_bus,
        numa_node=one.numa_node,
        iommu_group=one.iommu_group,
        driver=one.driver,
        link=one.link,
        acs_status=one.acs_status,
        acs=one.acs,
        config_access=_listed_access(one),
    )


def _vendor_of(name: str | None) -> int:
    """The id behind a vendor's name: lspci prints ids only with -n or -nn. 0: another vendor."""
    return next((code for vendor, code in _VENDORS if (name or "").startswith(vendor)), 0)


def _listed_access(one: LspciFunction) -> ConfigAccess:
    if one.rev_ff:
        return ConfigAccess.NONE
    known = one.acs_status is not AcsStatus.UNKNOWN
    return ConfigAccess.FULL if known else ConfigAccess.HEADER


def _place_in_tree(host: Host, place: str) -> tuple[tuple[Bdf, ...], str | None]:
    """The bridges above a function and its root bus, from where its sysfs link points.

    Only what follows the last `pciDDDD:BB` counts: behind Intel VMD a second root bus begins.
    """
    try:
        parts = host.read_link(place).split("/")
    except HostError:
        return (), None
    roots = [index for index, part in enumerate(parts) if _ROOT.fullmatch(part)]
    if not roots:
        return (), None
    try:
        chain = tuple(parse_bdf(part) for part in parts[roots[-1] + 1 : -1])
    except ParseError:
        return (), None
    root = _ROOT.fullmatch(parts[roots[-1]])
    return chain, root[1] if root is not None else None


def _with_parents(functions: dict[Bdf, PciFunction]) -> dict[Bdf, PciFunction]:
    """Fills in, by bus numbers, the parents and root buses that no link told.

    Where a bridge does not tell its bus, a function without a link may hang below it: then it has
    no known root bus.
    """
    bridge_to = {
        f"{one.bdf[:-8]}:{one.secondary_bus:02x}": one.bdf
        for one in functions.values()
        if one.secondary_bus
    }
    all_told = all(one.secondary_bus for one in functions.values() if one.is_bridge)
    joined: dict[Bdf, PciFunction] = {}
    for bdf, one in functions.items():
        parent = one.parent
        if parent is None and one.root_bus is None:
            above = bridge_to.get(bus_of(bdf))
            parent = above if above != bdf else None
        joined[bdf] = msgspec.structs.replace(one, parent=parent)
    return {
        bdf: one
        if one.root_bus is not None or not (one.parent or all_told)
        else msgspec.structs.replace(one, root_bus=_root_bus(joined, bdf))
        for bdf, one in joined.items()
    }


def _root_bus(functions: Mapping[Bdf, PciFunction], bdf: Bdf) -> str:
    """The bus at the top of the chain; a loop in hostile data ends the climb."""
    seen = {bdf}
    while (parent := functions[bdf].parent) is not None:
        if parent in seen or parent not in functions:
            break
        seen.add(parent)
        bdf = parent
    return bus_of(bdf)


def _config(host: Host, place: str) -> PciConfig:
    try:
        with host.opened(f"{place}/config") as read:
            return parse_pci_config(read, whole=_matters)
    except (HostError, ParseError):
        return PciConfig()


def _matters(class_code: int) -> bool:
    """A byte of configuration space is a cycle on the bus, so none is read that nobody needs."""
    return class_code >> 16 not in _HEADER_WILL_DO


def _identity(host: Host, place: str, name: str, from_config: int | None) -> int:
    """An id from the header already read, or from its sysfs file; 0 when neither is there."""
    if from_config is not None:
        return from_config
    return number_or_none(text_or_none(host, f"{place}/{name}"), base=16) or 0


def _numa_node(host: Host, place: str) -> int | None:
    """The kernel says -1 where the firmware told it nothing."""
    node = number_or_none(text_or_none(host, f"{place}/numa_node"))
    return None if node is None or node < 0 else node


def _override(host: Host, place: str) -> str | None:
    override = text_or_none(host, f"{place}/driver_override")
    return None if override in (None, "", "(null)") else override


def _link_from_sysfs(host: Host, place: str) -> LinkStatus | None:
    """For readers without root: the capability lies beyond the 64 bytes they may read."""
    speed = _gts(text_or_none(host, f"{place}/current_link_speed"))
    max_speed = _gts(text_or_none(host, f"{place}/max_link_speed"))
    width = number_or_none(text_or_none(host, f"{place}/current_link_width"))
    max_width = number_or_none(text_or_none(host, f"{place}/max_link_width"))
    if (speed, max_speed, width, max_width) == (None, None, None, None):
        return None
    return LinkStatus(
        speed_gts=speed, width=width or None, max_speed_gts=max_speed, max_width=max_width
    )


def _gts(text: str | None) -> float | None:
    """`16.0 GT/s PCIe` -> 16.0; `Unknown` -> None."""
    try:
        return None if text is None else float(text.split()[0])
    except (ValueError, IndexError):
        return None
