from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.output.escape import ascii_only, safe, safe_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("a\nb", r"a\nb"),
        ("a\r\tb", r"a\r\tb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("\x7f", r"\x7f"),
        ("\u202egpj", r"\u202egpj"),
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("a\u200bb", r"a\u200bb"),
        ("a\u2028b", r"a\u2028b"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("Größe 模型", "Größe 模型"),
        ("C:\\x", "C:\\x"),
        ("e\u0301", "e\u0301"),
    ],
)
def test_a_terminal_sees_only_printable_text(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_stacked_marks_are_shown_as_escapes() -> None:
    assert safe("a" + "\u0301" * 4) == "a\u0301\u0301\\u0301\\u0301"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert safe("x" * 50, 10) == "xxxxxxx..."
    assert safe("x" * 10, 10) == "x" * 10


def test_a_cut_never_splits_an_escape() -> None:
    assert safe("abcd\u202e\u202e", 12) == "abcd..."


@given(st.text(st.characters()), st.integers(4, 40))
def test_any_text_becomes_one_bounded_printable_line(text: str, limit: int) -> None:
    shown = safe(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@given(st.text(st.characters(), max_size=40))
def test_escaping_twice_changes_nothing(text: str) -> None:
    assert safe(safe(text)) == safe(text)


def test_lines_stay_lines_and_tabs_keep_their_columns() -> None:
    assert safe_lines("a\tb\n\x1bc\r\n") == ["a       b", r"\x1bc"]


def test_many_lines_are_cut() -> None:
    assert safe_lines("x\n" * 9, most=2) == ["x", "x", "... more lines"]


def test_ascii_only_keeps_ascii() -> None:
    assert ascii_only("a → b\n") == "a \\u2192 b\n"
