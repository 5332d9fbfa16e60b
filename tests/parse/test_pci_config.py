"""Configuration space, as root reads it, as others do, and as no hardware should have it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.pci import AcsFlag, AcsStatus, ConfigAccess, LinkStatus, PortType
from nodeprep.model.pci_config import PciConfig
from nodeprep.parse.pci_config import parse_pci_config
from tests.pci_bytes import ACS_OFFSET, EXPRESS_OFFSET, EXTENDED_OFFSET, PM_OFFSET, config_space

BRIDGE = config_space(
    vendor=0x1000,
    device=0xC010,
    class_code=0x060400,
    port_type=PortType.DOWNSTREAM,
    subsystem=(0x1000, 0xA024),
    buses=(0x41, 0x42, 0x45),
    revision=0xB0,
    speed_gts=8.0,
    width=8,
    max_speed_gts=32.0,
    max_width=16,
    acs_cap=0x5F,
    acs_ctrl=0x1D,
)
GPU = config_space(
    vendor=0x10DE,
    device=0x26B9,
    class_code=0x030200,
    port_type=PortType.ENDPOINT,
    subsystem=(0x10DE, 0x1851),
    multifunction=True,
    ats=True,
)


def reader(space: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, length: space[offset : offset + length]


def parse(space: bytes | bytearray) -> PciConfig:
    return parse_pci_config(reader(bytes(space)))


def changed(space: bytes, offset: int, *dwords: int) -> bytearray:
    copy = bytearray(space)
    struct.pack_into(f"<{len(dwords)}I", copy, offset, *dwords)
    return copy


def test_a_switch_port() -> None:
    config = parse(BRIDGE)
    assert config.config_access is ConfigAccess.FULL
    assert (config.vendor_id, config.device_id, config.revision) == (0x1000, 0xC010, 0xB0)
    assert config.class_code == 0x060400
    assert (config.subsystem_vendor_id, config.subsystem_id) == (0x1000, 0xA024)
    assert (config.header_type, config.multifunction) == (1, False)
    assert (config.primary_bus, config.secondary_bus, config.subordinate_bus) == (0x41, 0x42, 0x45)
    assert config.port_type is PortType.DOWNSTREAM
    assert config.link == LinkStatus(speed_gts=8.0, width=8, max_speed_gts=32.0, max_width=16)
    assert config.acs_status is AcsStatus.PRESENT
    assert config.acs is not None
    assert (config.acs.offset, config.acs.capabilities, config.acs.control) == (
        ACS_OFFSET,
        AcsFlag(0x5F),
        AcsFlag(0x1D),
    )
    assert config.ats_enabled is None


def test_an_endpoint() -> None:
    config = parse(GPU)
    assert (config.header_type, config.multifunction) == (0, True)
    assert (config.subsystem_vendor_id, config.subsystem_id) == (0x10DE, 0x1851)
    assert config.secondary_bus is None
    assert config.acs_status is AcsStatus.ABSENT
    assert config.acs is None
    assert config.ats_enabled is True


@pytest.mark.parametrize("port_type", list(PortType))
def test_port_types(port_type: PortType) -> None:
    config = parse(
        config_space(vendor=1, device=2, class_code=0x060400, port_type=port_type, acs_cap=0)
    )
    assert config.port_type is port_type
    without = port_type in (PortType.RC_ENDPOINT, PortType.RC_EVENT_COLLECTOR)
    assert (config.link is None) == without


@pytest.mark.parametrize(
    ("length", "access"),
    [
        (0, ConfigAccess.NONE),
        (63, ConfigAccess.NONE),
        (64, ConfigAccess.HEADER),
        (256, ConfigAccess.CONVENTIONAL),
        (4096, ConfigAccess.FULL),
    ],
)
def test_how_far_it_can_be_read(length: int, access: ConfigAccess) -> None:
    config = parse(BRIDGE[:length])
    assert config.access is access
    known = access is not ConfigAccess.NONE
    assert (config.vendor_id == 0x1000) == known
    if access is not ConfigAccess.FULL:
        assert config.acs_status is AcsStatus.UNKNOWN
        assert config.acs is None
    assert (config.port_type is not None) == (length >= 256)


def test_nothing_is_read_twice_and_little_at_all() -> None:
    reads: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        reads.append((offset, length))
        return BRIDGE[offset : offset + length]

    parse_pci_config(read)
    assert sum(length for _, length in reads) <= 120
    assert len(set(reads)) == len(reads)
    assert reads[0] == (0, 64)


def test_a_reader_without_root_is_asked_for_little_more_than_the_header() -> None:
    reads: list[int] = []

    def read(offset: int, length: int) -> bytes:
        reads.append(offset)
        return BRIDGE[:64][offset : offset + length]

    parse_pci_config(read)
    assert len(reads) <= 4


def test_gone() -> None:
    assert parse(b"\xff" * 4096) == PciConfig()
    assert parse(b"\xff" * 64) == PciConfig()


def test_a_virtual_function_has_no_ids_of_its_own() -> None:
    config = parse(changed(GPU, 0, 0xFFFFFFFF))
    assert (config.vendor_id, config.device_id) == (None, None)
    assert config.port_type is PortType.ENDPOINT


def test_conventional_pci() -> None:
    config = parse(config_space(vendor=1, device=2, class_code=0x030000, port_type=None)[:256])
    assert config.port_type is None
    assert config.link is None
    assert config.acs_status is AcsStatus.UNKNOWN


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (0x00000000, AcsStatus.ABSENT),
        (0xFFFFFFFF, AcsStatus.UNKNOWN),
        (0x00010001, AcsStatus.ABSENT),
    ],
)
def test_the_first_extended_header(first: int, status: AcsStatus) -> None:
    assert parse(changed(BRIDGE, EXTENDED_OFFSET, first)).acs_status is status


@pytest.mark.parametrize(
    "following",
    [EXTENDED_OFFSET, 0x004, 0x0FC, 0xFFC],
    ids=["circle", "below the space", "into the conventional space", "last dword, all ones"],
)
def test_a_broken_extended_list_is_unknown(following: int) -> None:
    space = changed(BRIDGE, EXTENDED_OFFSET, 0x00010001 | following << 20)
    space[0xFFC:] = b"\xff" * 4
    config = parse(space)
    assert config.acs_status is AcsStatus.UNKNOWN
    assert config.acs is None


def test_a_circle_of_two() -> None:
    space = changed(BRIDGE, EXTENDED_OFFSET, 0x00010001 | 0x200 << 20)
    assert parse(changed(bytes(space), 0x200, 0x00010002 | 0x100 << 20)).acs_status is (
        AcsStatus.UNKNOWN
    )


def test_an_acs_capability_at_the_very_end_or_unreadable() -> None:
    at_end = changed(BRIDGE, EXTENDED_OFFSET, 0x00010001 | 0xFFC << 20)
    struct.pack_into("<I", at_end, 0xFFC, 0x0001000D)
    assert parse(at_end).acs_status is AcsStatus.UNKNOWN
    assert parse(changed(BRIDGE, ACS_OFFSET + 4, 0xFFFFFFFF)).acs_status is AcsStatus.UNKNOWN
    assert parse(BRIDGE[: ACS_OFFSET + 4]).acs_status is AcsStatus.UNKNOWN
    assert parse(BRIDGE[: ACS_OFFSET + 4]).access is ConfigAccess.FULL


@pytest.mark.parametrize(
    "pointer", [PM_OFFSET, 0x00, 0x3C, 0xFF], ids=["circle", "end", "header", "odd"]
)
def test_a_broken_capability_list_ends_the_walk(pointer: int) -> None:
    space = bytearray(BRIDGE)
    space[PM_OFFSET + 1] = pointer
    config = parse(space)
    assert config.port_type is None
    assert config.acs_status is AcsStatus.PRESENT


def test_without_a_capability_list() -> None:
    space = bytearray(BRIDGE)
    space[6] = 0
    assert parse(space).port_type is None


def test_a_capability_too_near_the_end_has_no_link() -> None:
    space = bytearray(BRIDGE)
    space[0x34] = 0xF8
    space[0xF8:0x100] = bytes([0x10, 0, 0x62, 0, 0, 0, 0, 0])
    config = parse(space)
    assert config.port_type is PortType.DOWNSTREAM
    assert config.link is None


def test_unknown_codes_are_unknown() -> None:
    space = bytearray(BRIDGE)
    space[EXPRESS_OFFSET + 2] = 0xC2
    space[EXPRESS_OFFSET + 0x12] = 0x0F
    config = parse(space)
    assert config.port_type is None
    assert config.link is not None
    assert config.link.speed_gts is None


def test_errors_of_the_reader_pass() -> None:
    def read(offset: int, length: int) -> bytes:
        raise PermissionError(offset, length)

    with pytest.raises(PermissionError):
        parse_pci_config(read)


@given(st.binary(min_size=0, max_size=512), st.integers(0, 4096))
def test_any_bytes(start: bytes, length: int) -> None:
    config = parse((start + bytes(4096))[:length])
    assert (config.acs is not None) == (config.acs_status is AcsStatus.PRESENT)


@given(st.lists(st.tuples(st.integers(0, 1023), st.integers(0, 0xFFFFFFFF)), max_size=40))
def test_damaged_dwords(damage: list[tuple[int, int]]) -> None:
    space = bytearray(BRIDGE)
    for place, dword in damage:
        struct.pack_into("<I", space, place * 4, dword)
    reads = 0

    def read(offset: int, length: int) -> bytes:
        nonlocal reads
        reads += 1
        assert 0 <= offset <= 4096 - length
        return bytes(space[offset : offset + length])

    parse_pci_config(read)
    assert reads < 600


@given(st.integers(0, 0x7F), st.integers(0, 0x7F), st.sampled_from([0x100, 0x148, 0xFF0]))
def test_every_acs_word(capabilities: int, control: int, offset: int) -> None:
    space = config_space(
        vendor=1, device=2, class_code=0x060400, port_type=PortType.ROOT_PORT, aer=False,
        acs_cap=capabilities, acs_ctrl=control, acs_offset=offset,
    )  # fmt: skip
    acs = parse(space).acs
    assert acs is not None
    assert (acs.offset, acs.capabilities, acs.control) == (offset, capabilities, control)
