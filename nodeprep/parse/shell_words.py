"""Shell text as simple commands: continuations joined, quotes undone, known variables filled in.

Not a shell: control flow is read past, functions are read as they stand, and what a program would
have printed stays as it is written.  Total: any text gives some commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from nodeprep.model.base import Record

_LONGEST = 1 << 20
_MOST_COMMANDS = 4000
_MOST_WORDS = 4000
_LONGEST_WORD = 16_384
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[@*]\])?(?::?-([^{}$]*))?\})"
)
_ARRAY = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}")
_OPENS_ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_APOSTROPHE = re.compile(r"[A-Za-z]'(?:s|t|re|ll|ve|d|m)\b")
"""Of prose around a command line, not a quote of it."""
_REDIRECTION = re.compile(r"[<>]{1,3}\|?(&[-\d]+)?[ \t]*")
_ENDS = ";&|\n()"
_EMPTY = {'"$@"', "$@", "$*"}


class Command(Record, frozen=True):
    """One simple command."""

    words: tuple[str, ...]
    line: int
    env: tuple[tuple[str, str], ...] = ()
    """Assignments before the command; all there is for a line that only assigns."""
    lines: tuple[int, ...] = ()
    """The line of each word."""
    exported: bool = False


class Script(Record, frozen=True):
    commands: tuple[Command, ...]
    broken_continuations: tuple[int, ...]
    """Lines that end in a backslash and a blank: the command ends there."""
    unread: tuple[tuple[int, str], ...] = ()
    """Where the text could not be read to its end, and why."""


class _Word(Record, frozen=True):
    text: str
    line: int
    quoted: bool
    raw: str
    literal: bool
    """Written in single quotes only: nothing in it is filled in."""
    items: tuple[_Word, ...] | None = None
    """The words of an array assignment."""


def read_shell(text: str) -> Script:
    """The commands of a script, or of any text with command lines in it."""
    unread: list[tuple[int, str]] = []
    if len(text) > _LONGEST:
        unread.append((1, f"only the first {_LONGEST >> 20} MiB of it were read"))
    text = text[:_LONGEST]
    broken = tuple(
        number
        for number, line in enumerate(text.split("\n"), 1)
        if re.search(r"(?:^|[^\\])\\[ \t]+$", line) and not line.lstrip().startswith("#")
    )
    commands = tuple(_commands(text, unread))
    return Script(commands=commands, broken_continuations=broken, unread=tuple(unread))


def is_open(text: str) -> bool:
    """Whether a quote of the line is never closed."""
    unread: list[tuple[int, str]] = []
    for _ in _simple(text[:_LONGEST], unread):
        pass
    return bool(unread)


def split_words(text: str) -> tuple[str, ...]:
    """The words of one line, quotes undone, nothing filled in."""
    return tuple(word.text for words in _simple(text[:_LONGEST], []) for word in words)


def _commands(text: str, unread: list[tuple[int, str]]) -> Iterator[Command]:
    known: dict[str, tuple[str, ...]] = {}
    for count, words in enumerate(_simple(text, unread)):
        if count >= _MOST_COMMANDS:
            unread.append((words[0].line, f"only the first {_MOST_COMMANDS} commands were read"))
            return
        made = _command(words, known)
        if made is not None:
            if len(made.words) >= _MOST_WORDS:
                reason = f"the command has over {_MOST_WORDS} words; the rest was not read"
                unread.append((made.line, reason))
            yield made


def _command(words: list[_Word], known: dict[str, tuple[str, ...]]) -> Command | None:
    rest = list(words)
    env: list[tuple[str, str]] = []
    exported = bool(rest) and rest[0].raw in ("export", "declare", "readonly", "local")
    if exported:
        rest = [one for one in rest[1:] if not one.raw.startswith("-")]
    while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)) and not rest[0].quoted:
        word = rest.pop(0)
        if word.items is not None:
            items = tuple(one for item in word.items for one in _expanded(item, known))
            known[match[1]] = ((known.get(match[1], ()) if match[2] else ()) + items)[:_MOST_WORDS]
        else:
            env.append((match[1], _filled(word, match[3], known)))
    if not rest or exported:
        known.update({name: (value,) for name, value in env})
        if not env:
            return None
        return Command(words=(), line=words[0].line, env=tuple(env), exported=exported)
    expanded = [(one, word.line) for word in rest for one in _expanded(word, known)][:_MOST_WORDS]
    if not expanded:
        return None
    return Command(
        words=tuple(text for text, _ in expanded),
        line=rest[0].line,
        env=tuple(env),
        lines=tuple(line for _, line in expanded),
    )


def _expanded(word: _Word, known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if word.raw in _EMPTY:
        return ()
    array = _ARRAY.fullmatch(word.text)
    if array is not None and not word.literal:
        return known.get(array[1], ())
    return (_filled(word, word.text, known),)


def _filled(word: _Word, text: str, known: dict[str, tuple[str, ...]]) -> str:
    if word.literal or "$" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in known:
            return " ".join(known[name])[:_LONGEST_WORD]
        return match[3] if match[3] is not None else match[0]

    return _VARIABLE.sub(value, text)[:_LONGEST_WORD]


def _simple(text: str, unread: list[tuple[int, str]]) -> Iterator[list[_Word]]:
    """Words up to each operator; `name=( ... )` is kept together as an array assignment."""
    reader = _Reader(text, unread)
    words: list[_Word] = []
    for word in reader.words():
        if word is None:
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


class _Reader:
    """Walks the text once, a character at a time."""

    def __init__(self, text: str, unread: list[tuple[int, str]]) -> None:
        self._text = text
        self._unread = unread
        self._at = 0
        self._line = 1

    def words(self) -> Iterator[_Word | None]:
        """Words; None where a command ends."""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r":
                self._at += 1
            elif self._text.startswith(("\\\n", "\\\r\n"), self._at):
                self._at = self._text.index("\n", self._at) + 1
                self._line += 1
            elif char == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif char in "<>":
                self._redirection()
            elif char in _ENDS:
                self._at += 1
                self._line += char == "\n"
                yield None
            else:
                word = self._word()
                if word.raw.isdecimal() and self._text.startswith(("<", ">"), self._at):
                    continue  # the number of a stream
                if self._text.startswith("(", self._at) and _OPENS_ARRAY.fullmatch(word.raw):
                    yield replace(word, items=tuple(self._array()))
                else:
                    yield word

    def _redirection(self) -> None:
        """`> file`, `2>&1`, `<<< text`: no word of the command."""
        match = _REDIRECTION.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        if match[1] or self._at >= len(self._text):
            return
        if self._text[self._at] == "(":
            self._substitution()
        elif self._text[self._at] not in _ENDS + "<>":
            self._word()

    def _array(self) -> Iterator[_Word]:
        """The words between parentheses; line ends separate them."""
        self._at += 1
        for word in self.words():
            if word is not None:
                yield word
            elif self._text[self._at - 1] == ")":
                return

    def _word(self) -> _Word:
        start, line, quoted, literal = self._at, self._line, False, True
        made: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r<>" or char in _ENDS:
                break
            if char == "'" and not _APOSTROPHE.match(self._text, max(self._at - 1, 0)):
                made.append(self._until("'"))
                quoted = True
            elif char == '"':
                made.append(self._double())
                quoted, literal = True, False
            elif self._text.startswith("$(", self._at):
                made.append(self._substitution())
            elif char == "\\":
                if self._text.startswith(("\\\n", "\\\r\n"), self._at):
                    break
                made.append(self._text[self._at + 1 : self._at + 2])
                self._at += 2
                quoted = True
            else:
                made.append(char)
                self._at += 1
                literal = False
        text = "".join(made)[:_LONGEST_WORD]
        raw = self._text[start : self._at][:_LONGEST_WORD]
        begins_quoted = raw[:1] in "'\""
        return _Word(
            text=text, line=line, quoted=begins_quoted, raw=raw, literal=literal and quoted
        )

    def _never_closed(self, mark: str, line: int) -> None:
        if not self._unread:
            self._unread.append((line, f"{mark} is opened and never closed"))

    def _until(self, mark: str) -> str:
        end = self._text.find(mark, self._at + 1)
        if end < 0:
            self._never_closed(mark, self._line)
            end = len(self._text)
        inside = self._text[self._at + 1 : end]
        self._line += inside.count("\n")
        self._at = end + 1
        return inside

    def _double(self) -> str:
        made: list[str] = []
        line = self._line
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != '"':
            char = self._text[self._at]
            if self._text.startswith("$(", self._at):
                made.append(self._substitution())
                continue
            if char == "\\" and self._at + 1 < len(self._text):
                following = self._text[self._at + 1]
                if following == "\n":
                    self._line += 1
                else:
                    made.append(following if following in '"\\$`' else char + following)
                self._at += 2
                continue
            self._line += char == "\n"
            made.append(char)
            self._at += 1
        if self._at >= len(self._text):
            self._never_closed('"', line)
        self._at += 1
        return "".join(made)

    def _substitution(self) -> str:
        """A command in `$( )`, as it stands: what it would print is not known."""
        start, depth, line = self._at, 0, self._line
        while self._at < len(self._text):
            char = self._text[self._at]
            depth += (char == "(") - (char == ")")
            self._line += char == "\n"
            self._at += 1
            if char == ")" and depth == 0:
                break
        else:
            self._never_closed("(", line)
        return self._text[start : self._at]
