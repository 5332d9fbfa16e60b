"""`lspci -vvv`, whole or what a paste has left of it.

    40:01.1 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] Starship GPP Bridge [1022:1483]
            Bus: primary=40, secondary=41, subordinate=45, sec-latency=0
            Capabilities: [58] Express (v2) Root Port (Slot+), MSI 00
                    LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <64us
                    LnkSta: Speed 16GT/s (ok), Width x16 (ok)
            Capabilities: [2a0 v1] Access Control Services
                    ACSCap: SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ ...
                    ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ ...

Indentation is not trusted.  A line belongs to the function above it until the next first line, or
until `--`, with which grep parts its groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from nodeprep.errors import ParseError
from nodeprep.model.lspci import LooseAcs, LspciFunction, LspciReport
from nodeprep.model.pci import REDIRECT, AcsFlag, AcsStatus, LinkStatus, acs_names, acs_word
from nodeprep.parse.lspci_block import Block
from nodeprep.parse.lspci_header import Header, read_header
from nodeprep.parse.text import clean_lines, looks_like_html

MAX_FUNCTIONS = 20_000

_KEY = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9/ ._-]{0,40}):(?:\s|$)")
_NUMBERED = re.compile(r"\d{1,7}[:-]")
_NUMBERED_KEY = re.compile(r"\d{1,7}[:-]\s+[A-Za-z]{3,8}:\s")
_HEX = frozenset("0123456789abcdefABCDEF")
_GROUP = re.compile(r"IOMMU group (?P<group>\d{1,7}):?\s+(?P<first>\S.*)", re.IGNORECASE)
"""A first line behind its group, as scripts print it: `IOMMU Group 15: 5d:00.0 3D controller...`"""
_CUT_WIDTH = re.compile(r", Width x[13]?$")
"""No other number begins another width: there are 1, 2, 4, 8, 12, 16 and 32 lanes."""
_CUT_VALUE = re.compile(r"((?:Kernel driver in use|Physical Slot|NUMA node|IOMMU group):\s).*")
_ONE_LINE = frozenset({"Kernel driver in use", "Physical Slot", "NUMA node", "IOMMU group"})
"""Values too short to be wrapped."""
_LINES_JOINED = 8
"""A wrapped line goes on in the next ones, up to the next key."""


def parse_lspci(text: str) -> LspciReport:
    """Every function, and every ACS word and link that stands under none.

    Raises ParseError when the text holds nothing that lspci prints.
    """
    lines = clean_lines(text)
    report = _Reader().read(_unnumbered(_without_cut_ends(lines)))
    if not (report.functions or report.loose_acs or report.loose_links or report.access_denied):
        raise _nothing(lines)
    return report


def parse_lspci_document(text: str) -> dict[str, object]:
    """The report with words where the records hold numbers, for `nodeprep parse lspci`."""
    report = parse_lspci(text)
    document: dict[str, object] = msgspec.to_builtins(report)
    document["functions"] = [_function_document(one) for one in report.functions]
    document["loose_acs"] = [
        _acs_document(one.capabilities, one.control) for one in report.loose_acs
    ]
    return document


class _Reader:
    """Puts lines together, gives them to their block, and closes blocks."""

    def __init__(self) -> None:
        self.block = Block(None)
        self.key: str | None = None
        self.parts: list[str] = []
        self.functions: list[LspciFunction] = []
        self.bare: set[int] = set()
        """Places of functions whose words stand there without their capability line."""
        self.filtered = False
        """First lines are missing somewhere: grep kept some of them."""
        self.loose_acs: list[LooseAcs] = []
        self.loose_links: list[LinkStatus] = []
        self.access_denied = False
        self.cut_acs_lines = 0

    def read(self, lines: Iterable[str]) -> LspciReport:
        for line in lines:
            self._line(line.strip())
        self._open(None, more_follow=False)
        if self.filtered:
            self._doubt_bare_words()
        return LspciReport(
            functions=tuple(self.functions),
            loose_acs=tuple(self.loose_acs),
            loose_links=tuple(self.loose_links),
            access_denied=self.access_denied,
            cut_acs_lines=self.cut_acs_lines,
        )

    def _line(self, line: str) -> None:
        if not line:
            self._flush()
        elif line == "--":
            self._open(None, more_follow=False)
        elif line[0] in _HEX and (header := read_header(line)) is not None:
            self._open(header, more_follow=True)
        elif (group := _GROUP.match(line)) is not None and (
            header := read_header(group["first"])
        ) is not None:
            self._open(header, more_follow=True)
            self.block.feed("IOMMU group", group["group"])
        elif (match := _KEY.match(line)) is not None:
            self._flush()
            self.key, self.parts = match["key"], [line[match.end() :].strip()]
        elif self.key is not None and not line.startswith(("!", "Express ")):
            if len(self.parts) < _LINES_JOINED and self.key not in _ONE_LINE:
                self.parts.append(line)
        else:
            self._flush()
            self.block.feed_bare(line)

    def _flush(self) -> None:
        if self.key is not None:
            self.block.feed(self.key, " ".join(self.parts))
        self.key = None

    def _open(self, header: Header | None, *, more_follow: bool) -> None:
        """Closes the block at hand and begins the next."""
        self._flush()
        function = self.block.function(more_follow=more_follow)
        if function is not None:
            if self.block.holds_bare_words:
                self.bare.add(len(self.functions))
            self.functions.append(function)
        self.filtered = self.filtered or self.block.lacks_first_lines
        if len(self.functions) > MAX_FUNCTIONS:
            raise ParseError(
                f"more than {MAX_FUNCTIONS:,} functions", hint="keep the output of one command"
            )
        acs, links = self.block.loose()
        self.loose_acs += acs
        self.loose_links += links
        self.access_denied = self.access_denied or self.block.access_denied
        self.cut_acs_lines += self.block.cut_acs_lines
        self.block = Block(header)

    def _doubt_bare_words(self) -> None:
        """Takes bare words from their functions: the first line above may be another's."""
        for place in sorted(self.bare):
            one = self.functions[place]
            self.loose_acs.append(
                LooseAcs(capabilities=one.acs_capabilities, control=one.acs_control)
            )
            self.functions[place] = msgspec.structs.replace(
                one,
                acs_status=AcsStatus.UNKNOWN,
                acs_capabilities=None,
                acs_control=None,
            )


