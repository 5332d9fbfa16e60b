"""Cleaning of pasted text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.parse.text import (
    MAX_LINE,
    MAX_LINES,
    MAX_TEXT_BYTES,
    clean_lines,
    clean_text,
    decode,
    looks_like_html,
    shown,
)


@pytest.mark.parametrize(
    ("pasted", "clean"),
    [
        ("\t\x1b[4mGPU0\tGPU1\x1b[0m", "\tGPU0\tGPU1"),
        ("\t^[[4mGPU0\tGPU1^[[0m", "\tGPU0\tGPU1"),
        (r"\e[1;31mGPU0\e[0m \033[0m \x1b[4m", "GPU0  "),
        ("[4mGPU0[0m [1;32mX[0m", "GPU0 X"),
        ("\u241b[4mGPU0\x9b0m", "GPU0"),
        ("\x1b]0;root@gpu1: ~\x07$ ls", "$ ls"),
        ("\x1b(BGPU0", "GPU0"),
        ("GPU0\ud800", "GPU0"),
        ("G\0P\0U\0000\0", "GPU0"),
        ("\ufeffGPU0\u200b\u00ad\u202e", "GPU0"),
        ("> > 00:01.0 PCI bridge", "00:01.0 PCI bridge"),
        (">>\t\tACSCtl:", "\t\tACSCtl:"),
        (">  |           +-01.0", " |           +-01.0"),
        (r"Capabilities: \[148 v1\] \<?\>", "Capabilities: [148 v1] <?>"),
        (r"           \-18.7", r"           \-18.7"),
        ("Capabilities: &lt;access denied&gt;", "Capabilities: <access denied>"),
        ("A&amp;lt;", "A&lt;"),
        ("Status: >TAbort- <TAbort-", "Status: >TAbort- <TAbort-"),
        ("Region 0: Memory at 0 [size=16M]", "Region 0: Memory at 0 [size=16M]"),
        ("Capabilities: [40] Express", "Capabilities: [40] Express"),
    ],
)
def test_one_line(pasted: str, clean: str) -> None:
    assert clean_text(pasted) == clean


def test_line_ends() -> None:
    assert clean_lines("a\r\nb\rc\u2028d\x85e\n") == ["a", "b", "c", "d", "e", ""]
    assert clean_lines("a") == ["a"]


def test_quoted_printable_is_undone_when_every_sign_is_an_escape() -> None:
    assert clean_text("GPU0=09 X =09SY=\nS=20\nname=3Dvalue") == "GPU0\t X \tSYS \nname=value"


@pytest.mark.parametrize(
    "text",
    ["Bus: primary=00, secondary=01\nX    = Self\nroot=20", "root=UUID=3D20 ro", "a=\nb = c"],
)
def test_equal_signs_of_other_text_are_left_alone(text: str) -> None:
    assert clean_text(text) == text


def test_too_much_is_refused_before_it_is_read() -> None:
    with pytest.raises(ParseError, match="longer than 8 MiB") as caught:
        clean_lines("a" * (MAX_TEXT_BYTES + 1))
    assert caught.value.hint
    with pytest.raises(ParseError, match="longer than 8 MiB"):
        decode(b"a" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(ParseError, match="200,000 lines"):
        clean_lines("\n" * (MAX_LINES + 1))


def test_an_endless_line_is_blanked_and_the_others_stay() -> None:
    assert clean_lines("a\n" + "b" * (MAX_LINE + 1) + "\nc") == ["a", "", "c"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("GPU0 ↔".encode(), "GPU0 ↔"),
        (b"\xef\xbb\xbfGPU0", "GPU0"),
        ("\ufeffGPU0\r\n".encode("utf-16-le"), "GPU0\r\n"),
        ("\ufeffGPU0".encode("utf-16-be"), "GPU0"),
        (b"GPU\xff0", "GPU\ufffd0"),
    ],
)
def test_decode(data: bytes, text: str) -> None:
    assert decode(data) == text


def test_html() -> None:
    assert looks_like_html('<span class="x">ACSCtl:</span>')
    assert not looks_like_html("Status: >TAbort- <TAbort- <MAbort- <?> <access denied>")


def test_shown_is_short_and_one_line() -> None:
    assert shown("a\n\x1b[31m" + "b" * 200) == repr("a \x1b[31m" + "b" * 50 + "...")


@given(st.binary(max_size=400))
def test_bytes_become_printable_lines(data: bytes) -> None:
    for line in clean_lines(decode(data)):
        assert not any(character < " " and character != "\t" for character in line)
        assert "\x7f" not in line


@given(st.text(max_size=300))
def test_cleaning_is_total(text: str) -> None:
    assert "\x1b" not in clean_text(text)


@given(st.lists(st.text("GPU01 \tXNVPHB", max_size=30), max_size=10))
def test_clean_text_is_kept(lines: list[str]) -> None:
    assert clean_lines("\n".join(lines)) == (lines or [""])
