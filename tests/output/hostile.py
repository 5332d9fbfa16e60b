"""Documents whose every string is replaced, as a hostile device or a forged file would have it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

PAYLOAD = (
    "\nREADY forged\r\x1b[2J\x1b]0;x\x07\x9b31m\x7f\u202e\u2066\u200b\u2028\t[red]x[/red]\ud800"
)
"""A line of ours, a cleared screen, a title, C1, DEL, bidi, zero width, a tab, markup, no UTF-8."""

_ADDRESS = re.compile(r"([0-9a-f]{4,8}:)?[0-9a-f]{2,4}(:[0-9a-f]{2}\.[0-7])?")


def with_strings(value: T, change: Callable[[str], str]) -> T:
    """The same document with every string that is not empty, keys too, put through `change`."""
    return _walk(value, change)  # type: ignore[no-any-return]


def poisoned(document: T) -> T:
    return with_strings(document, lambda text: text + PAYLOAD)


def endless(document: T) -> T:
    """Very long words everywhere but in addresses and registers, which have a form."""
    return with_strings(
        document, lambda text: text if _ADDRESS.fullmatch(text) else text + "W" * 5000
    )


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value) if value else value
    if isinstance(value, tuple):
        return tuple(_walk(one, change) for one in value)
    if isinstance(value, dict):
        return {_walk(key, change): _walk(one, change) for key, one in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return msgspec.structs.replace(
            value, **{name: _walk(one, change) for name, one in fields.items()}
        )
    return value
