"""The kernel command line, as far as it bears on PCIe and the IOMMU."""

from __future__ import annotations

from nodeprep.model.base import Record


class ConfigAcs(Record, frozen=True):
    """One item of `pci=config_acs=`: the kernel reads the flags from right to left."""

    flags: str
    """`x0100x1`: bit 6 (DirectTrans) first, bit 0 (SrcValid) last; x leaves the firmware's bit."""
    device: str
    """An address, a path (`0000:40:01.1/00.0`) or `pci:vendor:device`."""


class KernelCommandLine(Record, frozen=True):
    """Of a word given twice the last one is kept, as the kernel does; None: not given."""

    text: str
    """The command line alone, without prompts and prefixes."""
    pci_options: tuple[str, ...] = ()
    """Every option of every `pci=`, split at commas as the kernel splits them."""
    unknown_pci_options: tuple[str, ...] = ()
    """Options that mainline Linux 6.12 answers with "PCI: Unknown option": `noacs`, or the
    devices behind the first one when a device list was written with commas."""
    disable_acs_redir: tuple[str, ...] = ()
    """Devices, as written."""
    config_acs: tuple[ConfigAcs, ...] = ()
    pcie_acs_override: str | None = None
    """An out-of-tree patch; no redirect bit is cleared by it."""
    iommu: str | None = None
    """`pt`, `off`, `soft`... as written."""
    intel_iommu: str | None = None
    amd_iommu: str | None = None
    iommu_passthrough: str | None = None
    """iommu.passthrough=: `1` or `0`."""
    iommu_strict: str | None = None
    """iommu.strict=."""
