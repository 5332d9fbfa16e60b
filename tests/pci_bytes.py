"""Configuration space of one PCI function, built from real capability structures.

Layout: PCI Express Base Specification 6.0, 7.5.1 (header), 7.5.2 (power management), 7.5.3 (PCI
Express), 7.7.1 (MSI), 7.8.4 (AER), 7.7.11 (ACS), 10.5.1 (ATS), 9.3.3 (SR-IOV).  Good enough for
the real lspci and setpci.
"""

from __future__ import annotations

import struct

from nodeprep.model.pci import PortType

FULL_BYTES = 4096
"""What root reads of a PCI Express function."""
CONVENTIONAL_BYTES = 256
"""What root reads where the platform does not reach the extended space."""
HEADER_BYTES = 64
"""What everybody else reads."""

PM_OFFSET = 0x40
MSI_OFFSET = 0x50
EXPRESS_OFFSET = 0x70
EXTENDED_OFFSET = 0x100
ACS_OFFSET = 0x148
"""Right behind the AER structure, unless the caller says otherwise."""
ATS_OFFSET = 0x1C0
SRIOV_OFFSET = 0x200

_AER_BYTES = 0x48
_SPEED_CODES = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_NO_LINK = (PortType.RC_ENDPOINT, PortType.RC_EVENT_COLLECTOR)


def config_space(
    *,
    vendor: int,
    device: int,
    class_code: int,
    port_type: PortType | None,
    header_type: int | None = None,
    multifunction: bool = False,
    revision: int = 0,
    command: int = 0x0406,
    subsystem: tuple[int, int] | None = None,
    buses: tuple[int, int, int] | None = None,
    speed_gts: float = 16.0,
    width: int = 16,
    max_speed_gts: float | None = None,
    max_width: int | None = None,
    slot: int | None = None,
    msi: bool = True,
    aer: bool = True,
    acs_cap: int | None = None,
    acs_ctrl: int = 0,
    acs_offset: int | None = None,
    ats: bool | None = None,
    sriov_vfs: tuple[int, int] | None = None,
) -> bytes:
    """4,096 bytes; cut them to 256 or 64 for a reader that sees less.

    class_code: 24 bits.  port_type None: a conventional PCI function without a PCI Express
    capability.  header_type: 0 or 1; None: 1 for class 0604.  buses: primary, secondary and
    subordinate bus number of a bridge.  subsystem: vendor and device.  speed_gts, width: the
    negotiated link; max_*: the possible one, None for the same.  slot: physical slot number.
    acs_cap, acs_ctrl: ACS Capability and Control words; acs_cap None: no ACS.  acs_offset: None for
    right behind AER, or 0x100 without AER.  ats: enabled or not; None: no ATS.  sriov_vfs: total
    and switched-on virtual functions.
    """
    space = bytearray(FULL_BYTES)
    kind = (1 if class_code >> 8 == 0x0604 else 0) if header_type is None else header_type
    _header(space, vendor, device, class_code, kind | (0x80 if multifunction else 0))
    space[8] = revision
    struct.pack_into("<H", space, 0x04, command)
    if kind == 1:
        space[0x18:0x1B] = bytes(buses or (0, 0, 0))
    elif subsystem is not None:
        struct.pack_into("<HH", space, 0x2C, *subsystem)
    _conventional_list(space, port_type, subsystem if kind == 1 else None, msi)
    if port_type is None:
        return bytes(space)
    if port_type not in _NO_LINK:
        _link(space, speed_gts, width, max_speed_gts or speed_gts, max_width or width)
    if slot is not None:
        space[EXPRESS_OFFSET + 3] |= 0x01  # Slot Implemented
        struct.pack_into("<I", space, EXPRESS_OFFSET + 0x14, slot << 19)
    at = acs_offset or (ACS_OFFSET if aer else EXTENDED_OFFSET)
    _extended_list(space, aer, None if acs_cap is None else (at, acs_cap, acs_ctrl), ats, sriov_vfs)
    return bytes(space)


def control_word(space: bytes | bytearray, offset: int = ACS_OFFSET) -> int:
    """The ACS Control word of a space whose ACS capability lies at `offset`."""
    return int.from_bytes(space[offset + 6 : offset + 8], "little")


