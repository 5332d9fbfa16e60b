"""What `lspci` prints of PCI functions, and of the tree they stand in."""

from __future__ import annotations

from nodeprep.model.base import Record
from nodeprep.model.pci import AcsCapability, AcsFlag, AcsStatus, Bdf, LinkStatus, PortType


class LspciFunction(Record, frozen=True):
    """One block of `lspci`; None: not printed, cut, or hidden from the user who ran it."""

    bdf: Bdf
    class_name: str | None = None
    """`PCI bridge`, `3D controller`; None with `lspci -n`."""
    class_code: int | None = None
    """24 bits, from `[0604]` or the class name; the programming interface is 0 when not printed."""
    name: str | None = None
    """Vendor and device as printed, without ids and revision; untrusted text."""
    vendor_id: int | None = None
    device_id: int | None = None
    revision: int | None = None
    subsystem_vendor_id: int | None = None
    subsystem_id: int | None = None
    primary_bus: int | None = None
    secondary_bus: int | None = None
    subordinate_bus: int | None = None
    port_type: PortType | None = None
    link: LinkStatus | None = None
    acs_status: AcsStatus = AcsStatus.UNKNOWN
    """ABSENT only for a whole block that shows extended capabilities, none of them ACS."""
    acs_capabilities: AcsFlag | None = None
    acs_control: AcsFlag | None = None
    """None also when the line of flags is cut, or when two such lines stand under one address."""
    ats_enabled: bool | None = None
    numa_node: int | None = None
    iommu_group: int | None = None
    driver: str | None = None
    """Kernel driver in use."""
    physical_slot: str | None = None
    access_denied: bool = False
    """`Capabilities: <access denied>`: lspci was run without root."""
    rev_ff: bool = False
    """All ones were read: the function is gone or asleep."""

    @property
    def acs(self) -> AcsCapability | None:
        """Both words, when both were printed."""
        if self.acs_capabilities is None or self.acs_control is None:
            return None
        return AcsCapability(
            offset=None, capabilities=self.acs_capabilities, control=self.acs_control
        )


class LooseAcs(Record, frozen=True):
    """ACS words that stand under no address: the leftovers of `lspci -vvv | grep ACSCtl`."""

    capabilities: AcsFlag | None
    control: AcsFlag | None
    """None: the line is cut."""


class LspciReport(Record, frozen=True):
    """Everything an `lspci` text says, in the order of the text."""

    functions: tuple[LspciFunction, ...]
    """An address occurs twice when the text holds two outputs (before and after, say)."""
    loose_acs: tuple[LooseAcs, ...] = ()
    loose_links: tuple[LinkStatus, ...] = ()
    access_denied: bool = False
    """Somewhere capabilities were hidden: missing ACS lines mean nothing."""
    cut_acs_lines: int = 0
    """ACSCtl lines without all seven flags."""


class LspciTreeNode(Record, frozen=True):
    """One function in the tree of `lspci -t`."""

    bdf: Bdf
    parent: Bdf | None
    """The bridge above; None on a root bus."""
    root_bus: str
    """`0000:20`."""
    secondary_bus: int | None = None
    """For a bridge: the bus right below it."""
    subordinate_bus: int | None = None
    name: str | None = None
    """Only with -v; untrusted text."""


class LspciTree(Record, frozen=True):
    nodes: tuple[LspciTreeNode, ...]
    complete: bool
    """Every branch that begins in the text also ends in it."""
