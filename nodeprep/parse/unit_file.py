"""systemd units and environment files, as far as they start a server."""

from __future__ import annotations

import re

from nodeprep.model.base import Record
from nodeprep.model.launch import Variable
from nodeprep.parse.shell_words import is_open, split_words

_ENTRY = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")
_LONGEST = 4096
_MOST = 2000
_MOST_UNREAD = 20


class Entry(Record, frozen=True):
    """One assignment of a unit, continuations joined."""

    section: str
    key: str
    value: str
    line: int


def read_unit(text: str) -> tuple[Entry, ...]:
    """The assignments of a unit in order; comments and what is no assignment are left out."""
    entries: list[Entry] = []
    section, held, first = "", "", 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or (not stripped and not held):
            continue
        first = first if held else number
        held += stripped
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        if held.startswith("[") and held.endswith("]"):
            section = held[1:-1]
        else:
            key, equals, value = held.partition("=")
            if equals and len(entries) < _MOST:
                entries.append(
                    Entry(
                        section=section, key=key.strip(), value=value.strip()[: 1 << 16], line=first
                    )
                )
        held = ""
    return tuple(entries)


def exec_words(value: str) -> tuple[str, ...]:
    """The words of an Exec line: prefixes dropped, `%%` and `$$` undone."""
    words = split_words(value.lstrip("@-:+!| "))
    return tuple(word.replace("%%", "%").replace("$$", "$") for word in words)


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


def unit_variables(entries: tuple[Entry, ...]) -> tuple[Variable, ...]:
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
