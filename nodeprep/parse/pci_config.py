"""The configuration space of one function, read no further than needed.

Layout: PCI Express Base Specification 6.0: 7.5.1 (header), 7.5.3 (PCI Express capability), 7.6.3
(extended capability header), 7.7.11 (ACS), 10.5.1 (ATS); PCI Local Bus 3.0, 6.7 (capability list).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from nodeprep.model.pci import (
    AcsCapability,
    AcsFlag,
    AcsStatus,
    ConfigAccess,
    LinkStatus,
    PortType,
)
from nodeprep.model.pci_config import PciConfig

Read = Callable[[int, int], bytes]
"""`read(offset, length)`: at most `length` bytes, fewer at the end of the file."""

HEADER_BYTES = 0x40
CONVENTIONAL_BYTES = 0x100
SPACE_BYTES = 0x1000

_ID_EXPRESS = 0x10
_ID_SUBSYSTEM = 0x0D
_EXT_ACS = 0x000D
_EXT_ATS = 0x000F

_MAX_CAPABILITIES = (CONVENTIONAL_BYTES - HEADER_BYTES) // 4
_MAX_EXTENDED = (SPACE_BYTES - CONVENTIONAL_BYTES) // 8
"""As many as fit: a longer list runs in a circle. Linux has the same bound."""

_ALL_ONES = 0xFFFFFFFF
_ACS_BITS = 0x7F
_SPEEDS_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
_WITHOUT_LINK = (PortType.RC_ENDPOINT, PortType.RC_EVENT_COLLECTOR)


def parse_pci_config(read: Read, whole: Callable[[int], bool] | None = None) -> PciConfig:
    """What the header, the PCI Express capability and the ACS capability of a function say.

    Reads the 64-byte header, one dword a capability, 8 bytes of link registers, and one dword an
    extended capability until ACS is found: about 100 bytes for a switch port, 64 without root.

    64 readable bytes give HEADER, 256 CONVENTIONAL, both with ACS unknown; all ones give NONE.  ACS
    is ABSENT only when the extended list was followed to its end; a list that runs in a circle,
    leaves the space or meets all ones leaves it UNKNOWN.
    whole: asked with the class code whether more than the header is wanted; None: always.  Where it
    is not, the result has the header's fields, access HEADER and ACS unknown.
    Raises what `read` raises; makes no error of its own out of any bytes.
    """
    header = read(0, HEADER_BYTES)
    if len(header) < HEADER_BYTES or header.count(0xFF) == len(header):
        return PciConfig()
    space = _Space(read, header)
    kind = header[0x0E] & 0x7F
    if whole is not None and not whole(int.from_bytes(header[0x09:0x0C], "little")):
        return _of_header(space, header, kind)
    capabilities = space.capabilities(kind)
    express = capabilities.get(_ID_EXPRESS)
    port_type = None if express is None else _port_type(space.word(express + 2))
    status, acs, ats = space.extended()
    subsystem_vendor, subsystem = space.ids(_subsystem_offset(kind, capabilities))
    return structs.replace(
        _of_header(space, header, kind),
        access=space.access(),
        subsystem_vendor_id=subsystem_vendor,
        subsystem_id=subsystem,
        port_type=port_type,
        link=None if express is None or port_type in _WITHOUT_LINK else space.link(express),
        acs_status=status,
        acs=acs,
        ats_enabled=ats,
    )


def _of_header(space: _Space, header: bytes, kind: int) -> PciConfig:
    """What the first 64 bytes tell."""
    vendor, device = space.ids(0x00)
    subsystem_vendor, subsystem = space.ids(_subsystem_offset(kind, {}))
    is_bridge = kind in (1, 2)
    return PciConfig(
        access=ConfigAccess.HEADER,
        vendor_id=vendor,
        device_id=device,
        class_code=int.from_bytes(header[0x09:0x0C], "little"),
        revision=header[0x08],
        subsystem_vendor_id=subsystem_vendor,
        subsystem_id=subsystem,
        header_type=kind,
        multifunction=bool(header[0x0E] & 0x80),
        primary_bus=header[0x18] if is_bridge else None,
        secondary_bus=header[0x19] if is_bridge else None,
        subordinate_bus=header[0x1A] if is_bridge else None,
    )


class _Space:
    """The bytes read so far, and how far reading got."""

    def __init__(self, read: Read, header: bytes) -> None:
        self._read = read
        self._dwords = {
            offset: int.from_bytes(header[offset : offset + 4], "little")
            for offset in range(0, HEADER_BYTES, 4)
        }
        self._beyond_header = False
        self._beyond_conventional = False

    def dword(self, offset: int) -> int | None:
        """A dword at a multiple of 4 within the space; None past the end of what is readable."""
        if offset not in self._dwords:
            data = self._read(offset, 4)
            if len(data) < 4:
                return None
            self._dwords[offset] = int.from_bytes(data[:4], "little")
            self._beyond_header = True
            self._beyond_conventional |= offset >= CONVENTIONAL_BYTES
        return self._dwords[offset]

    def word(self, offset: int) -> int | None:
        dword = self.dword(offset & ~3)
        return None if dword is None else dword >> (offset & 2) * 8 & 0xFFFF

    def ids(self, offset: int | None) -> tuple[int | None, int | None]:
        """Vendor and device number in one dword; a vendor of 0 or ffff is none."""
        dword = None if offset is None else self.dword(offset)
        if dword is None or dword & 0xFFFF in (0, 0xFFFF):
            return None, None
        return dword & 0xFFFF, dword >> 16

    def access(self) -> ConfigAccess:
        """Call it last: it knows what was tried."""
        if self._beyond_conventional:
            return ConfigAccess.FULL
        if self._beyond_header or self.dword(HEADER_BYTES) is not None:
            return ConfigAccess.CONVENTIONAL
        return ConfigAccess.HEADER

    def capabilities(self, kind: int) -> dict[int, int]:
        """Capability id -> offset of the first of that id, as far as the list can be followed."""
        found: dict[int, int] = {}
        status = self.word(0x06) or 0
        place = (self.word(0x14 if kind == 2 else 0x34) or 0) & 0xFC
        seen: set[int] = set()
        while status & 0x10 and place >= HEADER_BYTES and place not in seen:
            seen.add(place)
            dword = self.dword(place)
            if dword is None or dword == _ALL_ONES or len(seen) > _MAX_CAPABILITIES:
                break
            found.setdefault(dword & 0xFF, place)
            place = dword >> 8 & 0xFC
        return found

    def extended(self) -> tuple[AcsStatus, AcsCapability | None, bool | None]:
        """ACS, and whether ATS is enabled if the walk to ACS passes it."""
        place, ats = CONVENTIONAL_BYTES, None
        seen: set[int] = set()
        while place >= CONVENTIONAL_BYTES and place not in seen and len(seen) < _MAX_EXTENDED:
            seen.add(place)
            dword = self.dword(place)
            if dword is None or dword == _ALL_ONES:
                return AcsStatus.UNKNOWN, None, ats
            number = dword & 0xFFFF
            if number == _EXT_ACS:
                return *self._acs(place), ats
            if number == _EXT_ATS:
                control = self.word(place + 6)
                ats = None if control is None else bool(control & 0x8000)
            place = dword >> 20 & 0xFFC
            if place == 0:
                return AcsStatus.ABSENT, None, ats
        return AcsStatus.UNKNOWN, None, ats

    def _acs(self, place: int) -> tuple[AcsStatus, AcsCapability | None]:
        dword = self.dword(place + 4) if place + 8 <= SPACE_BYTES else None
        if dword is None or dword == _ALL_ONES:
            return AcsStatus.UNKNOWN, None
        capability = AcsCapability(
            offset=place,
            capabilities=AcsFlag(dword & _ACS_BITS),
            control=AcsFlag(dword >> 16 & _ACS_BITS),
        )
        return AcsStatus.PRESENT, capability

    def link(self, express: int) -> LinkStatus | None:
        """Link Capabilities at +0c, Link Control and Link Status at +10 (7.5.3.6 to 7.5.3.8)."""
        if express + 0x14 > CONVENTIONAL_BYTES:
            return None
        capabilities, status = self.dword(express + 0x0C), self.word(express + 0x12)
        if capabilities is None or status is None:
            return None
        return LinkStatus(
            speed_gts=_SPEEDS_GTS.get(status & 0xF),
            width=status >> 4 & 0x3F,
            max_speed_gts=_SPEEDS_GTS.get(capabilities & 0xF),
            max_width=capabilities >> 4 & 0x3F,
        )


def _port_type(flags: int | None) -> PortType | None:
    try:
        return None if flags is None else PortType(flags >> 4 & 0xF)
    except ValueError:
        return None


def _subsystem_offset(kind: int, capabilities: dict[int, int]) -> int | None:
    """Where the subsystem ids lie: in the header, behind a CardBus header, or in a capability."""
    if kind in (0, 2):
        return 0x2C if kind == 0 else 0x40
    place = capabilities.get(_ID_SUBSYSTEM) if kind == 1 else None
    return None if place is None or place + 8 > CONVENTIONAL_BYTES else place + 4
