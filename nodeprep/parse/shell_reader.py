"""Shell text as words: quotes and continuations undone, here-documents set apart.

One pass over the text, a character at a time; nothing is filled in.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from msgspec.structs import replace

from nodeprep.model.base import Record
from nodeprep.parse.dollar import LONGEST_WORD

_OPENS_ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_APOSTROPHE = re.compile(r"[A-Za-z]'(?:s|t|re|ll|ve|d|m)\b")
"""Of prose around a command line, not a quote of it."""
_REDIRECTION = re.compile(r"[<>]{1,3}\|?(&[-\d]+)?[ \t]*")
_ENDS = ";&|\n()"
_DEEPEST_ARRAY = 8

PLAIN, DOUBLE, BARE = "plain", "double", "bare"


class Piece(Record, frozen=True):
    """A part of a word that is read in one way."""

    text: str
    kind: str
    """PLAIN: nothing is filled in.  DOUBLE: filled in, one word.  BARE: filled in and split."""


class Word(Record, frozen=True):
    pieces: tuple[Piece, ...]
    line: int
    raw: str
    """As it is written, quotes and all."""
    items: tuple[Word, ...] | None = None
    """The words of an array assignment."""
    into: bool = False
    """No word of the command: the file that its output goes to."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)[:LONGEST_WORD]

    @property
    def quoted(self) -> bool:
        """Whether it begins with a quote."""
        return self.raw[:1] in ("'", '"')


class Here(Record, frozen=True):
    """A here-document."""

    text: str
    line: int
    """Of its first line."""
    quoted: bool
    """Nothing in it is filled in."""
    opened: int
    """The line where `<<` stands."""


class _Opened(Record, frozen=True):
    end: str
    tabs: bool
    quoted: bool
    line: int


