"""The lines of an nvidia-smi matrix put together: header, rows, legends, and what is folded."""

from __future__ import annotations

import re

from nodeprep.errors import ParseError
from nodeprep.parse.affinity import RowLine, are_pieces
from nodeprep.parse.matrix_header import (
    ANY_CELL,
    GPU,
    MAX_DEVICES,
    Columns,
    extend,
    looks_like_nic,
    read_header,
    split,
    touches,
)

MAX_MATRICES = 1_000

_NIC_LEGEND = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})\s*")
_LEGEND = re.compile(r"\s*([A-Z]{1,4}#?)\s*=\s")
_CELL_LIKE = re.compile(r"[A-Z]{1,4}\d{0,3}|\d{1,6}")


class Row:
    """One row: its first line, and those that a terminal has folded of it."""

    def __init__(self, line: RowLine) -> None:
        self.lines = [line]

    @property
    def words(self) -> list[str]:
        """Every word behind the name."""
        return [word for line in self.lines for word in line.words]


class Draft:
    """A matrix while its lines come in; without GPUs in its columns when no header was seen."""

    def __init__(self, columns: Columns, line: str) -> None:
        self.columns = columns
        self.header_end = line
        """The last line of the header."""
        self.rows: dict[str, Row] = {}
        self.nic_names: dict[str, str] = {}
        self.legend: set[str] = set()
        """The words that the legend explains: `PIX`, `CNS`."""
        self.foreign_rows = False
        """Rows of devices that the header does not name."""
        self.open: str | None = None
        """The row that a folded line may continue."""
        self._header_open = True
        self._width = self._columns_wide = 0
        self.measure(line)

    @property
    def names(self) -> set[str]:
        return set(self.columns.devices)

    def measure(self, line: str) -> None:
        """Counts a line in for the right edge of the text: of the matrix and of its legend."""
        self._width = max(self._width, len(line))
        self._columns_wide = max(self._columns_wide, len(line.expandtabs()))

    def at_edge(self, line: str) -> bool:
        """Whether the last word of the line ends where no line of the matrix goes any further."""
        if not split(line[-1:]):
            return False
        return len(line) == self._width or len(line.expandtabs()) == self._columns_wide

    def go_on(self, words: list[str], line: str, *, adjacent: bool) -> bool:
        """Takes the line into a header without rows that a terminal has folded, if it fits.

        Nothing behind a line that does not fit is taken.
        """
        if self.rows or not self._header_open:
            return False
        glued = adjacent and touches(self.header_end, line)
        columns = extend(self.columns, words, glued=glued, cut=bool(split(line[-1:])))
        self._header_open = columns is not None and len(columns.devices) <= MAX_DEVICES
        if columns is None or not self._header_open:
            if adjacent and looks_like_nic(words[0]) and not GPU.fullmatch(words[0]):
                self.columns = self.columns._replace(nics_whole=False)
            return False
        self.columns, self.header_end = columns, line
        self.measure(line)
        return True

    def add_row(self, name: str, line: RowLine) -> None:
        self.rows[name] = Row(line)
        self.open = name
        self.measure(line.raw)

    def add_other(self, line: RowLine, cell: re.Pattern[str]) -> None:
        """A line that is neither header nor row: the rest of a folded one, a legend, or prose."""
        nic, legend = _NIC_LEGEND.fullmatch(line.raw), _LEGEND.match(line.raw)
        if nic is not None:
            self.nic_names[nic[1]] = nic[2]
        elif legend is not None:
            self.legend.add(legend[1])
            self.measure(line.raw)
            self.open = None
        elif self.open is not None:
            if self._is_rest(line.words, self.rows[self.open], cell):
                self.rows[self.open].lines.append(line)
                self.measure(line.raw)
            else:
                self.open = None
        following = line.words[1:2]
        if following and looks_like_nic(line.words[0]) and ANY_CELL.fullmatch(following[0]):
            self.foreign_rows = True

    def _is_rest(self, words: list[str], row: Row, cell: re.Pattern[str]) -> bool:
        missing = len(self.columns.devices) - len(row.words)
        if missing > 0:
            return all(cell.fullmatch(word) for word in words[:missing]) and "=" not in words
        return bool(self.columns.affinity) and are_pieces(words)


def read_drafts(lines: list[str], cell: re.Pattern[str]) -> list[Draft]:
    """Every matrix of the text, of whatever sort. Raises ParseError over MAX_MATRICES."""
    drafts: list[Draft] = []
    header_at = 0
    for number, line in enumerate(lines):
        words = split(line)
        if not words:
            continue
        draft = drafts[-1] if drafts else None
        adjacent = number == header_at + 1
        if draft is not None and draft.go_on(words, line, adjacent=adjacent):
            header_at = number
        elif (columns := _header(words, line, draft)) is not None:
            if draft is not None and not draft.rows:
                drafts.pop()
            drafts.append(Draft(columns, line))
            header_at = number
        else:
            # The last of `lines` is empty when the text ends in a line end.
            _take(drafts, words, RowLine(line, words, ends_text=number == len(lines) - 1), cell)
        if len(drafts) > MAX_MATRICES:
            raise ParseError(
                f"more than {MAX_MATRICES:,} matrices in one text",
                hint="keep the output of one command",
            )
    return drafts


def _take(drafts: list[Draft], words: list[str], line: RowLine, cell: re.Pattern[str]) -> None:
    name = _row_name(words, drafts[-1] if drafts else None)
    if name is not None:
        if not drafts or name in drafts[-1].rows:
            # A second row of the same name: another matrix, whose header is lost.
            drafts.append(Draft(Columns(), ""))
        drafts[-1].add_row(name, line._replace(words=words[words.index(name) + 1 :]))
    elif drafts:
        drafts[-1].add_other(line, cell)


def _header(words: list[str], line: str, draft: Draft | None) -> Columns | None:
    columns = read_header(words) if "GPU" in line else None
    if columns is None or (len(words) == 1 and _awaits(draft, words[0])):
        return None
    return columns


def _awaits(draft: Draft | None, name: str) -> bool:
    """Whether a lone device name is a row cut right behind its name, and no header of one GPU."""
    if draft is None or len(draft.columns.gpus) < 2:
        return False
    return name in draft.names and name not in draft.rows


def _row_name(words: list[str], draft: Draft | None) -> str | None:
    """The device whose row this is; a line number in front of it is skipped."""
    place = 1 if len(words) > 1 and words[0].isdecimal() else 0
    word, following = words[place], words[place + 1 : place + 2]
    if GPU.fullmatch(word) is not None:
        # Any word in capitals will do: cells of other programs are told apart later.
        foreign = following and (
            _CELL_LIKE.fullmatch(following[0]) is None or GPU.fullmatch(following[0])
        )
        return None if foreign else word
    named = draft is not None and word in draft.names
    return word if named and following and ANY_CELL.fullmatch(following[0]) else None
