"""Text that is not ours, made safe for a terminal, a log and a single line.

Device names, model names, log lines and addresses read from a file may hold anything: escape
sequences that move the cursor, line ends that forge a line of ours, bidi controls that show a
command backwards.  Everything of that kind is shown as its escape (`\\x1b`), never sent.
"""

from __future__ import annotations

import unicodedata

CUT = "..."
"""Stands at the end of what was cut."""

_MOST_MARKS = 2
"""Combining marks in a row; more of them are drawn over the neighbouring lines."""


def safe(text: str, limit: int = 1200) -> str:
    """One line of at most `limit` characters that a terminal prints and nothing else.

    Printable characters (str.isprintable) stay.  C0 and C1 controls, line and paragraph ends,
    bidi and zero-width controls, private, unassigned and lone surrogate code points become
    escapes.
    """
    shown: list[str] = []
    room, marks = limit, 0
    for char in text[: limit + 1]:
        marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        plain = char.isprintable() and marks <= _MOST_MARKS
        piece = char if plain else ascii(char)[1:-1]
        room -= len(piece)
        shown.append(piece)
        if room < 0:
            return _cut(shown, limit)
    return "".join(shown)


def safe_lines(text: str, *, most: int = 6, limit: int = 400) -> list[str]:
    """The lines of a text, each safe, at most `most` of them; tabs become spaces.

    A last line says that more were left out.
    """
    lines = text[: most * limit * 4].splitlines()
    shown = [safe(line.rstrip().expandtabs(8), limit) for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"{CUT} more lines")
    return shown


def ascii_only(text: str) -> str:
    """What is not ASCII as its escape, for a terminal without UTF-8."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _cut(pieces: list[str], limit: int) -> str:
    """Whole pieces that fit before the mark of a cut."""
    room = limit - len(CUT)
    kept: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            break
        kept.append(piece)
    return "".join(kept) + CUT
