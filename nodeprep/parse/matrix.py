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
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from nodeprep.errors import ParseError
from nodeprep.model.topology import LevelMatrix
from nodeprep.parse.affinity import affinity_columns, read_affinity
from nodeprep.parse.text import clean_lines, looks_like_html, shown

MAX_MATRICES = 1_000
MAX_DEVICES = 256

LEVEL_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
"""SOC is what SYS was called before 2017."""
P2P_CELL = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")

_ANY_CELL = re.compile(f"{LEVEL_CELL.pattern}|{P2P_CELL.pattern}")
_GPU = re.compile(r"GPU\d{1,4}")
_NIC = re.compile(r"[A-Za-z](?=[\w.\-]*\d)[\w.\-]{0,62}")
"""RDMA device names; every one ends in or holds a number, which prose seldom does."""
_LEGEND = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})\s*")
_BORDER = str.maketrans("|│┃*`", "     ")
"""Borders of tables, and the marks of bold and code."""
_NVLINKS = re.compile(r"NV\d+")
_PROMPT_WORDS = 8
"""A prompt and a command may stand in front of the header on its line."""
_CELL_LIKE = re.compile(r"[A-Z]{1,4}\d{0,3}|\d{1,6}")


class Kind(NamedTuple):
    """What tells one sort of matrix from another."""

    program: str
    """`nvidia-smi topo -m`."""
    cell: re.Pattern[str]
    has_affinity: bool
    """NIC and affinity columns are of this sort."""
    other_program: str


class _Row(NamedTuple):
    cells: list[str]
    """Every word behind the name."""
    raw: str
    """The line, for its tabs; empty when it was put together from several."""
    ends_text: bool
    """The text ends here without a line end: the last word may be cut."""


class _Draft:
    """A matrix while its lines come in; `gpus` is empty when no header was seen."""

    def __init__(self, gpus: list[str], nics: list[str], affinity: tuple[str, ...]) -> None:
        self.gpus, self.nics, self.affinity = gpus, nics, affinity
        self.names = {*gpus, *nics}
        self.rows: dict[str, _Row] = {}
        self.nic_names: dict[str, str] = {}
        self.open: str | None = None
        """The row that a wrapped line may continue."""

    @property
    def devices(self) -> list[str]:
        return self.gpus + self.nics

    def widen(self, gpus: list[str], nics: list[str], affinity: tuple[str, ...]) -> None:
        """The header goes on in the next line: a terminal has wrapped it."""
        if len(self.names) + len(gpus) + len(nics) <= MAX_DEVICES:
            self.gpus, self.nics = self.gpus + gpus, self.nics + nics
            self.affinity += affinity
            self.names.update(gpus, nics)


def read_matrices(text: str, kind: Kind) -> tuple[LevelMatrix, ...]:
    """Every matrix of this kind in the text, in order. Raises ParseError when there is none."""
    lines = clean_lines(text)
    drafts = _drafts(lines, kind)
    matrices = tuple(
        matrix for draft in drafts if draft.rows and (matrix := _finish(draft, kind)) is not None
    )
    if not matrices:
        raise _no_matrix(lines, drafts, kind)
    return matrices


def _drafts(lines: list[str], kind: Kind) -> list[_Draft]:
    drafts: list[_Draft] = []
    for number, line in enumerate(lines):
        words = line.translate(_BORDER).split()
        if not words:
            continue
        draft = drafts[-1] if drafts else None
        header = _header(words, draft) if "GPU" in line else None
        if header is not None:
            _open(drafts, header)
        elif (name := _row_name(words, draft)) is not None:
            # The last of `lines` is empty when the text ends in a line end.
            ends_text = number == len(lines) - 1
            _add_row(drafts, name, _Row(words[words.index(name) + 1 :], line, ends_text))
        elif draft is not None:
            _continue(draft, words, line, kind)
        if len(drafts) > MAX_MATRICES:
            raise ParseError(
                f"more than {MAX_MATRICES:,} matrices in one text",
                hint="keep the output of one command",
            )
    return drafts


