"""The lines of an nccl-tests output, freed of colour, launcher tags and NCCL's own log."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from nodeprep.errors import ParseError
from nodeprep.model.base import Record
from nodeprep.parse.text import clean_lines

MAX_TABLE_LINES = 50_000
"""`-b 8M -e 16G` stepping by 1 MiB prints 16,000 rows."""
_MAX_LINE = 2000

_SPACES = re.compile(r"[\t\xa0\u2000-\u200a\u202f\u3000]")
_LAUNCHER_TAG = re.compile(r"\[(?:[\w.@-]{1,128}[@,])?\d{1,7},\d{1,7}\](?:<std\w{2,4}>:?|:) ?")
"""`[1,0]<stdout>:` of mpirun --tag-output, `[prterun-host-1@1,0]<stdout>:` of PRRTE.

The launcher tags what it reads, and nccl-tests flushes inside rows: tags stand inside rows too.
"""
_LOG_WORDS = re.compile(r"NCCL (?:INFO|WARN|TRACE|ABORT|CALL|VERSION)\b")
_LOG_HEAD = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d[ T][\d:.,]{5,18}\]\s*)?(?P<host>[\w.-]{1,255}):\d+:\d+\s"
)
_GLUED_CELL = re.compile(r"-?\d[\d.]{0,20}(?=[A-Za-z])")
"""A cell that a log line follows without a space: `-1node-a:12:12 [0] NCCL INFO`."""


class Wording:
    """A pattern, and words of which a line must hold one before the pattern is tried.

    Most lines hold none, so a long text costs a few substring searches a line.
    """

    def __init__(self, pattern: str, *words: str) -> None:
        self._pattern = re.compile(pattern)
        self._words = words

    def search(self, line: str) -> re.Match[str] | None:
        for word in self._words:
            if word in line:
                return self._pattern.search(line)
        return None

    def each(self, lines: Iterable[str]) -> Iterator[re.Match[str]]:
        """The first match of every line that has one."""
        for line in lines:
            match = self.search(line)
            if match is not None:
                yield match


class Lines(Record, frozen=True):
    """One output, taken apart."""

    table: tuple[str, ...]
    """What is left when NCCL's own lines are cut out; blank lines are dropped."""
    log: tuple[str, ...]
    """NCCL's own lines."""
    log_places: tuple[int, ...]
    """For each of them, how many lines of `table` stand before it."""

    def log_between(self, begin: int, end: int) -> tuple[str, ...]:
        """NCCL's lines after the first of these table lines; from the top when begin is 0."""
        first = bisect_right(self.log_places, begin) if begin else 0
        return self.log[first : bisect_right(self.log_places, end)]


def read_lines(text: str) -> list[str]:
    """Cleaned lines with plain spaces. Raises ParseError for binary or over-size input."""
    if "\0" in text:
        raise ParseError("binary data, not a text", hint="give the text output of all_reduce_perf")
    return [_SPACES.sub(" ", line[:_MAX_LINE]) for line in clean_lines(text)]


def split_lines(text: str) -> Lines:
    """The table's lines and NCCL's lines; a log line may start in the middle of a row.

    Raises ParseError for binary or over-size input.
    """
    table: list[str] = []
    log: list[str] = []
    places: list[int] = []
    for line in read_lines(text):
        if "," in line:
            line = _LAUNCHER_TAG.sub(" ", line)
        start = _log_start(line)
        if start is not None:
            log.append(line[start:].strip())
            line = line[:start]
        if line.strip():
            table.append(line)
        if start is not None:
            places.append(len(table))
    if len(table) > MAX_TABLE_LINES:
        raise ParseError(
            f"{len(table):,} lines that are not NCCL's own: no output of nccl-tests",
            hint="cut the log to the run in question",
        )
    return Lines(table=tuple(table), log=tuple(log), log_places=tuple(places))


def _log_start(line: str) -> int | None:
    """Where NCCL's own log begins in a line; None: nowhere."""
    words = _LOG_WORDS.search(line) if "NCCL" in line else None
    if words is None:
        return None
    head = _LOG_HEAD.search(line, 0, words.start())
    if head is None:
        return 0
    glued = _GLUED_CELL.match(head["host"])
    if glued and line[: head.start()].strip():
        return head.start() + glued.end()
    return head.start()
