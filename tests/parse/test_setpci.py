"""Every form in which the answers of setpci get pasted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.setpci import SetpciRecord, SetpciTrouble
from nodeprep.parse.setpci import MAX_RECORDS, parse_setpci, parse_setpci_document
from tests.parse.attempt import value_of


def only(text: str) -> SetpciRecord:
    (record,) = parse_setpci(text)
    return record


@pytest.mark.parametrize(
    "line",
    [
        "40:01.1 001d",
        "0000:40:01.1 001d",
        "0000:40:01.1: 001d",
        "40:01.1 = 001d",
        "40:01.1=001D",
        "40:01.1 -> 0x001d",
        "40:01.1 ACSCtl: 001d",
        "0000:40:01.1 ECAP_ACS+6.w = 001d",
        "0000:40:01.1 ECAP_ACS+0x6.w=001d",
        "40:01.1\t001d",
        "> 40:01.1 | 001d",
        "0000:40:01.1\n001d",
        "0000:40:01.1:\n  001d\n",
        "$ sudo setpci -s 40:01.1 ECAP_ACS+6.w\n001d",
        "+ setpci -s 0000:40:01.1 ECAP_ACS+0x6.w\n001d",
        "0000:40:01.1 (ecap 000d @2a0) @2a6 = 001d",
    ],
)
def test_one_word_of_one_port(line: str) -> None:
    record = only(line)
    assert (record.bdf, record.value, record.width_bits) == ("0000:40:01.1", 0x1D, 16)
    assert record.trouble is None
    assert not record.is_write


def test_words_alone() -> None:
    records = parse_setpci("0000\n001d\n 001D \r\n001f001f\n")
    assert [record.value for record in records] == [0, 0x1D, 0x1D, 0x1F001F]
    assert [record.width_bits for record in records] == [16, 16, 16, 32]
    assert {record.bdf for record in records} == {None}


def test_verbose_forms() -> None:
    place = {"capability": "ecap 000d", "capability_offset": 0x110, "offset": 0x116}
    read = only("0000:00:02.0 (ecap 000d @110) @116 = 001f")
    assert msgspec.structs.asdict(read).items() >= {**place, "value": 0x1F}.items()
    masked = only("0000:00:02.0 (ecap 000d @110) @116 001f->(0000:002c)->0013")
    expected = {**place, "before": 0x1F, "mask": 0x2C, "value": 0x13, "is_write": True}
    assert msgspec.structs.asdict(masked).items() >= expected.items()
    plain = only("0000:00:02.0 (ecap 000d @110) @116 0000")
    assert (plain.value, plain.before, plain.is_write) == (0, None, True)
    nameless = only("@116 001f->(0000:002c)->0013")
    assert (nameless.bdf, nameless.before, nameless.value) == (None, 0x1F, 0x13)
    byte = only("0000:00:02.0 @04 = 07")
    assert (byte.value, byte.width_bits, byte.capability) == (7, 8, None)
    conventional = only("0000:00:02.0 (cap 10 @90) @a2 = 7083")
    assert (conventional.capability, conventional.capability_offset) == ("cap 10", 0x90)


def test_a_change_written_by_a_script() -> None:
    record = only("0000:40:01.1: 001d -> 0011")
    assert (record.before, record.value, record.is_write) == (0x1D, 0x11, True)


def test_commands_name_the_register_and_the_port_of_the_words_below() -> None:
    records = parse_setpci(
        "# setpci -s 40:01.1 ECAP_ACS+6.w\n001d\n"
        "# setpci -s 40:01.2 CAP_EXP+12.w\n7083\n"
        "# setpci -s 40:01.3 ECAP_ACS+6.w=0000:002c\n"
        "# setpci -d 1000:c010 ECAP_ACS+6.w\n0011\n0012\n"
        "# setpci -s 40:01.4 ECAP_ACS+4.w ECAP_ACS+6.w\n005f\n001d\n"
    )
    assert [(one.bdf, one.register, one.value) for one in records] == [
        ("0000:40:01.1", "ECAP_ACS+6.w", 0x1D),
        ("0000:40:01.2", "CAP_EXP+12.w", 0x7083),
        (None, "ECAP_ACS+6.w", 0x11),
        (None, "ECAP_ACS+6.w", 0x12),
        ("0000:40:01.4", None, 0x5F),
        ("0000:40:01.4", None, 0x1D),
    ]


@pytest.mark.parametrize(
    ("line", "trouble", "bdf"),
    [
        ("setpci: 0000:03:00.0: Instance #0 of Extended capability 000d not found - there are no "
         "capabilities with that id.", SetpciTrouble.NO_CAPABILITY, "0000:03:00.0"),
        ("03:00.0 setpci: 0000:03:00.0: Extended capability 000d not found",
         SetpciTrouble.NO_CAPABILITY, "0000:03:00.0"),
        ("setpci: Warning: No devices selected for operation group 1.", SetpciTrouble.NO_DEVICE,
         None),
        ("pcilib: Cannot open /sys/bus/pci/devices/0000:03:00.0/config", SetpciTrouble.DENIED,
         "0000:03:00.0"),
        ("pcilib: sysfs_write: write failed: Operation not permitted", SetpciTrouble.DENIED, None),
        ("bash: setpci: command not found", SetpciTrouble.OTHER, None),
        ("0000:40:01.1 ffff", SetpciTrouble.ALL_ONES, "0000:40:01.1"),
    ],
)  # fmt: skip
def test_troubles_are_no_values(line: str, trouble: SetpciTrouble, bdf: str | None) -> None:
    record = only(line)
    assert record.trouble is trouble
    assert record.bdf == bdf
    assert record.value is None


def test_an_address_without_an_answer() -> None:
    records = parse_setpci("0000:40:01.1\n001d\n0000:40:01.2\n0000:40:01.3\n0011\n0000:40:01.4:\n")
    assert [(one.bdf, one.value, one.trouble) for one in records] == [
        ("0000:40:01.1", 0x1D, None),
        ("0000:40:01.2", None, SetpciTrouble.NO_ANSWER),
        ("0000:40:01.3", 0x11, None),
        ("0000:40:01.4", None, SetpciTrouble.NO_ANSWER),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "0000:40:01.1",
        "00:01.0 PCI bridge: Intel Corporation Device 1bbc",
        "-[0000:00]-+-00.0\n           +-01.0\n",
        "\t\tACSCtl:\tSrcValid+ TransBlk-",
        "0000:40:01.1 001d 0011",
        "12\n34\n",
    ],
)
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(ParseError, match="no output of setpci") as caught:
        parse_setpci(text)
    assert caught.value.hint


def test_too_many() -> None:
    with pytest.raises(ParseError, match="100,000"):
        parse_setpci("001d\n" * (MAX_RECORDS + 1))


def test_the_document_keeps_leading_zeros() -> None:
    document = msgspec.to_builtins(parse_setpci_document("@116 001f->(0000:002c)->0013\n@04 = 07"))
    assert [(one["before"], one["mask"], one["value"]) for one in document["records"]] == [
        ("001f", "002c", "0013"),
        (None, None, "07"),
    ]


WORDS = st.sampled_from(
    ["0000:40:01.1", "40:01.1:", "001d", "0x0011", "ffff", "->", "=", "@116", "(ecap", "000d",
     "@110)", "001f->(0000:002c)->0013", "setpci", "-s", "setpci:", "pcilib:", "ECAP_ACS+6.w",
     "ECAP_ACS+6.w=0", "ACSCtl", "\n", "\n", "not found", "capability"]
)  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=60))
def test_any_words(words: list[str]) -> None:
    text = " ".join(words)
    records = value_of(parse_setpci, text)
    if records is None:
        return
    assert all((one.value is None) == (one.trouble is not None) for one in records)
    msgspec.json.encode(parse_setpci_document(text))


@given(st.integers(0, 0xFFFE), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_every_word_of_every_port(word: int, bus: int, device: int, function: int) -> None:
    bdf = f"0000:{bus:02x}:{device:02x}.{function}"
    record = only(f"{bdf} (ecap 000d @110) @116 = {word:04x}")
    assert (record.bdf, record.value) == (bdf, word)
    assert only(f"{bdf} {word:04x}").value == word