def _header(space: bytearray, vendor: int, device: int, class_code: int, kind: int) -> None:
    struct.pack_into("<HH", space, 0x00, vendor, device)
    struct.pack_into("<H", space, 0x06, 0x0010)  # Status: Capabilities List
    space[0x09:0x0C] = class_code.to_bytes(3, "little")
    space[0x0C] = 0x10  # cache line of 64 bytes
    space[0x0E] = kind


def _conventional_list(
    space: bytearray, port_type: PortType | None, subsystem: tuple[int, int] | None, msi: bool
) -> None:
    """Power management, MSI, PCI Express and (bridges only) Subsystem ID, linked in this order."""
    blocks: list[tuple[int, bytes]] = [(PM_OFFSET, struct.pack("<BxHHxx", 0x01, 0xC803, 0x0008))]
    if msi:
        blocks.append((MSI_OFFSET, struct.pack("<BxHQHH", 0x05, 0x0080, 0, 0, 0)))
    if port_type is not None:
        flags = 0x0002 | port_type.value << 4  # structure version 2
        blocks.append(
            (
                EXPRESS_OFFSET,
                struct.pack("<BxHIHH", 0x10, flags, 0x8FE2, 0x2930, 0).ljust(60, b"\0"),
            )
        )
    if subsystem is not None:
        blocks.append((0xB0, struct.pack("<BxHHH", 0x0D, 0, *subsystem)))
    space[0x34] = blocks[0][0]
    for index, (offset, block) in enumerate(blocks):
        space[offset : offset + len(block)] = block
        space[offset + 1] = blocks[index + 1][0] if index + 1 < len(blocks) else 0


def _link(
    space: bytearray, speed_gts: float, width: int, max_speed_gts: float, max_width: int
) -> None:
    """Link Capabilities, Link Status, Link Capabilities 2 (speed vector) and Link Control 2."""
    speed, fastest = _SPEED_CODES[speed_gts], _SPEED_CODES[max_speed_gts]
    struct.pack_into("<I", space, EXPRESS_OFFSET + 0x0C, fastest | max_width << 4)
    struct.pack_into("<H", space, EXPRESS_OFFSET + 0x12, speed | width << 4)
    struct.pack_into("<I", space, EXPRESS_OFFSET + 0x2C, (1 << fastest + 1) - 2)
    struct.pack_into("<H", space, EXPRESS_OFFSET + 0x30, fastest)


def _extended_list(
    space: bytearray,
    aer: bool,
    acs: tuple[int, int, int] | None,
    ats: bool | None,
    sriov_vfs: tuple[int, int] | None,
) -> None:
    """AER, ACS, ATS and SR-IOV, each where the caller wants it; ids and versions per the spec."""
    blocks: list[tuple[int, int, int, bytes]] = []
    if aer:
        blocks.append((EXTENDED_OFFSET, 0x0001, 2, bytes(_AER_BYTES - 4)))
    if acs is not None:
        offset, capabilities, control = acs
        blocks.append((offset, 0x000D, 1, struct.pack("<HHxxxx", capabilities, control)))
    if ats is not None:
        blocks.append((ATS_OFFSET, 0x000F, 1, struct.pack("<HH", 0x0020, 0x8000 if ats else 0)))
    if sriov_vfs is not None:
        total, enabled = sriov_vfs
        body = struct.pack("<IHHHHH", 0, 1 if enabled else 0, 0, total, total, enabled)
        blocks.append((SRIOV_OFFSET, 0x0010, 1, body.ljust(0x3C, b"\0")))
    if not blocks:
        return
    if blocks[0][0] != EXTENDED_OFFSET:
        # The list starts at 0x100, come what may: a null capability leads to the first one.
        blocks.insert(0, (EXTENDED_OFFSET, 0x0000, 0, b""))
    for index, (offset, number, version, body) in enumerate(blocks):
        following = blocks[index + 1][0] if index + 1 < len(blocks) else 0
        struct.pack_into("<I", space, offset, number | version << 16 | following << 20)
        space[offset + 4 : offset + 4 + len(body)] = body
