"""The rows of an nccl-tests table, whatever columns a version, an option or an author left.

    # size count type redop root     time algbw busbw #wrong     time algbw busbw #wrong
    8388608 2097152 float sum -1   539.57 15.55 23.32      0   539.53 15.55 23.32      0

Columns by version (nccl-tests src/common.cu, since 2.17.3 src/util.cu): `redop` only for
collectives that reduce, before 2.13; `root` since 2.13; the fourth cell of a half is the largest
error before 2.13, a count of wrong values since; -I adds four cells to each half, -S a time stamp
to the row; the first release prints milliseconds.  Cells never touch, however wide they grow.
What the header leaves open is decided by arithmetic: algbw is size / time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from nodeprep.model.base import Record
from nodeprep.model.gate import NcclHalf, NcclRow
from nodeprep.parse.nccl_text import Wording

_TYPE = r"u?int(?:8|16|32|64)?|char|half|float(?:16|32|64)?|double|bfloat16|bf16|fp?8_?e\dm\d"
_ROW = re.compile(
    rf"(?<![\w.,:/=-])(?P<size>\d{{1,19}})\s+(?P<count>\d{{1,19}})\s+(?P<type>{_TYPE})(?!\w)"
    r"(?P<rest>.*)"
)
_WORD = re.compile(r"[a-z]{2,12}")
_ROOT = re.compile(r"-?\d{1,6}")
_CELL = re.compile(r"[+-]?\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?|-?nan|-?inf|N/A", re.I)
_MANTISSA = re.compile(r"[+-]?\d+(?:\.(?P<decimals>\d+))?(?:[eE](?P<power>[+-]?\d+))?")
_HEADER = Wording(r"\balgbw\b.*\bbusbw\b", "algbw")
_FRAME = str.maketrans("|`", "  ")
"""What a document puts around or between cells."""
_MAX_PENDING = 400
_MAX_VOTERS = 200
_LEAST_CELLS = 3


class Layout(Record, frozen=True):
    """The numeric cells of one row, in order."""

    root: bool
    halves: int
    error: bool
    """A fourth cell in each half: largest error, or number of wrong values."""
    iterations: bool
    """-I: i_min, i_max, i_p99, i_cv% after each half."""

    @property
    def half_cells(self) -> int:
        return 3 + self.error + 4 * self.iterations

    @property
    def cells(self) -> int:
        return self.root + self.halves * self.half_cells


_LAYOUTS = tuple(
    Layout(root=root, halves=halves, error=error, iterations=iterations)
    for halves in (2, 1)
    for iterations in (True, False)
    for error in (True, False)
    for root in (True, False)
)


class Header(Record, frozen=True):
    """What the line of column names says."""

    layout: Layout | None
    """None: the line is cut, or names columns of another program."""
    wrong_counts: bool
    """`#wrong`; False: `error` or `res`, the largest difference."""
    cpu_time: bool
    """-C: the time column is CPU time and does not belong to the bandwidths."""


class Table(Record, frozen=True):
    header: Header | None
    rows: tuple[NcclRow, ...]
    roots: tuple[int | None, ...]
    """The root cell of each row; None where the version prints none."""
    microseconds: bool


class _Raw(Record, frozen=True):
    """A row as cut from its line, before its columns are known."""

    size_bytes: int
    count: int
    dtype: str
    redop: str | None
    cells: tuple[str, ...]


def read_header(line: str) -> Header | None:
    """The meaning of a line of column names; None for any other line."""
    if not _HEADER.search(line):
        return None
    names = line.strip(" #>|").split()
    times = [place for place, name in enumerate(names) if name in ("time", "cputime")]
    if not times:
        return None
    before, halves = names[: times[0]], names[times[0] :]
    layout = Layout(
        root="root" in before,
        halves=min(2, len(times)),
        error=any(name in ("#wrong", "wrong", "error", "res") for name in halves),
        iterations="i_min" in halves,
    )
    return Header(
        layout=layout if _ends_whole(names) else None,
        wrong_counts=any("wrong" in name for name in halves),
        cpu_time=names[times[0]] == "cputime",
    )


def _ends_whole(names: Sequence[str]) -> bool:
    """Whether the line of names was not cut inside the table."""
    ends = ("#wrong", "wrong", "error", "res", "busbw", "timestamp", "i_cv%")
    return names[-1] in ends


def read_table(lines: Sequence[str]) -> Table:
    """All rows of one run; a row that is cut, or that nothing follows up, is left out."""
    header = next((found for line in lines if (found := read_header(line))), None)
    read = _laid_out(lines, header)
    microseconds = _microseconds(read)
    wrong_counts = header.wrong_counts if header else any(layout.root for _, layout in read)
    return Table(
        header=header,
        rows=tuple(
            _row(raw, layout, microseconds=microseconds, wrong_counts=wrong_counts)
            for raw, layout in read
        ),
        roots=tuple(int(raw.cells[0]) if layout.root else None for raw, layout in read),
        microseconds=microseconds,
    )


def _laid_out(lines: Sequence[str], header: Header | None) -> list[tuple[_Raw, Layout]]:
    """Rows with their columns; those with fewer halves than the table has are cut ones."""
    guess = header.layout if header is not None else None
    checks = header is None or not header.cpu_time
    read: list[tuple[_Raw, Layout]] = []
    likely = guess
    for raw in _raw_rows(lines, guess, checks=checks):
        layout = _layout(raw, likely, checks=checks)
        if layout is not None:
            read.append((raw, layout))
            likely = guess or layout
    widest = max((layout.halves for _, layout in read), default=0)
    if len(read) == 1 and guess is not None:
        widest = guess.halves
    return [(raw, layout) for raw, layout in read if layout.halves == widest]


def _raw_rows(lines: Sequence[str], guess: Layout | None, *, checks: bool) -> Iterator[_Raw]:
    """Rows, joined where another program's line broke them in two."""
    pending: _Raw | None = None
    for line in lines:
        start = _start_of_row(line)
        if start is not None:
            if pending is not None:
                yield pending
            pending = start
            continue
        more = _only_cells(line)
        if pending is not None and more and not _is_whole(pending, guess, checks=checks):
            joined = (*pending.cells, *more)[:_MAX_PENDING]
            pending = _Raw(
                size_bytes=pending.size_bytes, count=pending.count, dtype=pending.dtype,
                redop=pending.redop, cells=joined,
            )  # fmt: skip
    if pending is not None:
        yield pending


