"""dmesg, journalctl -k, or a pasted part of either -> the lines that matter to GPU paths.

    [74785.660496] pcieport 0000:00:02.0:    [12] Replay Timer Timeout
    NVRM: Xid (PCI:0000:02:00): 79, pid=1234, GPU has fallen off the bus.

Wordings: Linux drivers/pci/pcie/aer.c, drivers/iommu/amd/iommu.c, drivers/iommu/intel/dmar.c,
drivers/iommu/iommu.c, drivers/pci/pci.c; NVIDIA open kernel modules (nvidia, NVRM).
"""

from __future__ import annotations

import re

from nodeprep.errors import ParseError
from nodeprep.model.kernel_log import KernelEvent, KernelEventKind, KernelLog
from nodeprep.model.pci import Bdf, parse_bdf
from nodeprep.parse.text import clean_lines

MAX_EVENTS = 2_000
_MAX_LINE = 300
_ADDRESS = re.compile(
    r"(?<![0-9a-f.])(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f](?:\.[0-7])?(?![0-9a-f])",
    re.IGNORECASE,
)
_CORRECTABLE = (
    r"Bad TLP|BadTLP|Bad DLLP|BadDLLP|RELAY_NUM Rollover|Replay[ _]?Num(?:ber)?[ _]?Rollover"
    r"|Rollover|Replay Timer Timeout|Timeout(?= *(?:\(First\))?$)|Receiver Error|RxErr"
)
_UNCORRECTABLE = (
    r"Completion Timeout|CmpltTO|Malformed TLP|MalfTLP|Poisoned TLP|Flow Control Protocol"
    r"|Data Link Protocol|Unsupported Request|UnsupReq|ACS Violation|ACSViol|Completer Abort"
)

_Rule = tuple[KernelEventKind, "re.Pattern[str]"]
_RULES: tuple[_Rule, ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (KernelEventKind.XID, r"\bXid(?: \([^)]{1,40}\))?:? *(?P<code>\d{1,3})\b"),
        (KernelEventKind.OFF_THE_BUS, r"fallen off the bus|GPU is lost"),
        (KernelEventKind.SURPRISE_DOWN, r"Surprise Down(?: Error)?|\bSDES\b"),
        (
            KernelEventKind.IOMMU_FAULT,
            r"AMD-Vi:.{0,60}IO_PAGE_FAULT|DMAR:.{0,60}(?:fault|DMA (?:Read|Write))",
        ),
        (KernelEventKind.IOMMU_DOMAIN, r"iommu: Default domain type: *(?P<code>[\w-]{1,20})"),
        (
            KernelEventKind.PEER_MAPPING,
            r"is not aligned at|IOMMU mapping failed from GPU\d+ to GPU\d+",
        ),
        (
            KernelEventKind.DRIVER_MISMATCH,
            r"NVRM:? API mismatch|Driver/library version mismatch",
        ),
        (KernelEventKind.ACS_CONFIGURED, r"Configured ACS to 0x(?P<code>[0-9a-f]{1,4})"),
        (KernelEventKind.ACS_OPTION_REFUSED, r"Can't parse (?:disable_acs_redir|ACS)"),
        (KernelEventKind.PCI_OPTION_UNKNOWN, r"PCI: Unknown option [`'](?P<code>[^`']{1,80})"),
        (KernelEventKind.LOCKDOWN, r"Lockdown: .{0,60}(?:direct PCI access|setpci)"),
        (KernelEventKind.AER_CORRECTABLE, rf"\[ ?\d+\] *(?P<code>{_CORRECTABLE})"),
        (KernelEventKind.AER_UNCORRECTABLE, rf"\[ ?\d+\] *(?P<code>{_UNCORRECTABLE})"),
        (
            KernelEventKind.AER_UNCORRECTABLE,
            r"AER:.{0,40}Uncorrected \((?P<code>Fatal|Non-Fatal)\)|Uncorrected \(Fatal\) error",
        ),
        (KernelEventKind.AER_CORRECTABLE, rf"AER:.{{0,60}}(?P<code>{_CORRECTABLE})"),
    )
)


def parse_kernel_log(text: str) -> KernelLog:
    """Every line that matters, in order; a log without any is an empty tuple.

    Raises ParseError over the size of a paste, for no text at all, or over MAX_EVENTS events.
    """
    lines = [line for line in clean_lines(text) if line.strip()]
    if not lines:
        raise ParseError("no line of a kernel log", hint="paste the output of: dmesg")
    events = [event for line in lines if (event := _event(line)) is not None]
    if len(events) > MAX_EVENTS:
        raise ParseError(
            f"more than {MAX_EVENTS} lines of faults",
            hint="keep those of one boot: journalctl -k -b",
        )
    return KernelLog(events=tuple(events), lines=len(lines))


def _event(line: str) -> KernelEvent | None:
    head = line[:1000]
    for kind, pattern in _RULES:
        match = pattern.search(head)
        if match is not None:
            code = match["code"] if "code" in pattern.groupindex else None
            return KernelEvent(
                kind=kind, line=head.strip()[:_MAX_LINE], bdf=_address(head), code=code
            )
    return None


def _address(line: str) -> Bdf | None:
    """The function a line speaks of; NVRM leaves the function number out."""
    match = _ADDRESS.search(line)
    if match is None:
        return None
    text = match[0] if "." in match[0] else f"{match[0]}.0"
    try:
        return parse_bdf(text)
    except ParseError:
        return None
