"""The page of `explain FINDING-ID`: the Markdown of a finding, for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from nodeprep.model.report import ExplainFindingReport
from nodeprep.output.text.look import (
    INDENT,
    QUIET,
    STRONG,
    Look,
    blank,
    heading,
    items,
    mixed,
    say,
    verbatim,
)

_STARTS = {"    ": "code", "- ": "item", "## ": "heading", "# ": "title"}
_PIECES = re.compile(r"(`[^`]+`|\[[^\]]+\]\([^)]+\))")


def finding_page(report: ExplainFindingReport, look: Look) -> Iterator[RenderableType]:
    """Our pages use four forms: headings, paragraphs, lists and indented code.

    Code stays as it stands, to be copied; the rest is wrapped.  rich's own Markdown frames
    headings and colours code blocks across the whole width, which no other page does.
    """
    yield say(report.id, STRONG)
    before = ""
    for kind, texts in _blocks(report.text.split("\n")):
        if kind == "title":
            continue
        if before != "heading":
            yield blank()
        before = kind
        if kind == "heading":
            yield heading(texts[0])
        elif kind == "code":
            yield from (verbatim(text, indent=2 * INDENT) for text in texts)
        else:
            mark = look.dot if kind == "item" else ""
            yield from items([_inline(text) for text in texts], mark=mark)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """A heading, a paragraph, a list or a stretch of code, with its lines or items."""
    for kind, group in groupby(_joined(lines), key=lambda one: one[0]):
        texts = [text for _, text in group]
        if kind == "paragraph":
            yield from ((kind, [text]) for text in texts)
        else:
            yield kind, texts


def _joined(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(kind, text): wrapped lines of a paragraph or an item are joined, empty ones are gone."""
    kind, text = "", ""
    for line in lines:
        starts = _kind(line) if line.strip() else ""
        if starts == "paragraph" and text and kind in ("item", "paragraph"):
            text = f"{text} {line.strip()}"
            continue
        if text:
            yield kind, text
        kind, text = starts, _content(line, starts)
    if text:
        yield kind, text


def _kind(line: str) -> str:
    for start, kind in _STARTS.items():
        if line.startswith(start):
            return kind
    return "paragraph"


def _content(line: str, kind: str) -> str:
    return (
        line[4:] if kind == "code" else line.lstrip("#- " if kind != "paragraph" else " ").strip()
    )


def _inline(text: str) -> Text:
    """Code in `backticks` without them, a [link](to) as its text."""
    pieces: list[str | tuple[str, str]] = []
    for piece in _PIECES.split(text):
        if piece.startswith("`") and piece.endswith("`") and len(piece) > 2:
            pieces.append((piece[1:-1], STRONG))
        elif piece.startswith("[") and "](" in piece:
            label, _, target = piece[1:-1].partition("](")
            pieces += [label, (f" ({target})", QUIET)]
        else:
            pieces.append(piece)
    return mixed(*pieces)
