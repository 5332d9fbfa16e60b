"""The lines below one function in `lspci`, gathered into one record."""

from __future__ import annotations

import re
from collections.abc import Callable

from nodeprep.model.lspci import LooseAcs, LspciFunction
from nodeprep.model.pci import AcsFlag, AcsStatus, LinkStatus, PortType, acs_flag
from nodeprep.parse.lspci_header import Header, read_ids

_CAPABILITY = re.compile(r"\[(?P<offset>[0-9a-f]{2,3})(?: v\d{1,2})?\] ?(?P<what>.*)")
_EXPRESS = re.compile(r"Express (?:\(v\d\) )?(?P<port>[A-Z][A-Za-z/ -]{3,40})")
_BUS = re.compile(r"\b(primary|secondary|subordinate)=([0-9a-f]{2})\b")
_FLAG = re.compile(r"([A-Za-z]{4,12})([+-])(?![\w+-])")
_SPEED = re.compile(r"Speed (\d{1,3}(?:\.\d)?)GT/s")
_WIDTH = re.compile(r"Width x(\d{1,2})\b")
_NUMBER = re.compile(r"\d{1,9}")
_IN_FLAGS = re.compile(r"\b(NUMA node|IOMMU group) (\d{1,9})\b")
_NAME = re.compile(r"[\w.\-]{1,64}")

_EXTENDED = 0x100
"""Extended capabilities begin here."""

# pciutils ls-caps.c, cap_express(); longest first, as one begins with another.
_PORTS = (
    ("Root Complex Integrated Endpoint", PortType.RC_ENDPOINT),
    ("Root Complex Event Collector", PortType.RC_EVENT_COLLECTOR),
    ("PCI-Express to PCI/PCI-X Bridge", PortType.PCIE_TO_PCI),
    ("PCI/PCI-X to PCI-Express Bridge", PortType.PCI_TO_PCIE),
    ("Legacy Endpoint", PortType.LEGACY_ENDPOINT),
    ("Downstream Port", PortType.DOWNSTREAM),
    ("Upstream Port", PortType.UPSTREAM),
    ("Root Port", PortType.ROOT_PORT),
    ("Endpoint", PortType.ENDPOINT),
)


