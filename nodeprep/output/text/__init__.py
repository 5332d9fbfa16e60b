"""A document for a person at a terminal.  The only place that loads rich."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodeprep.model.base import Record
from nodeprep.output.escape import ascii_only
from nodeprep.output.pasting import pastable

if TYPE_CHECKING:
    from rich.console import RenderableType

NARROWEST, WIDEST = 72, 120
"""Columns: below the first the terminal wraps, beyond the second lines are hard to read."""


def render_text(document: Record, *, color: bool, width: int, unicode: bool = True) -> str:
    """The page of a document.  TypeError: a document of no known type.

    Lines keep within `width` columns, but for commands and kernel parameters, which are to be
    copied and stay whole.  Without `color` there is no escape sequence in it at all.
    """
    from nodeprep.output.text.look import Look
    from nodeprep.output.text.pages import page_of

    look = Look(width=max(NARROWEST, min(width, WIDEST)), unicode=unicode)
    page = page_of(type(document))
    text = _print(page(pastable(document), look), width=look.width, color=color)
    text = "".join(f"{line.rstrip(' ')}\n" for line in text.split("\n")[:-1])
    return text if unicode else ascii_only(text)


def _print(blocks: Iterator[RenderableType], *, width: int, color: bool) -> str:
    """Blocks through rich, which asks nothing of this computer: no size, no environment."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(
        file=out,
        width=width,
        height=100,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=False,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    for block in blocks:
        whole = isinstance(block, Text) and bool(block.no_wrap)
        console.print(
            block, crop=False, no_wrap=whole or None, overflow="ignore" if whole else None
        )
    return out.getvalue()
