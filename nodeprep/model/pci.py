"""PCI functions by the words of the specification.

Sources: PCI Express Base Specification 6.0 (7.5.3 PCI Express capability, 7.7.11 ACS extended
capability); Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import re
from enum import Enum, IntFlag
from typing import NewType

from nodeprep.errors import ParseError
from nodeprep.model.base import Record

Bdf = NewType("Bdf", str)
"""Domain, bus, device and function, `0000:3b:00.0`; made only by `parse_bdf`."""

_BDF = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-1]?[0-9a-f])\.(?P<fn>[0-7])",
    re.IGNORECASE,
)


def parse_bdf(text: str) -> Bdf:
    """A PCI address in its one canonical form.

    `3b:00.0` gets domain 0000; NVML's 8-digit domain is shortened; a VMD domain (`10000`) survives.
    """
    match = _BDF.fullmatch(text.strip())
    if match is None:
        raise ParseError(
            f"not a PCI address: {text[:40]!r}", hint="write it as 0000:3b:00.0 or 3b:00.0"
        )
    domain = int(match["domain"] or "0", 16)
    bus, device = int(match["bus"], 16), int(match["device"], 16)
    return Bdf(f"{domain:04x}:{bus:02x}:{device:02x}.{match['fn']}")


def bus_of(bdf: Bdf) -> str:
    """Domain and bus, `0000:3b`."""
    return bdf.rpartition(":")[0]


class PortType(Enum):
    """Device/Port Type, PCI Express Capabilities register bits 7:4 (7.5.3.2)."""

    ENDPOINT = 0x0
    LEGACY_ENDPOINT = 0x1
    ROOT_PORT = 0x4
    UPSTREAM = 0x5
    """Upstream port of a switch."""
    DOWNSTREAM = 0x6
    """Downstream port of a switch."""
    PCIE_TO_PCI = 0x7
    """PCI Express to PCI/PCI-X bridge."""
    PCI_TO_PCIE = 0x8
    """PCI/PCI-X to PCI Express bridge."""
    RC_ENDPOINT = 0x9
    """Root complex integrated endpoint."""
    RC_EVENT_COLLECTOR = 0xA


class AcsFlag(IntFlag):
    """Bits of the ACS Capability and ACS Control registers (7.7.11.2, 7.7.11.3)."""

    SRC_VALID = 0x01
    """ACS Source Validation."""
    TRANS_BLK = 0x02
    """ACS Translation Blocking."""
    REQ_REDIR = 0x04
    """ACS P2P Request Redirect."""
    CMPL_REDIR = 0x08
    """ACS P2P Completion Redirect."""
    UPSTREAM_FWD = 0x10
    """ACS Upstream Forwarding."""
    EGRESS_CTRL = 0x20
    """ACS P2P Egress Control."""
    DIRECT_TRANS = 0x40
    """ACS Direct Translated P2P."""


REDIRECT = AcsFlag.REQ_REDIR | AcsFlag.CMPL_REDIR | AcsFlag.EGRESS_CTRL
"""0x2c: what keeps peer traffic from taking the short way.

The same test as Linux pci_bridge_has_acs_redir() (drivers/pci/p2pdma.c) and the same bits that
pci=disable_acs_redir clears (drivers/pci/pci.c).
"""

_LSPCI_NAMES = {
    AcsFlag.SRC_VALID: "SrcValid",
    AcsFlag.TRANS_BLK: "TransBlk",
    AcsFlag.REQ_REDIR: "ReqRedir",
    AcsFlag.CMPL_REDIR: "CmpltRedir",
    AcsFlag.UPSTREAM_FWD: "UpstreamFwd",
    AcsFlag.EGRESS_CTRL: "EgressCtrl",
    AcsFlag.DIRECT_TRANS: "DirectTrans",
}


def acs_names(flags: AcsFlag) -> tuple[str, ...]:
    """The set bits by the names lspci prints, lowest first."""
    return tuple(name for flag, name in _LSPCI_NAMES.items() if flag in flags)


def acs_flag(lspci_name: str) -> AcsFlag | None:
    """The bit behind a name that lspci prints; None for a word it does not use."""
    return next((flag for flag, name in _LSPCI_NAMES.items() if name == lspci_name), None)


def acs_word(flags: AcsFlag | int) -> str:
    """A register word as setpci prints it: `001d`."""
    return f"{int(flags):04x}"


class AcsStatus(Enum):
    """What is known of a function's ACS capability."""

    PRESENT = "present"
    ABSENT = "absent"
    """The extended capability list was read to its end and holds no ACS."""
    UNKNOWN = "unknown"
    """The extended configuration space was not readable."""