class Block:
    """What was read below one first line, or below none (`header=None`)."""

    def __init__(self, header: Header | None) -> None:
        self.header = header
        self.acs: list[LooseAcs] = []
        self.links: list[LinkStatus] = []
        self.access_denied = False
        self.cut_acs_lines = 0
        self._rev_ff = header is not None and header.revision == 0xFF
        self._buses: dict[str, int] = {}
        self._port_type: PortType | None = None
        self._ats: bool | None = None
        self._numbers: dict[str, int] = {}
        self._driver: str | None = None
        self._slot: str | None = None
        self._subsystem: tuple[int | None, int | None] = (None, None)
        self._acs_named = self._extended = self._chain_broken = False
        self._begins_whole = self._ends_whole = False
        # The last ACSCap (LnkCap) line waits for its ACSCtl (LnkSta) line.
        self._acs_open = self._link_open = False

    def feed(self, key: str, text: str) -> None:
        """One line, with what a mailer has wrapped of it: `LnkSta`, `Speed 16GT/s, Width x16`."""
        if key in _LAST_KEYS:
            self._ends_whole = True
        handle = _HANDLERS.get(key)
        if handle is not None:
            handle(self, text)

    def feed_bare(self, line: str) -> None:
        """A line without a key."""
        if line.startswith("!!! Unknown header type"):
            self._rev_ff = True
        elif line.startswith("Express "):
            self._express(line)

    def function(self, *, more_follow: bool) -> LspciFunction | None:
        """The record; None below no address. more_follow: another function's first line ended it.

        Two ACSCtl (or LnkSta) lines under one address prove that first lines are missing: then
        none of them can be given to this function.
        """
        if self.header is None or self.header.bdf is None:
            return None
        acs = self.acs[0] if len(self.acs) == 1 else None
        return LspciFunction(
            **self.header._asdict(),
            subsystem_vendor_id=self._subsystem[0],
            subsystem_id=self._subsystem[1],
            primary_bus=self._buses.get("primary"),
            secondary_bus=self._buses.get("secondary"),
            subordinate_bus=self._buses.get("subordinate"),
            port_type=self._port_type,
            link=self.links[0] if len(self.links) == 1 else None,
            acs_status=self._acs_status(more_follow),
            acs_capabilities=None if acs is None else acs.capabilities,
            acs_control=None if acs is None else acs.control,
            ats_enabled=self._ats,
            numa_node=self._numbers.get("NUMA node"),
            iommu_group=self._numbers.get("IOMMU group"),
            driver=self._driver,
            physical_slot=self._slot,
            access_denied=self.access_denied,
            rev_ff=self._rev_ff,
        )

    @property
    def lacks_first_lines(self) -> bool:
        """Whether the words of several functions stand under this one address."""
        return self.header is not None and len(self.acs) > 1

    @property
    def holds_bare_words(self) -> bool:
        """Whether an ACSCtl line stands here without its capability line: a filtered text."""
        return self.header is not None and len(self.acs) == 1 and not self._acs_named

    def loose(self) -> tuple[list[LooseAcs], list[LinkStatus]]:
        """ACS words and links that belong to no known function."""
        nameless = self.header is None or self.header.bdf is None
        return (
            self.acs if nameless or len(self.acs) > 1 else [],
            self.links if nameless or len(self.links) > 1 else [],
        )

    def _acs_status(self, more_follow: bool) -> AcsStatus:
        if len(self.acs) == 1 or (self._acs_named and not self.acs):
            return AcsStatus.PRESENT
        whole = self._begins_whole and (self._ends_whole or more_follow)
        shown = self._extended and not (self._chain_broken or self.access_denied or self._rev_ff)
        return AcsStatus.ABSENT if whole and shown and not self.acs else AcsStatus.UNKNOWN

    def _capability(self, text: str) -> None:
        if "access denied" in text:
            self.access_denied = True
        match = _CAPABILITY.match(text)
        if match is None:
            return
        if int(match["offset"], 16) >= _EXTENDED:
            self._extended = True
        what = match["what"]
        if what.startswith("<chain"):
            self._chain_broken = True
        elif what.startswith("Access Control Services"):
            self._acs_named = True
        elif what.startswith("Express"):
            self._express(what)

    def _express(self, text: str) -> None:
        match = _EXPRESS.match(text)
        if match is not None:
            self._port_type = next(
                (port for words, port in _PORTS if match["port"].startswith(words)), None
            )

    def _acs_cap(self, text: str) -> None:
        self.acs.append(LooseAcs(capabilities=_flags(text), control=None))
        self._acs_open = True

    def _acs_ctl(self, text: str) -> None:
        control = _flags(text)
        if control is None:
            self.cut_acs_lines += 1
        capabilities = None
        if self._acs_open:
            capabilities = self.acs.pop().capabilities
            self._acs_open = False
        self.acs.append(LooseAcs(capabilities=capabilities, control=control))

    def _link_cap(self, text: str) -> None:
        speed, width = _speed(text), _width(text)
        if speed is not None or width is not None:
            self.links.append(LinkStatus(max_speed_gts=speed, max_width=width))
            self._link_open = True

    def _link_sta(self, text: str) -> None:
        speed, width = _speed(text), _width(text)
        if speed is None and width is None:
            return
        possible = self.links.pop() if self._link_open else LinkStatus()
        self._link_open = False
        self.links.append(
            LinkStatus(
                speed_gts=speed,
                width=width,
                max_speed_gts=possible.max_speed_gts,
                max_width=possible.max_width,
            )
        )

    def _bus(self, text: str) -> None:
        self._buses = {name: int(number, 16) for name, number in _BUS.findall(text)}

    def _subsystem_line(self, text: str) -> None:
        self._subsystem = read_ids(text)

    def _control(self, text: str) -> None:
        self._begins_whole = self._begins_whole or "BusMaster" in text

    def _flags_line(self, text: str) -> None:
        """`lspci -v` has it in the place of Control and Status, node and group included."""
        if "devsel" in text:
            self._begins_whole = True
            for name, number in _IN_FLAGS.findall(text):
                self._number(name, number)

    def _numa_node(self, text: str) -> None:
        self._number("NUMA node", text)

    def _iommu_group(self, text: str) -> None:
        self._number("IOMMU group", text)

    def _number(self, name: str, text: str) -> None:
        match = _NUMBER.match(text)
        if match is not None:
            self._numbers[name] = int(match[0])

    def _driver_line(self, text: str) -> None:
        match = _NAME.match(text)
        self._driver = match[0] if match is not None else None

    def _physical_slot(self, text: str) -> None:
        self._slot = text[:64] or None

    def _ats_ctl(self, text: str) -> None:
        self._ats = {"Enable+": True, "Enable-": False}.get(text[:7])


_LAST_KEYS = ("Kernel driver in use", "Kernel modules")
"""What lspci prints behind the capabilities."""

_HANDLERS: dict[str, Callable[[Block, str], None]] = {
    "ACSCap": Block._acs_cap,
    "ACSCtl": Block._acs_ctl,
    "ATSCtl": Block._ats_ctl,
    "Bus": Block._bus,
    "Capabilities": Block._capability,
    "Control": Block._control,
    "Flags": Block._flags_line,
    "IOMMU group": Block._iommu_group,
    "Kernel driver in use": Block._driver_line,
    "LnkCap": Block._link_cap,
    "LnkSta": Block._link_sta,
    "NUMA node": Block._numa_node,
    "Physical Slot": Block._physical_slot,
    "Subsystem": Block._subsystem_line,
}


def _flags(text: str) -> AcsFlag | None:
    """All seven flags, or None: a cut line does not tell the bits behind the cut."""
    seen: dict[AcsFlag, bool] = {}
    for name, sign in _FLAG.findall(text):
        flag = acs_flag(name)
        if flag is not None:
            seen[flag] = sign == "+"
    if len(seen) != len(AcsFlag):
        return None
    return AcsFlag(sum(flag for flag, on in seen.items() if on))


def _speed(text: str) -> float | None:
    match = _SPEED.search(text)
    return None if match is None else float(match[1])


def _width(text: str) -> int | None:
    match = _WIDTH.search(text)
    return None if match is None else int(match[1])
