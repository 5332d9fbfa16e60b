"""Nodes of the classes that the gate tells apart."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nodeprep.model.facts import NodeFacts, Platform
from nodeprep.model.pci import LinkStatus, PciFunction, PortType
from nodeprep.model.topology import P2pStatus
from tests.build import bridge, facts, gpu_function, switch_of

GTS = {3: 8.0, 4: 16.0, 5: 32.0}


def link(generation: int = 4, width: int = 16, *, idle: bool = False) -> LinkStatus:
    """A link that is as fast as its ends; an idle one has dropped to Gen1."""
    speed = GTS[generation]
    return LinkStatus(
        speed_gts=2.5 if idle else speed, width=width, max_speed_gts=speed, max_width=16
    )


def on_switch(
    count: int, generation: int = 4, width: int = 16, *, idle: bool = True, **fields: Any
) -> NodeFacts:
    """GPUs under one switch; their links idle at Gen1."""
    own = link(generation, width, idle=idle)
    functions = [
        with_link(one, own if _is_gpu_link(one) else link(generation)) for one in switch_of(count)
    ]
    return facts(functions, **fields)


def on_root_ports(
    count: int, generation: int = 4, width: int = 16, *, sockets: int = 1, **fields: Any
) -> NodeFacts:
    """Each GPU on a root port of its own, spread over NUMA nodes when there are two sockets."""
    functions: list[PciFunction] = []
    for number in range(count):
        bus = 0x10 * (number + 1)
        place: dict[str, Any] = {
            "numa_node": number * sockets // count,
            "root_bus": f"0000:{bus:02x}",
            "link": link(generation, width),
        }
        port = f"{bus:02x}:01.1"
        functions.append(bridge(port, port_type=PortType.ROOT_PORT, secondary_bus=bus + 1, **place))
        functions.append(gpu_function(f"{bus + 1:02x}:00.0", parent=port, **place))
    return facts(functions, **({"platform": platform(sockets=sockets)} | fields))


def on_nvlink(count: int, links: int | None, name: str, **fields: Any) -> NodeFacts:
    """GPUs joined by NVLink; their PCIe place does not matter."""
    return on_root_ports(count, 5, sockets=2, nvlinks=links, gpu_fields={"name": name, **fields})


def platform(
    *, sockets: int | None = 1, vendor: str = "AuthenticAMD", virtualization: str = "none"
) -> Platform:
    return Platform(cpu_vendor=vendor, sockets=sockets, virtualization=virtualization)


def denied() -> dict[str, Any]:
    return {"p2p": P2pStatus.GNS}


def with_link(function: PciFunction, status: LinkStatus | None) -> PciFunction:
    return replace(function, link=status)


def _is_gpu_link(function: PciFunction) -> bool:
    """The GPU and the downstream port above it."""
    return not function.is_bridge or function.port_type is PortType.DOWNSTREAM