class Reader:
    """Walks the text once; `unread` takes where it could not be read, and why."""

    def __init__(self, text: str, unread: list[tuple[int, str]]) -> None:
        self._text = text
        self._unread = unread
        self._at = 0
        self.line = 1
        self._opened: list[_Opened] = []
        self._places: dict[bool, dict[str, list[int]]] = {}
        self._arrays = 0

    def words(self) -> Iterator[Word | Here | None]:
        """Words, here-documents behind the line that opens them; None where a command ends."""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r":
                self._at += 1
            elif self._continues():
                self._at = self._line_end() + 1
                self.line += 1
            elif char == "#":
                self._at = self._line_end()
            elif char in "<>":
                target = self._redirection()
                if target is not None:
                    yield target
            elif char in _ENDS:
                yield None
                self._at += 1
                if char == "\n":
                    self.line += 1
                    yield from self._here_documents()
            else:
                yield from self._whole_word()

    def _line_end(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _whole_word(self) -> Iterator[Word]:
        """A word, an array assignment with its words; nothing for the number of a stream."""
        word = self._word()
        if word.raw.isdecimal() and self._text.startswith(("<", ">"), self._at):
            return
        yield replace(word, items=tuple(self._array())) if self._opens_array(word) else word

    def _continues(self) -> bool:
        """Whether a backslash ends the line, or the text."""
        return self._text.startswith("\\", self._at) and (
            self._at + 1 == len(self._text) or self._text.startswith(("\n", "\r\n"), self._at + 1)
        )

    def _redirection(self) -> Word | None:
        """`> file`, `2>&1`, `<<< text`, `<< END`: no word of the command; the file written to."""
        match = _REDIRECTION.match(self._text, self._at)
        assert match is not None
        sign = match[0].rstrip()
        if sign == "<<":
            self._here(match)
            return None
        self._at = match.end()
        if match[1] or self._at >= len(self._text):
            return None
        if self._text[self._at] == "(":
            self._substitution()
        elif self._text[self._at] not in _ENDS + "<>":
            word = self._word()
            return replace(word, into=True) if sign[0] == ">" else None
        return None

    def _here(self, match: re.Match[str]) -> None:
        tabs = self._text.startswith("-", match.start() + 2)
        self._at = match.start() + 3 if tabs else match.end()
        while self._text.startswith((" ", "\t"), self._at):
            self._at += 1
        if self._at >= len(self._text) or self._text[self._at] in _ENDS + "<>":
            return
        word = self._word()
        self._opened.append(
            _Opened(end=word.text, tabs=tabs, quoted=word.text != word.raw, line=self.line)
        )

    def _here_documents(self) -> Iterator[Here]:
        """The bodies of what was opened on the line before; one that never ends is none."""
        for one in self._opened:
            end = self._end_of(one)
            if end is None:
                self._unread.append((one.line, "a here-document is opened and never closed"))
                continue
            body, line = self._text[self._at : end], self.line
            if one.tabs:
                body = re.sub(r"^\t+", "", body, flags=re.MULTILINE)
            after = self._text.find("\n", end)
            self._at = len(self._text) if after < 0 else after + 1
            self.line += body.count("\n") + 1
            yield Here(text=body, line=line, quoted=one.quoted, opened=one.line)
        self._opened = []

    def _end_of(self, one: _Opened) -> int | None:
        """Where the line begins that closes a here-document."""
        places = self._places.get(one.tabs)
        if places is None:
            places = self._places.setdefault(one.tabs, {})
            at = 0
            for line in self._text.split("\n"):
                end = (line.lstrip("\t") if one.tabs else line).rstrip("\r")
                places.setdefault(end, []).append(at)
                at += len(line) + 1
        known = places.get(one.end, [])
        first = bisect_left(known, self._at)
        return known[first] if first < len(known) else None

    def _opens_array(self, word: Word) -> bool:
        return (
            self._text.startswith("(", self._at)
            and self._arrays < _DEEPEST_ARRAY
            and _OPENS_ARRAY.fullmatch(word.raw) is not None
        )

    def _array(self) -> Iterator[Word]:
        """The words between parentheses; line ends separate them."""
        self._at += 1
        self._arrays += 1
        for word in self.words():
            if isinstance(word, Word):
                yield word
            elif word is None and self._text[self._at] == ")":
                self._at += 1
                break
        self._arrays -= 1

    def _word(self) -> Word:
        start, line = self._at, self.line
        made: list[tuple[str, str]] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r<>" or char in _ENDS:
                break
            if char == "'" and not _APOSTROPHE.match(self._text, max(self._at - 1, 0)):
                made.append((self._until("'"), PLAIN))
            elif char == '"':
                made += self._double()
            elif self._text.startswith("$(", self._at):
                made.append((self._substitution(), DOUBLE))
            elif self._text.startswith("${", self._at):
                made.append(self._braces())
            elif char == "\\":
                if self._continues():
                    break
                made.append((self._text[self._at + 1 : self._at + 2], PLAIN))
                self._at += 2
            else:
                made.append((char, BARE))
                self._at += 1
        raw = self._text[start : self._at][:LONGEST_WORD]
        return Word(pieces=_joined(made), line=line, raw=raw)

    def _never_closed(self, mark: str, line: int) -> None:
        if not self._unread:
            self._unread.append((line, f"{mark} is opened and never closed"))

    def _until(self, mark: str) -> str:
        end = self._text.find(mark, self._at + 1)
        if end < 0:
            self._never_closed(mark, self.line)
            end = len(self._text)
        inside = self._text[self._at + 1 : end]
        self.line += inside.count("\n")
        self._at = end + 1
        return inside

    def _double(self) -> list[tuple[str, str]]:
        made: list[tuple[str, str]] = [("", DOUBLE)]
        line = self.line
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != '"':
            char = self._text[self._at]
            if self._text.startswith("$(", self._at):
                made.append((self._substitution(), DOUBLE))
                continue
            if self._text.startswith("${", self._at):
                made.append((self._braces()[0], DOUBLE))
                continue
            if char == "\\" and self._at + 1 < len(self._text):
                following = self._text[self._at + 1]
                if following == "\n":
                    self.line += 1
                elif following in '"\\$`':
                    made.append((following, PLAIN))
                else:
                    made.append((char + following, DOUBLE))
                self._at += 2
                continue
            self.line += char == "\n"
            made.append((char, DOUBLE))
            self._at += 1
        if self._at >= len(self._text):
            self._never_closed('"', line)
        self._at += 1
        return made

    def _braces(self) -> tuple[str, str]:
        """`${ ... }` with the quotes in it undone; quoted text in it stays one word."""
        made, depth, quoted, line = ["${"], 1, False, self.line
        self._at += 2
        while self._at < len(self._text):
            char = self._text[self._at]
            step = 1
            if self._text.startswith("${", self._at):
                depth, step = depth + 1, 2
                char = "${"
            elif char == "\\" and self._at + 1 < len(self._text):
                char, step = self._text[self._at + 1], 2
            elif char == "}":
                depth -= 1
            elif char == '"':
                char, quoted = "", True
            self.line += char == "\n"
            made.append(char)
            self._at += step
            if depth == 0:
                break
        else:
            self._never_closed("${", line)
        return "".join(made), DOUBLE if quoted else BARE

    def _substitution(self) -> str:
        """A command in `$( )`, as it stands: what it would print is not known."""
        start, depth, line = self._at, 0, self.line
        while self._at < len(self._text):
            char = self._text[self._at]
            depth += (char == "(") - (char == ")")
            self.line += char == "\n"
            self._at += 1
            if char == ")" and depth == 0:
                break
        else:
            self._never_closed("(", line)
        return self._text[start : self._at]


def _joined(made: list[tuple[str, str]]) -> tuple[Piece, ...]:
    """Neighbours of one kind are one piece."""
    pieces: list[Piece] = []
    held: list[str] = []
    for place, (text, kind) in enumerate(made):
        held.append(text)
        if place + 1 == len(made) or made[place + 1][1] != kind:
            pieces.append(Piece(text="".join(held)[:LONGEST_WORD], kind=kind))
            held = []
    return tuple(pieces)