def starts_row(line: str) -> bool:
    """Whether a line holds a row, or the first half of one."""
    row = _start_of_row(line)
    return row is not None and len(row.cells) >= _LEAST_CELLS


def _start_of_row(line: str) -> _Raw | None:
    match = _ROW.search(line.translate(_FRAME))
    if match is None:
        return None
    tokens = match["rest"].split()
    redop = None
    if tokens and _WORD.fullmatch(tokens[0]) and not _CELL.fullmatch(tokens[0]):
        redop = tokens.pop(0)
    return _Raw(
        size_bytes=int(match["size"]),
        count=int(match["count"]),
        dtype=match["type"],
        redop=redop,
        cells=_leading_cells(tokens),
    )


def _leading_cells(tokens: Sequence[str]) -> tuple[str, ...]:
    """Cells up to the first token that is none: a time stamp, a remark, another program's line.

    Old versions mark an error over the limit with an asterisk.
    """
    cells: list[str] = []
    for token in tokens[:_MAX_PENDING]:
        cell = token.rstrip("*")
        if not cell:
            continue
        if not _CELL.fullmatch(cell):
            break
        cells.append(cell)
    return tuple(cells)


def _only_cells(line: str) -> tuple[str, ...]:
    """The cells of a line that holds nothing else: the rest of a broken row."""
    tokens = line.translate(_FRAME).strip(" #>").split()
    cells = _leading_cells(tokens)
    return cells if len(cells) == len(tokens) else ()


def _is_whole(raw: _Raw, guess: Layout | None, *, checks: bool) -> bool:
    """Whether a row has both halves, or all its header promises."""
    layout = _layout(raw, guess, checks=checks)
    return layout is not None and (layout.halves == 2 or layout == guess)