def _header(words: list[str], draft: _Draft | None) -> _Draft | None:
    """A line of device names, behind a prompt or a border perhaps."""
    names = words[_first_gpu(words) :]
    if len(names) > 1 and _ANY_CELL.fullmatch(names[1]):
        return None
    gpus = list(_while(names, _GPU.fullmatch))
    if not gpus or len(names) > MAX_DEVICES:
        return None
    rest = names[len(gpus) :]
    nics = list(_while(rest, _is_nic))
    affinity, foreign = affinity_columns(rest[len(nics) :])
    if any(map(_ANY_CELL.fullmatch, foreign)):
        return None
    if len(gpus) == 1 and (foreign or (len(words) == 1 and _awaits(draft, gpus[0]))):
        return None
    return _Draft(gpus, nics, affinity)


def _awaits(draft: _Draft | None, name: str) -> bool:
    """Whether a lone device name is a row cut right behind its name, and no header of one GPU."""
    if draft is None or len(draft.gpus) < 2:
        return False
    return name in draft.names and name not in draft.rows


def _first_gpu(words: list[str]) -> int:
    """Place of the first GPU name, or of the end of the prompt."""
    return sum(1 for _ in _while(words[:_PROMPT_WORDS], _is_no_gpu))


def _is_no_gpu(word: str) -> bool:
    return _GPU.fullmatch(word) is None


def _is_nic(word: str) -> bool:
    return _NIC.fullmatch(word) is not None and _ANY_CELL.fullmatch(word) is None


def _open(drafts: list[_Draft], header: _Draft) -> None:
    """Begins a matrix, or goes on with a header that a terminal has wrapped."""
    last = drafts[-1] if drafts else None
    if last is not None and not last.rows:
        if not last.nics and header.gpus[0] == f"GPU{len(last.gpus)}":
            last.widen(header.gpus, header.nics, header.affinity)
            return
        drafts.pop()
    drafts.append(header)


def _row_name(words: list[str], draft: _Draft | None) -> str | None:
    """The device whose row this is; a line number in front of it is skipped."""
    place = 1 if len(words) > 1 and words[0].isdecimal() else 0
    word, following = words[place], words[place + 1 : place + 2]
    if _GPU.fullmatch(word) is not None:
        # Any word in capitals will do: cells of other programs are told apart later.
        foreign = following and (
            _CELL_LIKE.fullmatch(following[0]) is None or _GPU.fullmatch(following[0])
        )
        return None if foreign else word
    named = draft is not None and word in draft.names
    return word if named and following and _ANY_CELL.fullmatch(following[0]) else None


def _add_row(drafts: list[_Draft], name: str, row: _Row) -> None:
    if not drafts or name in drafts[-1].rows:
        # A second row of the same name: another matrix, whose header is lost.
        drafts.append(_Draft([], [], ()))
    drafts[-1].rows[name] = row
    drafts[-1].open = name


def _continue(draft: _Draft, words: list[str], line: str, kind: Kind) -> None:
    """A line that is neither header nor row: the rest of a wrapped one, a legend, or prose."""
    legend = _LEGEND.fullmatch(line)
    if legend is not None:
        draft.nic_names[legend[1]] = legend[2]
    elif not draft.rows:
        nics = list(_while(words, _is_nic))
        affinity, foreign = affinity_columns(words[len(nics) :])
        if not foreign:
            draft.widen([], nics, affinity)
    elif draft.open is not None:
        row = draft.rows[draft.open]
        missing = len(draft.devices) - len(row.cells)
        wrapped = missing > 0 and all(kind.cell.fullmatch(word) for word in words[:missing])
        if wrapped and "=" not in words:
            draft.rows[draft.open] = row._replace(cells=row.cells + words, raw="")
        else:
            draft.open = None


