"""What the configuration space of one PCI function says."""

from __future__ import annotations

from nodeprep.model.base import Record
from nodeprep.model.pci import AcsCapability, AcsStatus, ConfigAccess, LinkStatus, PortType


class PciConfig(Record, frozen=True):
    """The default is a function of which nothing could be read."""

    access: ConfigAccess = ConfigAccess.NONE
    vendor_id: int | None = None
    """None also for an SR-IOV virtual function, whose header holds ffff:ffff."""
    device_id: int | None = None
    class_code: int | None = None
    """24 bits: base class, subclass, programming interface."""
    revision: int | None = None
    subsystem_vendor_id: int | None = None
    subsystem_id: int | None = None
    header_type: int | None = None
    """0 endpoint, 1 PCI-to-PCI bridge, 2 CardBus bridge; without the multifunction bit."""
    multifunction: bool | None = None
    primary_bus: int | None = None
    secondary_bus: int | None = None
    subordinate_bus: int | None = None
    port_type: PortType | None = None
    link: LinkStatus | None = None
    """None for functions without a link: root complex endpoints, conventional PCI."""
    acs_status: AcsStatus = AcsStatus.UNKNOWN
    acs: AcsCapability | None = None
    ats_enabled: bool | None = None
    """ATS Control bit 15; None when the walk to ACS did not pass an ATS capability."""

    @property
    def config_access(self) -> ConfigAccess:
        """`access` by the name `PciFunction` has for it."""
        return self.access
