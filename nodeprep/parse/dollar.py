"""`$NAME` and `${NAME:-word}` in a text, filled in as a shell, compose and systemd do.

Nothing is run.  A variable that nobody sets takes the word that stands there for that case; without
one it stays as it is written.  Total: work and length are bounded for any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LONGEST_WORD = 16_384
_DEEPEST = 8
_NAME = r"[A-Za-z_][A-Za-z0-9_]*|[0-9]{1,4}|[@*]"
_TOKEN = re.compile(rf"\$\$|\$\{{|\$({_NAME})")
_BRACES = re.compile(r"\$\{|\}")
_INSIDE = re.compile(rf"({_NAME})(?:\[[@*]\])?(?:(:?)([-+=?])(.*))?", re.DOTALL)
_WORDS = re.compile(
    r"\$[@*]|\$\{[@*].*\}|\$\{[A-Za-z_][A-Za-z0-9_]*\[[@*]\]\}"
    r"|\$\{?[A-Za-z0-9_]*(?:ARG|OPT|EXTRA|FLAG|PARAM)[A-Za-z0-9_]*\}?",
    re.IGNORECASE | re.DOTALL,
)

Lookup = Callable[[str], str | None]
"""The value of a variable; None: nobody sets it."""


def filled(
    text: str,
    lookup: Lookup,
    *,
    double: bool = False,
    assigned: dict[str, str] | None = None,
    longest: int = LONGEST_WORD,
) -> str:
    """The text with its variables filled in.

    `double`: `$$` is one dollar (compose, systemd).  `assigned` takes what `${NAME:=word}` sets.
    """
    if "$" not in text:
        return text[:longest]
    return _Filling(lookup, double, {} if assigned is None else assigned, longest).fill(text, 0)


def may_be_words(text: str) -> bool:
    """Whether a word is one variable that may stand for several words: `$@`, `$EXTRA_ARGS`."""
    return _WORDS.fullmatch(text) is not None


class _Filling:
    def __init__(
        self, lookup: Lookup, double: bool, assigned: dict[str, str], longest: int
    ) -> None:
        self._lookup = lookup
        self._double = double
        self._assigned = assigned
        self._longest = longest

    def fill(self, text: str, depth: int) -> str:
        made: list[str] = []
        at, length, ends = 0, 0, _ends(text)
        for match in _TOKEN.finditer(text):
            if match.start() < at or length > self._longest:
                continue
            piece, following = self._value(text, match, ends.get(match.start()), depth)
            made += (text[at : match.start()], piece)
            length += match.start() - at + len(piece)
            at = following
        made.append(text[at:])
        return "".join(made)[: self._longest]

    def _value(
        self, text: str, match: re.Match[str], end: int | None, depth: int
    ) -> tuple[str, int]:
        """What stands for one token, and where the text goes on."""
        if match[0] == "$$":
            return ("$" if self._double else "$$"), match.end()
        if match[1] is not None:
            value = self._of(match[1])
            return (match[0] if value is None else value), match.end()
        if end is None:
            return match[0], match.end()
        written = text[match.start() : end + 1]
        inside = _INSIDE.fullmatch(text[match.end() : end])
        if inside is None or depth >= _DEEPEST:
            return written, end + 1
        return self._braced(inside, written, depth), end + 1

    def _braced(self, inside: re.Match[str], written: str, depth: int) -> str:
        name, colon, sign, word = inside[1], inside[2], inside[3], inside[4]
        value = self._of(name)
        has = value is not None and not (colon and value == "")
        if sign == "+":
            return self.fill(word, depth + 1) if has else ""
        if has and value is not None:
            return value
        if sign in ("-", "="):
            given = self.fill(word, depth + 1)
            if sign == "=":
                self._assigned[name] = given
            return given
        return written if value is None or sign else value

    def _of(self, name: str) -> str | None:
        value = self._assigned.get(name)
        return self._lookup(name) if value is None else value


def _ends(text: str) -> dict[int, int]:
    """Where each `${` is closed, in one pass."""
    found: dict[int, int] = {}
    begun: list[int] = []
    for match in _BRACES.finditer(text):
        if match[0] != "}":
            begun.append(match.start())
        elif begun:
            found[begun.pop()] = match.start()
    return found