class AcsCapability(Record, frozen=True):
    offset: int | None
    """Byte offset of the capability in configuration space; None when read from lspci text."""
    capabilities: AcsFlag
    control: AcsFlag

    @property
    def redirects(self) -> AcsFlag:
        """The redirect bits that are on."""
        return self.control & REDIRECT


class LinkStatus(Record, frozen=True):
    """Negotiated and possible link of a function (Link Status and Link Capabilities, 7.5.3.6-8)."""

    speed_gts: float | None = None
    """GT/s for each lane: 2.5, 5, 8, 16, 32, 64."""
    width: int | None = None
    max_speed_gts: float | None = None
    max_width: int | None = None


_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s of a lane -> PCI Express generation."""


def link_text(link: LinkStatus | None) -> str:
    """`gen4 x16`; `gen1/4 x8/16` where what is possible is more; `?` when unknown."""
    if link is None or (link.speed_gts is None and link.width is None):
        return "?"
    now, best = _generation(link.speed_gts), _generation(link.max_speed_gts)
    speed = now if best in (now, "?") else f"{now}/{best}"
    width = "?" if link.width is None else str(link.width)
    if link.max_width is not None and link.max_width != link.width:
        width += f"/{link.max_width}"
    return f"gen{speed} x{width}"


def _generation(speed_gts: float | None) -> str:
    if speed_gts is None:
        return "?"
    return str(_GENERATIONS.get(speed_gts, f"({speed_gts:g} GT/s)"))


class ConfigAccess(Enum):
    """How much of the configuration space could be read."""

    FULL = "full"
    """4,096 bytes: extended capabilities included."""
    CONVENTIONAL = "conventional"
    """256 bytes: the platform does not reach the extended space."""
    HEADER = "header"
    """64 bytes: the reader is not root."""
    NONE = "none"
    """Nothing, or all ones: the function is gone or asleep."""


class PciFunction(Record, frozen=True):
    bdf: Bdf
    vendor_id: int
    device_id: int
    class_code: int
    """24 bits: base class, subclass, programming interface."""
    name: str | None = None
    """Vendor and device as lspci names them; untrusted text."""
    subsystem_vendor_id: int | None = None
    subsystem_id: int | None = None
    port_type: PortType | None = None
    parent: Bdf | None = None
    """The bridge above; None for a function on a root bus."""
    root_bus: str | None = None
    """`0000:20`, the root bus (host bridge) this function hangs below."""
    secondary_bus: int | None = None
    """For a bridge: the bus number right below it."""
    numa_node: int | None = None
    iommu_group: int | None = None
    driver: str | None = None
    driver_override: str | None = None
    sriov_vfs: int | None = None
    """Virtual functions switched on (sriov_numvfs)."""
    is_vf: bool = False
    mdev_parent: bool = False
    link: LinkStatus | None = None
    acs_status: AcsStatus = AcsStatus.UNKNOWN
    acs: AcsCapability | None = None
    config_access: ConfigAccess = ConfigAccess.NONE

    @property
    def is_bridge(self) -> bool:
        """PCI-to-PCI bridge, class 0604: root ports and switch ports included."""
        return self.class_code >> 8 == 0x0604

    @property
    def vendor_device(self) -> str:
        """`10de:26b9`."""
        return f"{self.vendor_id:04x}:{self.device_id:04x}"

    @property
    def kind(self) -> str:
        """The function in the words of the field."""
        if self.port_type in _PORT_WORDS:
            return _PORT_WORDS[self.port_type]
        return "bridge" if self.is_bridge else "device"


_PORT_WORDS: dict[PortType | None, str] = {
    PortType.ROOT_PORT: "root port",
    PortType.UPSTREAM: "upstream port",
    PortType.DOWNSTREAM: "downstream port",
    PortType.PCIE_TO_PCI: "PCIe-to-PCI bridge",
    PortType.PCI_TO_PCIE: "PCI-to-PCIe bridge",
    PortType.ENDPOINT: "endpoint",
    PortType.LEGACY_ENDPOINT: "legacy endpoint",
    PortType.RC_ENDPOINT: "root complex endpoint",
    PortType.RC_EVENT_COLLECTOR: "root complex event collector",
}
