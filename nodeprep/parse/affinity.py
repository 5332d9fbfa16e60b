"""The columns of `nvidia-smi topo -m` behind the matrix: CPU Affinity, NUMA Affinity, GPU NUMA ID.

A CPU Affinity may be empty (a cpuset that lies in another NUMA node), and the columns behind it are
set apart by two tabs where a value is short: with tabs the first field is the CPU Affinity, and the
filled ones after it follow in order.  Without tabs an empty field cannot be seen, so a row with
fewer words than the header has columns says nothing.
"""

from __future__ import annotations

import re

_NODES = re.compile(r"N/A|[\d,-]+")
_COLUMNS = (
    ("CPU Affinity", ("CPU", "Affinity")),
    ("NUMA Affinity", ("NUMA", "Affinity")),
    ("GPU NUMA ID", ("GPU", "NUMA", "ID")),
)


def affinity_columns(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The column names in the tail of a header, and the words that are none.

    A tail that is cut within a name counts as that name's beginning and adds no column.
    """
    found: list[str] = []
    while words:
        known = [(name, parts) for name, parts in _COLUMNS if tuple(words[: len(parts)]) == parts]
        if not known:
            return tuple(found), [] if _is_cut(words) else words
        found.append(known[0][0])
        words = words[len(known[0][1]) :]
    return tuple(found), []


def read_affinity(
    raw: str, words: list[str], devices: int, columns: tuple[str, ...], cut: bool
) -> dict[str, str]:
    """Column -> text as printed; a column whose value cannot be told apart is left out.

    raw: the line with its tabs.  words: everything behind the row name.  cut: the text ends in this
    line, so that a value may be incomplete.
    """
    fields = [field.strip() for field in raw.split("\t")]
    if fields[1 : devices + 1] == words[:devices] and len(fields) > devices + 1:
        values = _by_tabs(fields[devices + 1 :], columns)
    else:
        values = words[devices : devices + len(columns)]
        values = values if len(values) == len(columns) else []
    if values and (values[-1].endswith(("-", ",")) or (cut and not _is_whole(values, columns))):
        values = values[:-1]
    return dict(zip(columns, values, strict=False)) if values else {}


def _is_whole(values: list[str], columns: tuple[str, ...]) -> bool:
    """Whether the last value stands as printed although the text ends behind it.

    A node number is hardly ever cut in two; a list of CPUs easily is.
    """
    return columns[len(values) - 1] != "CPU Affinity" and bool(_NODES.fullmatch(values[-1]))


def _by_tabs(fields: list[str], columns: tuple[str, ...]) -> list[str]:
    filled = [field for field in fields[1:] if field]
    return [fields[0], *filled] if len(filled) == len(columns) - 1 else []


def _is_cut(words: list[str]) -> bool:
    """Whether these words begin a column name and end before it does."""
    return any(
        len(words) <= len(parts)
        and words[:-1] == list(parts[: len(words) - 1])
        and parts[len(words) - 1].startswith(words[-1])
        for _, parts in _COLUMNS
    )
