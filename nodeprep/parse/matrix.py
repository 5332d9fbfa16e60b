"""The matrices of nvidia-smi: the one reader behind `topo -m` and `topo -p2p`.

A matrix is a header of device names and one row a device:

            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      PIX     SYS     0-31            0               N/A
    GPU1    PIX      X      SYS     0-31            0               N/A
    NIC0    SYS     SYS      X

Cells never hold blanks and are never empty, so any run of blanks separates them, whatever a paste
made of the tabs; only the affinity columns need the tabs.  The header alone tells how many GPUs the
machine has: rows without one, or rows that the header does not name, are a cut matrix and never a
smaller machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nodeprep.errors import ParseError
from nodeprep.model.topology import LevelMatrix
from nodeprep.parse.affinity import CPU_COLUMN, cpu_count, read_affinity
from nodeprep.parse.matrix_draft import Draft, Row, read_drafts
from nodeprep.parse.matrix_header import ANY_CELL, GPU, split, take_while
from nodeprep.parse.text import clean_lines, looks_like_html, shown

_NVLINKS = re.compile(r"NV\d+")


class Kind(NamedTuple):
    """What tells one sort of matrix from another."""

    program: str
    """`nvidia-smi topo -m`."""
    cell: re.Pattern[str]
    has_affinity: bool
    """NIC and affinity columns are of this sort."""
    foreign_legend: frozenset[str]
    """Words that only the legend of the other sort explains."""
    other_program: str


def read_matrices(text: str, kind: Kind) -> tuple[LevelMatrix, ...]:
    """Every matrix of this kind in the text, in order. Raises ParseError when there is none."""
    lines = clean_lines(text)
    drafts = read_drafts(lines, kind.cell)
    matrices = tuple(
        matrix for draft in drafts if draft.rows and (matrix := _finish(draft, kind)) is not None
    )
    if not matrices:
        raise _no_matrix(lines, drafts, kind)
    return matrices


def _finish(draft: Draft, kind: Kind) -> LevelMatrix | None:
    """The matrix; None when it is one of another sort."""
    if _is_foreign(draft, kind):
        return None
    for row in draft.rows.values():
        row.lines = [line._replace(at_edge=draft.at_edge(line.raw)) for line in row.lines]
    # Without a header nobody knows how many columns there were.
    columns = [*draft.columns.devices] or [name for name in draft.rows if GPU.fullmatch(name)]
    nics_whole = draft.columns.nics_whole and not draft.foreign_rows
    if _last_is_doubtful(draft, columns):
        columns.pop()
        nics_whole = False
    cells = {
        name: _cells(name, row, columns, kind, more=bool(draft.columns.affinity))
        for name, row in draft.rows.items()
        if name in columns or GPU.fullmatch(name)
    }
    every = bool(draft.columns.gpus) and set(columns) == set(cells)
    return LevelMatrix(
        devices=tuple(columns),
        cells=cells,
        complete=_gpus_complete(draft, cells, len(columns)),
        nic_rows_complete=nics_whole
        and every
        and all(len(row) == len(columns) for row in cells.values()),
        affinity=_affinity(draft),
        nic_names=draft.nic_names,
        asymmetric=tuple(_asymmetric(draft.columns.gpus, cells)),
    )


def _last_is_doubtful(draft: Draft, columns: list[str]) -> bool:
    """Whether the last NIC of the header may be the beginning of a name: NIC1 of NIC10.

    It is when the name ends at the right edge, or the rows go on behind it, unless its row has the
    X in its own column.
    """
    header = draft.columns
    if not header.nics or header.affinity or split(draft.header_end)[-1:] != [header.nics[-1]]:
        return False
    row = draft.rows.get(header.nics[-1])
    own = row.words[len(columns) - 1 : len(columns)] if row is not None else []
    longer = any(len(one.words) > len(columns) for one in draft.rows.values())
    return (longer or draft.at_edge(draft.header_end)) and own != ["X"]


def _is_foreign(draft: Draft, kind: Kind) -> bool:
    """Whether the GPU cells are there, and none but the diagonal is of this sort."""
    if not kind.has_affinity and (draft.columns.affinity or draft.columns.nics):
        return True
    width = len(draft.columns.gpus) or len(draft.rows)
    seen = [
        word
        for name, row in draft.rows.items()
        if GPU.fullmatch(name)
        for word in row.words[:width]
        if word != "X"
    ]
    if not seen:
        return bool(draft.legend & kind.foreign_legend)
    return not any(kind.cell.fullmatch(word) for word in seen)


def _cells(name: str, row: Row, columns: list[str], kind: Kind, *, more: bool) -> dict[str, str]:
    """Column -> cell, up to the first word that is no cell; empty when the diagonal is off.

    more: other columns follow, so that a row which ends with its cells is a cut one.
    """
    known = _unbroken(row, len(columns) if more else len(columns) - 1)
    words = list(take_while(known[: len(columns)], kind.cell.fullmatch))
    cells = dict(zip(columns, words, strict=False))
    selves = [column for column, word in cells.items() if word == "X"]
    return cells if all(column == name for column in selves) else {}


def _unbroken(row: Row, short: int) -> list[str]:
    """The words of a row up to a count of NVLinks that is cut or folded: NV1 of NV18.

    short: with so many words, or fewer, the row does not end where it should.
    """
    words: list[str] = []
    for line, below in zip(row.lines, [*row.lines[1:], None], strict=True):
        words += line.words
        if below is not None:
            cut = line.at_edge and below.raw[:1].isdecimal()
        else:
            cut = (line.ends_text or line.at_edge) and len(words) <= short
        if cut and words and _NVLINKS.fullmatch(words[-1]):
            return words[:-1]
    return words


def _gpus_complete(draft: Draft, cells: dict[str, dict[str, str]], width: int) -> bool:
    """Every GPU of the header has a row with a cell for each of them, and no other GPU a row."""
    gpus = draft.columns.gpus
    rows = {name for name in draft.rows if GPU.fullmatch(name)}
    if not gpus or not draft.columns.gpus_whole or rows != set(gpus):
        return False
    if any(gpu not in cells[row] for row in gpus for gpu in gpus):
        return False
    if any(cells[gpu][gpu] != "X" for gpu in gpus):
        return False
    return not any(_is_damaged(a, b, cells, width) for a in gpus for b in gpus)


def _is_damaged(a: str, b: str, cells: dict[str, dict[str, str]], width: int) -> bool:
    """Whether the two cells of a pair differ in a way that no machine does.

    Links join two GPUs, so one of two counts is a cut one.  In a row that lacks a cell, the cells
    of NICs may have moved into the columns of GPUs.
    """
    there, back = cells[a][b], cells[b][a]
    if there == back:
        return False
    short = min(len(cells[a]), len(cells[b])) < width
    return short or all(map(_NVLINKS.fullmatch, (there, back)))


def _asymmetric(gpus: tuple[str, ...], cells: dict[str, dict[str, str]]) -> Iterator[str]:
    order = {gpu: place for place, gpu in enumerate(gpus)}
    for a in order:
        for b, there in cells.get(a, {}).items():
            back = cells.get(b, {}).get(a)
            if order.get(b, -1) > order[a] and back not in (None, there):
                yield f"{a}-{b}"


def _affinity(draft: Draft) -> dict[str, dict[str, str]]:
    columns = draft.columns
    rows = {name: row.lines for name, row in draft.rows.items() if name in columns.gpus}
    if not columns.affinity:
        return {}
    width = len(columns.devices)
    read = {name: read_affinity(lines, width, columns.affinity) for name, lines in rows.items()}
    # A value at the right edge is whole when it lists as many CPUs as that of another NUMA node.
    counts = {cpu_count(values.get(CPU_COLUMN, "")) for values in read.values()} - {None}
    for name in [name for name, values in read.items() if not values and counts]:
        free = [line._replace(at_edge=False) for line in rows[name]]
        values = read_affinity(free, width, columns.affinity)
        if cpu_count(values.get(CPU_COLUMN, "")) in counts:
            read[name] = values
    return {name: values for name, values in read.items() if values}


def _no_matrix(lines: list[str], drafts: list[Draft], kind: Kind) -> ParseError:
    rows = [row for draft in drafts for row in draft.rows.values()]
    words = [word for row in rows for word in row.words if word != "X"]
    foreign = any(draft.legend & kind.foreign_legend for draft in drafts)
    if foreign or any(map(ANY_CELL.fullmatch, words)):
        return ParseError(
            f"this is no output of {kind.program}", hint=f"it is one of {kind.other_program}"
        )
    if rows:
        return ParseError(
            f"the cells are none of {kind.program}: {shown(' '.join(words[:8]))}",
            hint="paste all of it, unwrapped; matrices of other programs (rocm-smi) are not read",
        )
    if drafts:
        return ParseError(
            f"the header of a matrix without any row: the output of {kind.program} is cut",
            hint=f"paste all of {kind.program}",
        )
    if any(looks_like_html(line) for line in lines):
        return ParseError(
            "this is HTML, not the output of a program", hint="save or paste it as plain text"
        )
    return ParseError(
        f"no matrix of {kind.program} in the text", hint=f"paste all of {kind.program}"
    )
