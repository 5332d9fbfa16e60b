"""Kernel log lines: what matters, of whom it speaks, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.kernel_log import KernelEventKind
from nodeprep.parse.kernel_log import MAX_EVENTS, parse_kernel_log


@pytest.mark.parametrize(
    ("line", "kind", "bdf", "code"),
    [
        ("[  9.1] NVRM: Xid (PCI:0000:02:00): 79, pid=12, GPU has fallen off the bus.",
         KernelEventKind.XID, "0000:02:00.0", "79"),
        ("NVRM: Xid (PCI:0000:c1:00): 31, pid='<unknown>', name=x, Ch 0000",
         KernelEventKind.XID, "0000:c1:00.0", "31"),
        ("NVRM: GPU 0000:02:00.0: GPU has fallen off the bus.",
         KernelEventKind.OFF_THE_BUS, "0000:02:00.0", None),
        ("[1.2] pcieport 0000:00:02.0:    [ 5] Surprise Down Error    (First)",
         KernelEventKind.SURPRISE_DOWN, "0000:00:02.0", None),
        ("[1.2] pcieport 0000:00:02.0:    [12] Replay Timer Timeout  ",
         KernelEventKind.AER_CORRECTABLE, "0000:00:02.0", "Replay Timer Timeout"),
        ("pcieport 0000:40:01.1:    [ 7] BadDLLP",
         KernelEventKind.AER_CORRECTABLE, "0000:40:01.1", "BadDLLP"),
        ("pcieport 0000:40:01.1:   [18] MalfTLP                (First)",
         KernelEventKind.AER_UNCORRECTABLE, "0000:40:01.1", "MalfTLP"),
        ("pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010",
         KernelEventKind.AER_UNCORRECTABLE, "0000:00:02.0", "Fatal"),
        ("nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80]",
         KernelEventKind.IOMMU_FAULT, "0000:07:00.0", None),
        ("DMAR: [DMA Write NO_PASID] Request device [5e:00.0] fault addr 0xf2a0 [reason 0x05]",
         KernelEventKind.IOMMU_FAULT, "0000:5e:00.0", None),
        ("iommu: Default domain type: Passthrough (set via kernel command line)",
         KernelEventKind.IOMMU_DOMAIN, None, "Passthrough"),
        ("NVRM: The peer DMA address 0x1800400000 is not aligned at 0x20000000",
         KernelEventKind.PEER_MAPPING, None, None),
        ("NVRM: API mismatch: the client has the version 525.105.17, but",
         KernelEventKind.DRIVER_MISMATCH, None, None),
        ("pci 0000:42:00.0: Configured ACS to 0x0011",
         KernelEventKind.ACS_CONFIGURED, "0000:42:00.0", "0011"),
        ("PCI: Unknown option `noacs'", KernelEventKind.PCI_OPTION_UNKNOWN, None, "noacs"),
        ("PCI: Can't parse ACS command line parameter",
         KernelEventKind.ACS_OPTION_REFUSED, None, None),
        ("Lockdown: setpci: direct PCI access is restricted; see man kernel_lockdown.7",
         KernelEventKind.LOCKDOWN, None, None),
    ],
)  # fmt: skip
def test_a_line_that_matters(
    line: str, kind: KernelEventKind, bdf: str | None, code: str | None
) -> None:
    (event,) = parse_kernel_log(f"> {line}\nusb 1-1: new high-speed USB device\n").events
    assert (event.kind, event.bdf, event.code) == (kind, bdf, code)


@pytest.mark.parametrize(
    "line",
    [
        "nvidia 0000:02:00.0: device has no AER-aware driver",
        "AMD-Vi: Interrupt remapping enabled",
        "DMAR: Host address width 46",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06",
        "pci 0000:00:02.0: PCI bridge to [bus 02]",
        "systemd[1]: Started Timeout.",
    ],
)
def test_a_line_that_does_not(line: str) -> None:
    log = parse_kernel_log(line)
    assert log.events == ()
    assert log.lines == 1


def test_nothing_and_too_much() -> None:
    with pytest.raises(ParseError):
        parse_kernel_log(" \n")
    with pytest.raises(ParseError, match="more than"):
        parse_kernel_log("GPU has fallen off the bus\n" * (MAX_EVENTS + 1))


@given(st.text(max_size=400))
def test_any_text_gives_a_log_or_a_parse_error(text: str) -> None:
    try:
        parse_kernel_log(text)
    except ParseError as error:
        assert error.hint  # noqa: PT017
