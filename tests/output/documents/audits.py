"""Audits: a bad node, a clean one, a guest that sees little."""

from __future__ import annotations

from typing import Any

from nodeprep.model.facts import NodeFacts, Origin, Platform
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.pci import AcsStatus, ConfigAccess, LinkStatus, PortType
from nodeprep.model.report import AuditReport
from nodeprep.model.topology import P2pStatus, PathLevel
from nodeprep.units import bytes_from_gib
from tests.build import bridge, facts, gpu_function, groups_of, switch_of
from tests.output.documents.findings import FABRIC_UNKNOWN, NARROW, NOTE, REDIRECT
from tests.output.documents.head import head


def two_socket_facts(**fields: Any) -> NodeFacts:
    """Two GPUs under one switch on node 0, one at a root port of node 1, one narrow link."""
    place: dict[str, Any] = {"root_bus": "0000:c0", "numa_node": 1}
    narrow = LinkStatus(speed_gts=16.0, width=8, max_speed_gts=16.0, max_width=16)
    functions = switch_of(2)
    functions[-1] = gpu_function(
        "44:00.0", parent="42:01.0", iommu_group=31, root_bus="0000:40", link=narrow
    )
    functions += [
        bridge("c0:03.1", port_type=PortType.ROOT_PORT, control=0x1D, iommu_group=50, **place),
        gpu_function("c1:00.0", parent="c0:03.1", iommu_group=51, **place),
    ]
    defaults: dict[str, Any] = {"iommu_groups": groups_of(functions)}
    defaults["platform"] = Platform(
        kernel_release="6.8.0-51-generic",
        virtualization="none",
        lockdown="none",
        cpu_vendor="AuthenticAMD",
        cpu_model="AMD EPYC 7543 32-Core Processor",
        sockets=2,
        numa_nodes=2,
        driver_version="550.54.15",
        iommu_enabled=True,
    )
    return facts(
        functions,
        gpu_fields={"memory_total_bytes": bytes_from_gib(44.99)},
        **(defaults | fields),
    )


def audit_of(node: NodeFacts, *findings: Finding, unknown: tuple[Unknown, ...] = ()) -> AuditReport:
    return AuditReport(**head("audit"), findings=findings, unknown=unknown, facts=node)


def eight_gpu_facts() -> NodeFacts:
    """A guest that cannot see much: eight GPUs, driver levels that differ, no ACS readable."""
    functions = []
    for slot in range(8):
        address = f"{0x10 + 8 * slot:02x}"
        blind: dict[str, Any] = {"config_access": ConfigAccess.HEADER, "numa_node": None}
        port = f"00:{slot + 1:02x}.0"
        functions.append(bridge(port, port_type=PortType.ROOT_PORT, root_bus="0000:00",
                                acs_status=AcsStatus.UNKNOWN, **blind))  # fmt: skip
        functions.append(gpu_function(f"{address}:00.0", parent=port, root_bus="0000:00",
                                      acs_status=AcsStatus.UNKNOWN, **blind))  # fmt: skip
    return facts(
        functions,
        p2p=P2pStatus.CNS,
        driver_level=PathLevel.SYS,
        gpu_fields={"name": "NVIDIA RTX PRO 6000 Blackwell Server Edition"},
        origin=Origin.REPLAY,
        machine="guest-8gpu",
        constructed=True,
        is_root=False,
        platform=Platform(virtualization="kvm", kernel_release="6.6.12", lockdown="integrity"),
    )


AUDIT_BAD = audit_of(two_socket_facts(), REDIRECT, NARROW, NOTE, unknown=(FABRIC_UNKNOWN,))
AUDIT_CLEAN = audit_of(
    facts(
        switch_of(4, control=0x11), driver_level=PathLevel.PIX, gpu_fields={"name": "NVIDIA L40S"}
    )
)
AUDIT_GUEST = audit_of(
    eight_gpu_facts(),
    unknown=(
        Unknown(subject="ACS", reason="configuration space is not readable", hint="run as root"),
        Unknown(subject="driver", reason="nvidia-smi was not found"),
    ),
)
