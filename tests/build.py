"""Builders of facts: a test says only what matters to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nodeprep.model.facts import IommuGroup, NodeFacts, Origin, Platform
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import (
    AcsCapability,
    AcsFlag,
    AcsStatus,
    Bdf,
    ConfigAccess,
    LinkStatus,
    PciFunction,
    PortType,
    parse_bdf,
)
from nodeprep.model.topology import GpuPair, P2pStatus, PathLevel

GPU_CLASS = 0x030200
BRIDGE_CLASS = 0x060400
GEN4_X16 = LinkStatus(speed_gts=16.0, width=16, max_speed_gts=16.0, max_width=16)


def acs(control: int, capabilities: int = 0x5F) -> AcsCapability:
    return AcsCapability(offset=0x148, capabilities=AcsFlag(capabilities), control=AcsFlag(control))


def bridge(
    bdf: str,
    *,
    parent: str | None = None,
    port_type: PortType = PortType.DOWNSTREAM,
    control: int | None = None,
    **fields: Any,
) -> PciFunction:
    """A switch or root port; `control=None`: it has no ACS capability."""
    return function(
        bdf,
        vendor_id=0x1000,
        device_id=0xC010,
        class_code=BRIDGE_CLASS,
        parent=parent,
        port_type=port_type,
        acs=None if control is None else acs(control),
        **fields,
    )


def gpu_function(bdf: str, *, parent: str | None = None, **fields: Any) -> PciFunction:
    return function(
        bdf,
        **{"vendor_id": 0x10DE, "device_id": 0x26B9, "class_code": GPU_CLASS, "driver": "nvidia"}
        | fields,
        parent=parent,
        port_type=PortType.ENDPOINT,
    )


def function(bdf: str, *, parent: str | None = None, **fields: Any) -> PciFunction:
    address = parse_bdf(bdf)
    defaults: dict[str, Any] = {
        "numa_node": 0,
        "root_bus": address.rpartition(":")[0],
        "link": GEN4_X16,
        "config_access": ConfigAccess.FULL,
        "acs_status": AcsStatus.PRESENT if fields.get("acs") else AcsStatus.ABSENT,
    }
    above = None if parent is None else parse_bdf(parent)
    return PciFunction(bdf=address, parent=above, **(defaults | fields))


def facts(
    functions: Iterable[PciFunction],
    *,
    p2p: P2pStatus | None = P2pStatus.OK,
    driver_level: PathLevel | None = None,
    nvlinks: int | None = 0,
    gpu_fields: dict[str, Any] | None = None,
    **fields: Any,
) -> NodeFacts:
    """A bare-metal node of the given functions; every NVIDIA endpoint is a GPU."""
    every = {one.bdf: one for one in functions}
    cards = [one.bdf for one in sorted(every.values(), key=lambda one: one.bdf)
             if one.vendor_id == 0x10DE and one.class_code >> 16 == 3]  # fmt: skip
    gpus = tuple(
        Gpu(
            index=index,
            bdf=bdf,
            **(
                {"name": "NVIDIA L40S", "driver_grade": "nvml", "processes": ()}
                | (gpu_fields or {})
            ),
        )
        for index, bdf in enumerate(cards)
    )
    pairs = tuple(
        GpuPair(a=a, b=b, driver_level=driver_level, nvlinks=nvlinks, p2p_read=p2p, p2p_write=p2p)
        for a in range(len(gpus))
        for b in range(a + 1, len(gpus))
    )
    defaults: dict[str, Any] = {
        "origin": Origin.LIVE,
        "is_root": True,
        "boot_id": "0b5e0f3e-0000-4000-8000-000000000000",
        "platform": Platform(
            kernel_release="6.8.0-51-generic",
            cmdline="BOOT_IMAGE=/vmlinuz root=/dev/md0 ro iommu=pt",
            virtualization="none",
            lockdown="none",
            cpu_vendor="AuthenticAMD",
            sockets=2,
            iommu_enabled=True,
        ),
    }
    return NodeFacts(functions=every, gpus=gpus, pairs=pairs, **(defaults | fields))


def switch_of(count: int, *, control: int = 0x1D, numa_node: int = 0) -> list[PciFunction]:
    """`count` GPUs under one switch: root port 40:01.1, upstream 41:00.0, ports 42:00.0..."""
    place: dict[str, Any] = {"root_bus": "0000:40", "numa_node": numa_node}
    functions = [
        bridge("40:01.1", port_type=PortType.ROOT_PORT, control=control, secondary_bus=0x41,
               iommu_group=10, **place),
        bridge("41:00.0", parent="40:01.1", port_type=PortType.UPSTREAM, secondary_bus=0x42,
               iommu_group=11, **place),
    ]  # fmt: skip
    for slot in range(count):
        port, card = f"42:{slot:02x}.0", f"{0x43 + slot:02x}:00.0"
        functions.append(bridge(port, parent="41:00.0", control=control, iommu_group=20 + slot,
                                secondary_bus=0x43 + slot, **place))  # fmt: skip
        functions.append(gpu_function(card, parent=port, iommu_group=30 + slot, **place))
    return functions


def groups_of(functions: Iterable[PciFunction], kind: str = "identity") -> dict[int, IommuGroup]:
    """The IOMMU groups that the functions name."""
    members: dict[int, list[Bdf]] = {}
    for one in functions:
        if one.iommu_group is not None:
            members.setdefault(one.iommu_group, []).append(one.bdf)
    return {
        number: IommuGroup(number=number, type=kind, members=tuple(bdfs))
        for number, bdfs in members.items()
    }
