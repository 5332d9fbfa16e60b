"""A parser is total: it gives a value or a ParseError, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nodeprep.errors import ParseError

Value = TypeVar("Value")


def attempt(parse: Callable[[str], Value], text: str) -> Value | ParseError:
    """What a parser makes of a text."""
    try:
        return parse(text)
    except ParseError as error:
        return error


def value_of(parse: Callable[[str], Value], text: str) -> Value | None:
    """The value; None when the text was refused, in which case the error helps its reader."""
    result = attempt(parse, text)
    if isinstance(result, ParseError):
        assert result.message
        assert result.hint
        return None
    return result