def _without_cut_ends(lines: list[str]) -> list[str]:
    """Without last words that may be cut: `Width x1` of x16 at the right edge of a window, and the
    value in which the text ends."""
    edge = max(map(len, lines), default=0)
    kept = [_CUT_WIDTH.sub("", line) if len(line) == edge else line for line in lines]
    # The last of `lines` is empty when the text ends in a line end.
    kept[-1] = _CUT_VALUE.sub(r"\1", _CUT_WIDTH.sub("", kept[-1]))
    return kept


def _unnumbered(lines: list[str]) -> list[str]:
    """Without the line numbers of `grep -n`, which would pass for PCI domains."""
    if not any(_NUMBERED_KEY.match(line) for line in lines):
        return lines
    return [_NUMBERED.sub("", line, count=1) if _NUMBERED.match(line) else line for line in lines]


def _function_document(one: LspciFunction) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(one)
    return (
        document
        | {
            "class_code": None if one.class_code is None else f"{one.class_code:06x}",
            "vendor_id": _word(one.vendor_id),
            "device_id": _word(one.device_id),
            "subsystem_vendor_id": _word(one.subsystem_vendor_id),
            "subsystem_id": _word(one.subsystem_id),
            "port_type": None if one.port_type is None else one.port_type.name.lower(),
        }
        | {
            f"acs_{key}": value
            for key, value in _acs_document(one.acs_capabilities, one.acs_control).items()
        }
    )


def _acs_document(capabilities: AcsFlag | None, control: AcsFlag | None) -> dict[str, object]:
    return {
        "capabilities": _word(capabilities),
        "control": _word(control),
        "redirects": None if control is None else acs_names(control & REDIRECT),
    }


def _word(number: int | None) -> str | None:
    return None if number is None else acs_word(number)


def _nothing(lines: list[str]) -> ParseError:
    if any(looks_like_html(line) for line in lines):
        return ParseError(
            "no lspci text found: this is HTML", hint="save or paste it as plain text"
        )
    return ParseError("no lspci text found", hint="run as root: lspci -vvv")
