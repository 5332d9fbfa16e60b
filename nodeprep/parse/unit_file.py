"""systemd units and environment files, as far as they start a server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from nodeprep.model.base import Record
from nodeprep.model.launch import Variable
from nodeprep.parse.shell_words import is_open, placed_words, split_words

_ENTRY = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")
_WHOLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_DOLLARS = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LONGEST = 4096
_LONGEST_VALUE = 1 << 16
_MOST = 2000
_MOST_UNREAD = 20


class Entry(Record, frozen=True):
    """One assignment of a unit, continuations joined."""

    section: str
    key: str
    value: str
    line: int
    written: str = ""
    """The value with its line ends: a backslash and a line feed for each."""


def read_unit(text: str) -> tuple[Entry, ...]:
    """The assignments of a unit in order; comments and what is no assignment are left out."""
    entries: list[Entry] = []
    section, held, written, first = "", "", "", 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or (not stripped and not held):
            written += "\\\n" if held else ""
            continue
        first = first if held else number
        held += stripped
        if held.endswith("\\"):
            held = held[:-1] + " "
            written += stripped[:-1] + "\\\n"
            continue
        written += stripped
        if held.startswith("[") and held.endswith("]"):
            section = held[1:-1]
        else:
            key, equals, value = held.partition("=")
            if equals and len(entries) < _MOST:
                entries.append(
                    Entry(
                        section=section,
                        key=key.strip(),
                        value=value.strip()[:_LONGEST_VALUE],
                        line=first,
                        written=written.partition("=")[2][:_LONGEST_VALUE],
                    )
                )
        held = written = ""
    return tuple(entries)


def exec_words(
    entry: Entry, variables: tuple[Variable, ...] = (), *, prefixed: bool = True
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words of an Exec line and their lines: prefixes dropped, `%%` and `$$` undone.

    `prefixed`: the first word may begin with `-`, `@` and others that say how it is run.
    As systemd does, `$NAME` alone is split at blanks and `${NAME}` is not; an unknown one stays.
    """
    known = {one.name: one.value for one in variables if one.value is not None}
    written = _behind_prefixes(entry.written) if prefixed else entry.written
    found = (
        (one, entry.line + line - 1)
        for word, line in placed_words(written)
        for one in _filled(word.replace("%%", "%"), known)
    )
    words = list(islice(found, _MOST))
    return tuple(word for word, _ in words), tuple(line for _, line in words)


def _behind_prefixes(written: str) -> str:
    return re.sub(r"^(?:[@\-:+!| ]|\\\n)*", lambda one: "\\\n" * one[0].count("\n"), written)


def _filled(word: str, known: dict[str, str]) -> Iterator[str]:
    alone = _WHOLE.fullmatch(word)
    if alone is not None and alone[1] in known:
        yield from known[alone[1]].split()
        return
    yield _DOLLARS.sub(
        lambda one: "$" if one[0] == "$$" else known.get(one[1], one[0]), word[:_LONGEST_VALUE]
    )[:_LONGEST_VALUE]


def unread_of_unit(text: str, entries: tuple[Entry, ...]) -> tuple[tuple[int, str], ...]:
    """Lines of a unit that systemd would not read, and why."""
    found: list[tuple[int, str]] = []
    continued = False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith(("#", ";")):
            continue
        if not continued and stripped.startswith("[") and not stripped.endswith("]"):
            found.append((number, "the head of a section is never closed"))
        elif not continued and stripped and "=" not in stripped and not stripped.startswith("["):
            found.append((number, "neither a section nor an assignment"))
        continued = stripped.endswith("\\")
    found += [
        (one.line, f"a quote in {one.key}= is never closed")
        for one in entries
        if one.key.startswith(("Exec", "Environment")) and is_open(one.value)
    ]
    if len(entries) >= _MOST:
        found.append((entries[-1].line, f"only the first {_MOST} assignments were read"))
    if not any(one.key == "ExecStart" for one in entries):
        found.append((1, "no ExecStart= in it"))
    return tuple(found[:_MOST_UNREAD])


def unit_variables(entries: Iterable[Entry]) -> tuple[Variable, ...]:
    """What `Environment=` sets."""
    found: list[Variable] = []
    for entry in entries:
        if entry.key == "Environment":
            for word in split_words(entry.value):
                name, _, value = word.partition("=")
                found.append(Variable(name=name[:200], value=value, line=entry.line))
    return tuple(found)


def read_env_file(text: str) -> tuple[Variable, ...]:
    """NAME=value lines; one pair of quotes around a value is undone, as systemd does."""
    found: list[Variable] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(("#", ";")):
            continue
        match = _ENTRY.fullmatch(line.rstrip("\r"))
        if match is not None and len(found) < _MOST:
            value = match[2].strip()[:_LONGEST]
            if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
                value = value[1:-1]
            found.append(Variable(name=match[1], value=value, line=number))
    return tuple(found)


def looks_like_env_file(text: str) -> bool:
    """Whether every line is an assignment or a comment."""
    lines = [line for line in text.split("\n")[:_MOST] if line.strip()]
    plain = [line for line in lines if not line.lstrip().startswith(("#", ";"))]
    return bool(plain) and all(_ENTRY.fullmatch(line.rstrip("\r")) for line in plain)
