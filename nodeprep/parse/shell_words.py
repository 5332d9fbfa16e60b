"""Shell text as simple commands: continuations joined, quotes undone, known variables filled in.

Not a shell: control flow is read past, functions are read as they stand, and what a program would
have printed stays as it is written.  Total: any text gives some commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from nodeprep.model.base import Record
from nodeprep.parse.dollar import LONGEST_WORD, filled
from nodeprep.parse.shell_reader import BARE, PLAIN, Here, Piece, Reader, Word

_LONGEST = 1 << 20
_MOST_COMMANDS = 4000
_MOST_WORDS = 4000
_MOST_DOCUMENTS = 32
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_LIST = re.compile(r"\$(?:([@*])|\{([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}|\{([@*])(?::(\d{1,4}))?\})")
_ESCAPED = re.compile(r"\\([\\$`])")
SHELLS = ("bash", "sh", "dash", "/bin/bash", "/bin/sh", "/usr/bin/bash")
_RUNS_IT = re.compile(r"(?:sudo\s+)?(?:/(?:usr/)?bin/)?(?:ba|da)?sh(?:\s+-\S+)*")
_SETS = ("export", "declare", "readonly", "local")


class Command(Record, frozen=True):
    """One simple command."""

    words: tuple[str, ...]
    line: int
    env: tuple[tuple[str, str], ...] = ()
    """Assignments before the command; all there is for a line that only assigns."""
    lines: tuple[int, ...] = ()
    """The line of each word."""
    exported: bool = False


class Document(Record, frozen=True):
    """A here-document that is written to a file, or that a shell runs."""

    name: str | None
    """The file it is written to; None: a shell runs it."""
    text: str
    line: int
    """Of its first line, in the script."""


class Script(Record, frozen=True):
    commands: tuple[Command, ...]
    broken_continuations: tuple[int, ...]
    """Lines that end in a backslash and a blank: the command ends there."""
    unread: tuple[tuple[int, str], ...] = ()
    """Where the text could not be read to its end, and why."""
    documents: tuple[Document, ...] = ()
    here_lines: tuple[tuple[int, int], ...] = ()
    """First and last line of every here-document."""


def read_shell(
    text: str,
    arguments: Sequence[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Script:
    """The commands of a script, or of any text with command lines in it.

    `arguments`: `$0`, `$1` and so on; `variables`: those of its surroundings, where they are known.
    """
    unread: list[tuple[int, str]] = []
    if len(text) > _LONGEST:
        unread.append((1, f"only the first {_LONGEST >> 20} MiB of it were read"))
    text = text[:_LONGEST]
    broken = tuple(
        number
        for number, line in enumerate(text.split("\n"), 1)
        if re.search(r"(?:^|[^\\])\\[ \t]+$", line) and not line.lstrip().startswith("#")
    )
    run = _Run(unread, arguments, variables or {})
    commands = tuple(run.commands(text))
    return Script(
        commands=commands,
        broken_continuations=broken,
        unread=tuple(unread),
        documents=tuple(run.documents),
        here_lines=tuple(run.here_lines),
    )


def is_open(text: str) -> bool:
    """Whether a quote of the line is never closed."""
    unread: list[tuple[int, str]] = []
    for _ in _simple(text[:_LONGEST], unread):
        pass
    return bool(unread)


def split_words(text: str) -> tuple[str, ...]:
    """The words of one line, quotes undone, nothing filled in."""
    return tuple(word for word, _ in placed_words(text))


def placed_words(text: str) -> tuple[tuple[str, int], ...]:
    """Those words, each with its line."""
    return tuple(
        (word.text, word.line)
        for words in _simple(text[:_LONGEST], [])
        if not isinstance(words, Here)
        for word in words
        if not word.into
    )


class _Run:
    """What is known while a script is read from top to bottom."""

    def __init__(
        self,
        unread: list[tuple[int, str]],
        arguments: Sequence[str] | None,
        variables: Mapping[str, str],
    ) -> None:
        self.documents: list[Document] = []
        self.here_lines: list[tuple[int, int]] = []
        self._unread = unread
        self._known: dict[str, tuple[str, ...]] = {
            name: (value,) for name, value in variables.items()
        }
        self._assigned: dict[str, str] = {}
        if arguments is not None:
            self._known["@"] = self._known["*"] = tuple(arguments[1:_MOST_WORDS])
            for place, one in enumerate(arguments[:100]):
                self._known[str(place)] = (one,)

    def commands(self, text: str) -> Iterator[Command]:
        recent: list[list[Word]] = []
        for count, words in enumerate(_simple(text, self._unread)):
            if isinstance(words, Here):
                self._document(words, recent)
                continue
            if count >= _MOST_COMMANDS:
                reason = f"only the first {_MOST_COMMANDS} commands were read"
                self._unread.append((words[0].line, reason))
                return
            recent = [*recent[-8:], words]
            made = self._command([one for one in words if not one.into])
            if made is not None:
                if len(made.words) >= _MOST_WORDS:
                    reason = f"the command has over {_MOST_WORDS} words; the rest was not read"
                    self._unread.append((made.line, reason))
                yield made

    def _document(self, here: Here, recent: list[list[Word]]) -> None:
        """Keeps a here-document that becomes a file or that a shell runs."""
        self.here_lines.append((here.line, here.line + here.text.count("\n")))
        line = [words for words in recent if words[-1].line <= here.opened]
        near = [words for words in line if words[-1].line == here.opened] or line[-1:]
        name = next((target for words in near if (target := self._target(words))), None)
        if name is None and not any(_is_shell(words) for words in near):
            return
        if len(self.documents) >= _MOST_DOCUMENTS:
            reason = f"only the first {_MOST_DOCUMENTS} here-documents were read"
            self._unread.append((here.line, reason))
            return
        text = here.text
        if not here.quoted:
            text = _ESCAPED.sub(r"\1", filled(text, self._value, longest=_LONGEST))
        self.documents.append(Document(name=name, text=text, line=here.line))

    def _target(self, words: list[Word]) -> str | None:
        """The file that the output of a command goes to: `> FILE`, `tee FILE`."""
        for word in words:
            if word.into and not word.text.startswith("/dev/"):
                return self._filled(word)
        texts = [word.text.rpartition("/")[2] for word in words]
        if "tee" in texts:
            for word in words[texts.index("tee") + 1 :]:
                if not word.text.startswith("-"):
                    return self._filled(word)
        return None

    def _command(self, words: list[Word]) -> Command | None:
        rest = list(words)
        env: list[tuple[str, str]] = []
        exported = bool(rest) and rest[0].raw in _SETS
        if exported:
            rest = [one for one in rest[1:] if not one.raw.startswith("-")]
        while rest and (match := _ASSIGNMENT.match(rest[0].text)) and not rest[0].quoted:
            word = rest.pop(0)
            if word.items is not None:
                found = (text for item in word.items for text in self._expanded(item))
                items = tuple(islice(found, _MOST_WORDS))
                before = self._known.get(match[1], ()) if match[2] else ()
                self._known[match[1]] = (before + items)[:_MOST_WORDS]
            else:
                value = self._filled(_behind(word, match.end()))
                if match[2]:
                    value = (" ".join(self._known.get(match[1], ())) + value)[:LONGEST_WORD]
                env.append((match[1], value))
        if not rest or exported:
            self._known.update({name: (value,) for name, value in env})
            if not env:
                return None
            return Command(words=(), line=words[0].line, env=tuple(env), exported=exported)
        listed = ((text, one.line) for one in rest for text in self._expanded(one))
        expanded = list(islice(listed, _MOST_WORDS))
        if not expanded:
            return None
        return Command(
            words=tuple(text for text, _ in expanded),
            line=rest[0].line,
            env=tuple(env),
            lines=tuple(line for _, line in expanded),
        )

    def _value(self, name: str) -> str | None:
        found = self._known.get(name)
        if found is None:
            return self._assigned.get(name)
        return " ".join(found)[:LONGEST_WORD]

    def _filled(self, word: Word) -> str:
        """A word as one text: nothing is split."""
        return "".join(self._text(piece) for piece in word.pieces)[:LONGEST_WORD]

    def _text(self, piece: Piece) -> str:
        if piece.kind == PLAIN:
            return piece.text
        return filled(piece.text, self._value, assigned=self._assigned)

    def _list(self, piece: Piece) -> tuple[str, ...] | None:
        """The words of `"$@"` and `"${name[@]}"`, where they are known."""
        match = _LIST.fullmatch(piece.text) if piece.kind != PLAIN else None
        if match is None:
            return None
        found = self._known.get(match[1] or match[2] or match[3])
        return found if found is None or match[4] is None else found[max(int(match[4]) - 1, 0) :]

    def _expanded(self, word: Word) -> tuple[str, ...]:
        """The words that one word stands for: several for a list, none for an empty variable."""
        made: list[str] = []
        held: str | None = None
        for piece in word.pieces:
            known = self._list(piece)
            parts = known if known is not None else (self._text(piece),)
            if known is None and piece.kind == BARE and parts[0] != piece.text:
                parts = _split(parts[0])
            for place, part in enumerate(parts):
                if place:
                    made.append(held or "")
                    held = ""
                held = ((held or "") + part)[:LONGEST_WORD]
        if held is not None:
            made.append(held)
        return tuple(made[:_MOST_WORDS])


def _split(text: str) -> tuple[str, ...]:
    """A value behind an unquoted variable, as words; a command in it is not known and kept."""
    return (text,) if "$(" in text or "`" in text else tuple(text.split())


def _behind(word: Word, length: int) -> Word:
    """The word without its first characters."""
    pieces: list[Piece] = []
    for piece in word.pieces:
        cut = min(length, len(piece.text))
        length -= cut
        pieces.append(Piece(text=piece.text[cut:], kind=piece.kind))
    return Word(pieces=tuple(pieces), line=word.line, raw=word.raw)


def _is_shell(words: list[Word]) -> bool:
    """Whether a command hands its input to a shell: `bash -s`, `ssh host 'bash -s'`."""
    return words[0].text.rpartition("/")[2] == "ssh" or any(
        _RUNS_IT.fullmatch(one.text) for one in words
    )


def _simple(text: str, unread: list[tuple[int, str]]) -> Iterator[list[Word] | Here]:
    """Words up to each operator; here-documents behind the line that opens them."""
    words: list[Word] = []
    for word in Reader(text, unread).words():
        if isinstance(word, Word):
            words.append(word)
            continue
        if words:
            yield words
        words = []
        if word is not None:
            yield word
    if words:
        yield words