def _finish(draft: _Draft, kind: Kind) -> LevelMatrix | None:
    """The matrix; None when it is one of another sort."""
    if _is_foreign(draft, kind):
        return None
    # Without a header nobody knows how many columns there were.
    columns = draft.devices or [name for name in draft.rows if _GPU.fullmatch(name)]
    cells = {name: _cells(name, row, columns, kind) for name, row in draft.rows.items()}
    every = draft.names.issubset(cells) and len(draft.names) == len(columns)
    return LevelMatrix(
        devices=tuple(columns),
        cells=cells,
        complete=_gpus_complete(draft, cells),
        nic_rows_complete=every and all(len(row) == len(columns) for row in cells.values()),
        affinity=_affinity(draft),
        nic_names=draft.nic_names,
        asymmetric=tuple(_asymmetric(draft.gpus, cells)),
    )


def _is_foreign(draft: _Draft, kind: Kind) -> bool:
    """Whether the GPU cells are there, and none but the diagonal is of this sort."""
    if not kind.has_affinity and (draft.affinity or draft.nics):
        return True
    width = len(draft.gpus) or len(draft.rows)
    seen = [
        word
        for name, row in draft.rows.items()
        if _GPU.fullmatch(name)
        for word in row.cells[:width]
        if word != "X"
    ]
    return bool(seen) and not any(kind.cell.fullmatch(word) for word in seen)


def _cells(name: str, row: _Row, columns: list[str], kind: Kind) -> dict[str, str]:
    """Column -> cell, up to the first word that is no cell; empty when the diagonal is off."""
    words = list(_while(row.cells[: len(columns)], kind.cell.fullmatch))
    cut = row.ends_text and len(words) == len(row.cells) < len(columns)
    if cut and words and _NVLINKS.fullmatch(words[-1]):
        words.pop()  # NV1 may be the beginning of NV18
    cells = dict(zip(columns, words, strict=False))
    selves = [column for column, word in cells.items() if word == "X"]
    return cells if all(column == name for column in selves) else {}


def _gpus_complete(draft: _Draft, cells: dict[str, dict[str, str]]) -> bool:
    """Every GPU of the header has a row with a cell for each of them, and no other GPU a row."""
    gpus = draft.gpus
    rows = {name for name in draft.rows if _GPU.fullmatch(name)}
    if not gpus or len(set(gpus)) != len(gpus) or rows != set(gpus):
        return False
    if any(gpu not in cells[row] for row in gpus for gpu in gpus):
        return False
    if any(cells[gpu][gpu] != "X" for gpu in gpus):
        return False
    return not any(_is_damaged(a, b, cells, len(draft.names)) for a in gpus for b in gpus)


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


def _asymmetric(gpus: list[str], cells: dict[str, dict[str, str]]) -> Iterator[str]:
    order = {gpu: place for place, gpu in enumerate(gpus)}
    for a in order:
        for b, there in cells.get(a, {}).items():
            back = cells.get(b, {}).get(a)
            if order.get(b, -1) > order[a] and back not in (None, there):
                yield f"{a}-{b}"


def _affinity(draft: _Draft) -> dict[str, dict[str, str]]:
    if not draft.affinity:
        return {}
    read = {
        name: read_affinity(
            row.raw, row.cells, len(draft.devices), draft.affinity, cut=row.ends_text
        )
        for name, row in draft.rows.items()
        if name in draft.names and _GPU.fullmatch(name)
    }
    return {name: values for name, values in read.items() if values}


def _no_matrix(lines: list[str], drafts: list[_Draft], kind: Kind) -> ParseError:
    rows = [row for draft in drafts for row in draft.rows.values()]
    words = [word for row in rows for word in row.cells if word != "X"]
    if any(map(_ANY_CELL.fullmatch, words)):
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


def _while(words: Iterable[str], fits: Callable[[str], object]) -> Iterator[str]:
    for word in words:
        if not fits(word):
            return
        yield word
