"""The columns of `nvidia-smi topo -m` behind the matrix: CPU Affinity, NUMA Affinity, GPU NUMA ID.

A CPU Affinity may be empty (a cpuset that lies in another NUMA node), and the columns behind it are
set apart by two tabs where a value is short: with tabs the first field is the CPU Affinity, and the
filled ones after it follow in order.  Without tabs an empty field cannot be seen, so a row with
fewer values than the header has columns says nothing.

A value that ends at the right edge of the text may be cut there.  Where a terminal has folded the
line its rest stands in the next one: two pieces are one value when there is a piece too many.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_VALUE = re.compile(r"N/A|[0-9]{1,7}(?:[,-][0-9]{1,7})*")
_PIECE = re.compile(r"N/A|[0-9,-]+|N/?|/?A")
"""A value, or what a cut or a fold has left of it; no cell of a matrix looks like one."""
CPU_COLUMN = "CPU Affinity"
_COLUMNS = (
    (CPU_COLUMN, ("CPU", "Affinity")),
    ("NUMA Affinity", ("NUMA", "Affinity")),
    ("GPU NUMA ID", ("GPU", "NUMA", "ID")),
)


class RowLine(NamedTuple):
    """One line of a row, or of what a terminal has folded of it."""

    raw: str
    words: list[str]
    """Those behind the name of the row."""
    ends_text: bool = False
    """The text ends here without a line end: the last word may be cut."""
    at_edge: bool = False
    """The last word ends at the right edge of the text: it may be cut, or go on below."""


def affinity_columns(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The column names in the tail of a header, and the words that are none.

    A name that is cut counts as a column without a name, if its column is the next in order.
    """
    found: list[str] = []
    while words:
        known = [(name, parts) for name, parts in _COLUMNS if tuple(words[: len(parts)]) == parts]
        if not known:
            cut = _is_cut(words, len(found))
            return (*found, *([""] if cut else [])), [] if cut else words
        found.append(known[0][0])
        words = words[len(known[0][1]) :]
    return tuple(found), []


def are_pieces(words: list[str]) -> bool:
    """Whether a line holds nothing but values, or pieces of them."""
    return len(words) <= len(_COLUMNS) and all(map(_PIECE.fullmatch, words))


def cpu_count(value: str) -> int | None:
    """How many CPUs `0-3,8` lists: 5; None for what is no list, or not in ascending order."""
    if not _VALUE.fullmatch(value) or value == "N/A":
        return None
    ends = [tuple(map(int, part.split("-", 1))) for part in value.split(",") if part.count("-") < 2]
    flat = [number for pair in ends for number in (pair[0], pair[-1])]
    if len(ends) != value.count(",") + 1 or flat != sorted(flat):
        return None
    return sum(pair[-1] - pair[0] + 1 for pair in ends)


def read_affinity(lines: list[RowLine], devices: int, columns: tuple[str, ...]) -> dict[str, str]:
    """Column -> text as printed; a column whose value is not certain is left out.

    lines: those of one row.
    """
    fields = [field.strip() for field in lines[0].raw.split("\t")]
    tabbed = fields[1 : devices + 1] == lines[0].words[:devices] and len(fields) > devices + 1
    if tabbed and len(lines) == 1:
        values = _by_tabs(fields[devices + 1 :], columns)
    else:
        values = _by_words(lines, len(columns))
    if values and not _is_whole(values, lines[-1]):
        values = values[:-1]
    if any(value and not _VALUE.fullmatch(value) for value in values):
        return {}
    return {column: value for column, value in zip(columns, values, strict=False) if column}


def _by_words(lines: list[RowLine], wanted: int) -> list[str]:
    """One value a column, or nothing: without tabs a column may have been empty."""
    pieces: list[str] = []
    breaks: set[int] = set()
    """Pieces that may go on in the next one, which stands below."""
    for line, below in zip(lines, [*lines[1:], None], strict=True):
        for word in line.words:
            if _PIECE.fullmatch(word):
                pieces.append(word)
            elif pieces:
                return pieces if len(pieces) == wanted else []
        if pieces and line.at_edge and below is not None and not below.raw[:1].isspace():
            breaks.add(len(pieces) - 1)
    if len(pieces) - wanted == len(breaks) > 0:
        return _joined(pieces, breaks)
    return pieces if len(pieces) == wanted else []


def _joined(pieces: list[str], breaks: set[int]) -> list[str]:
    values: list[str] = []
    for place, piece in enumerate(pieces):
        if place - 1 in breaks:
            values[-1] += piece
        else:
            values.append(piece)
    return values


def _is_whole(values: list[str], line: RowLine) -> bool:
    """Whether the last value of a row stands as printed; line: the last one of the row.

    A node number is hardly ever cut in two where a text ends; a list of CPUs easily is.  At the
    right edge of a window either is.
    """
    last = values[-1]
    if not last:
        return not line.ends_text
    if not _VALUE.fullmatch(last):
        return False
    if last == "N/A" or not line.words or not last.endswith(line.words[-1]):
        return True
    return not line.at_edge and not (line.ends_text and len(values) == 1)


def _by_tabs(fields: list[str], columns: tuple[str, ...]) -> list[str]:
    filled = [field for field in fields[1:] if field]
    return [fields[0], *filled] if len(filled) == len(columns) - 1 else []


def _is_cut(words: list[str], found: int) -> bool:
    """Whether these words begin the name of the next column and end before it does."""
    if found >= len(_COLUMNS):
        return False
    parts = _COLUMNS[found][1]
    return (
        len(words) <= len(parts)
        and words[:-1] == list(parts[: len(words) - 1])
        and parts[len(words) - 1].startswith(words[-1])
    )
