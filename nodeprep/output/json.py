"""A document as JSON: the same on success and failure, safe to print, stable to compare."""

from __future__ import annotations

import re

import msgspec

_DANGEROUS = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""What JSON allows raw inside a string and a terminal obeys: C1 controls, bidi and zero width.

Outside of strings JSON has only ASCII, so replacing them in the finished text is sound.
"""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def dump(document: object) -> bytes:
    """UTF-8, two spaces of indent, one line end at the end.

    Fields stand in the order of their type, keys of a mapping in the order they were put there.
    """
    return dump_text(document).encode()


def dump_text(document: object, *, ascii_only: bool = False) -> str:
    """`dump` as text; `ascii_only` escapes everything else, for a stream that is not UTF-8."""
    text = msgspec.json.format(_encode(document), indent=2).decode()
    return (_NOT_ASCII if ascii_only else _DANGEROUS).sub(_escape, text) + "\n"


def _encode(document: object) -> bytes:
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        # A file name given on the command line need not be UTF-8: Python keeps its bytes as lone
        # surrogates, which no JSON text can hold.
        plain = msgspec.to_builtins(document, str_keys=True)
        return msgspec.json.encode(_without_surrogates(plain))


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(one) for one in value]
    return value


def _escape(match: re.Match[str]) -> str:
    """`\\uXXXX`, as two of them above the basic plane."""
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