def _layout(raw: _Raw, guess: Layout | None, *, checks: bool) -> Layout | None:
    """The layout that fits the number of cells and the arithmetic; the header's first.

    A row whose figures contradict each other keeps its columns: it is for others to refuse it.
    """
    count = len(raw.cells)
    fits = guess is not None and guess.cells == count and _root_fits(raw, guess)
    if guess is not None and fits and (not checks or _agrees(raw, guess)):
        return guess
    possible = [one for one in _LAYOUTS if one.cells <= count and _root_fits(raw, one)]
    possible.sort(key=lambda one: (count - one.cells, one != guess))
    exact = [one for one in possible if one.cells == count]
    agreeing = [one for one in possible if checks and _agrees(raw, one)]
    for one in agreeing:
        if one in exact:
            return one
    if guess in exact:
        return guess
    return next(iter(agreeing), next((one for one in exact if one.halves == 2), None))


def _root_fits(raw: _Raw, layout: Layout) -> bool:
    return not layout.root or bool(_ROOT.fullmatch(raw.cells[0]))


def _agrees(raw: _Raw, layout: Layout) -> bool:
    """Whether algbw is size / time in every half, in microseconds or in milliseconds."""
    return any(
        all(_same(raw.size_bytes, half[0], half[1], scale) for half in _halves(raw, layout))
        for scale in (1e3, 1e6)
    )


def _same(size_bytes: int, time: str, algbw: str, scale: float) -> bool:
    """Whether two printed cells belong together, within what printing rounds away."""
    if "N/A" in (time, algbw):
        return False
    t, bandwidth = float(time), float(algbw)
    if not (math.isfinite(t) and math.isfinite(bandwidth)) or t < 0:
        return False
    slack = _rounding(time)
    low = size_bytes / (scale * (t + slack)) if t + slack > 0 else 0.0
    high = size_bytes / (scale * (t - slack)) if t > slack else math.inf
    near = 1.2 * _rounding(algbw) + 1e-9
    return low - near <= bandwidth <= high + near


def _rounding(cell: str) -> float:
    """Half a unit of a cell's last printed place."""
    match = _MANTISSA.fullmatch(cell)
    if match is None:
        return 0.0
    return float(0.5 * 10.0 ** (int(match["power"] or 0) - len(match["decimals"] or "")))


def _halves(raw: _Raw, layout: Layout) -> list[tuple[str, ...]]:
    width = layout.half_cells
    return [
        raw.cells[layout.root + number * width : layout.root + (number + 1) * width]
        for number in range(layout.halves)
    ]


def _microseconds(read: Sequence[tuple[_Raw, Layout]]) -> bool:
    """The unit of the time column, by the rows in which only one unit fits."""
    votes = 0
    for raw, layout in read[-_MAX_VOTERS:]:
        for half in _halves(raw, layout):
            fits = [_same(raw.size_bytes, half[0], half[1], scale) for scale in (1e3, 1e6)]
            votes += fits[0] - fits[1]
    return votes >= 0


def _row(raw: _Raw, layout: Layout, *, microseconds: bool, wrong_counts: bool) -> NcclRow:
    halves = [
        _half(half, layout, microseconds=microseconds, wrong_counts=wrong_counts)
        for half in _halves(raw, layout)
    ]
    return NcclRow(
        size_bytes=raw.size_bytes,
        count=raw.count,
        dtype=raw.dtype,
        redop=raw.redop,
        out_of_place=halves[0],
        in_place=halves[1] if len(halves) > 1 else None,
    )


def _half(
    cells: Sequence[str], layout: Layout, *, microseconds: bool, wrong_counts: bool
) -> NcclHalf:
    """One half.  Where nothing was checked the programs print N/A, those for AMD GPUs also -1."""
    time = _number(cells[0])
    fourth = _number(cells[3]) if layout.error else None
    if fourth is not None and fourth < 0:
        fourth = None
    return NcclHalf(
        time_us=time if microseconds or time is None else time * 1e3,
        algbw_gbps=_number(cells[1]),
        busbw_gbps=_number(cells[2]),
        wrong=fourth if wrong_counts else None,
        error=None if wrong_counts else fourth,
    )


def _number(cell: str) -> float | None:
    """A printed number; None for N/A, nan and inf."""
    if cell.upper() == "N/A":
        return None
    value = float(cell)
    return value if math.isfinite(value) else None
