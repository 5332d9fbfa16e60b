"""Lines of the kernel log that bear on GPUs and the ways between them."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record
from nodeprep.model.pci import Bdf


class KernelEventKind(Enum):
    XID = "xid"
    """The NVIDIA driver's error report; the number says which."""
    OFF_THE_BUS = "off-the-bus"
    """A GPU that no longer answers."""
    SURPRISE_DOWN = "surprise-down"
    """A link that went down by itself (AER)."""
    AER_CORRECTABLE = "aer-correctable"
    """Bad TLP or DLLP, replay timer, rollover, receiver error: the link works, badly."""
    AER_UNCORRECTABLE = "aer-uncorrectable"
    IOMMU_FAULT = "iommu-fault"
    """AMD-Vi IO_PAGE_FAULT, or a DMAR fault of Intel's."""
    IOMMU_DOMAIN = "iommu-domain"
    """`Default domain type: Passthrough` or `Translated`."""
    PEER_MAPPING = "peer-mapping"
    """The driver could not map another GPU's BAR1."""
    DRIVER_MISMATCH = "driver-mismatch"
    """Kernel module and user space of the driver differ."""
    ACS_CONFIGURED = "acs-configured"
    """The kernel took a port's ACS word from the command line."""
    PCI_OPTION_UNKNOWN = "pci-option-unknown"
    ACS_OPTION_REFUSED = "acs-option-refused"
    """The kernel could not read the device list of an ACS option."""
    LOCKDOWN = "lockdown"


class KernelEvent(Record, frozen=True):
    """One line that matters."""

    kind: KernelEventKind
    line: str
    """As printed, cleaned, at most 300 characters; untrusted text."""
    bdf: Bdf | None = None
    code: str | None = None
    """Xid number, ACS word, domain type, name of an AER error: what the kind needs."""


class KernelLog(Record, frozen=True):
    events: tuple[KernelEvent, ...]
    lines: int
    """Lines looked at, those without meaning here included."""
