"""The parts of a Markdown text that are meant to be run; the prose around them is not read.

They are fenced and indented code, and lines that are commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nodeprep.model.base import Record

_FENCE = re.compile(
    r"[ \t]{0,12}(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(`{3,}|~{3,})[ \t]*([\w.+-]*)[^`]*"
)
_INDENTED = re.compile(r"(?: {4}|\t)")
_PROMPT = r"(?:(?:\([\w.-]{1,40}\)\s*)?\[?[\w.-]{1,60}@[^\s#$%>]{1,200}[#$%>]\s*|[$%]\s+)"
_STARTS = (
    r"(?:[A-Za-z_]\w{0,80}=\S*\s+)*(?:(?:sudo|nohup|exec|time)\s+)*(?:\S*/)?"
    r"(?:(?:docker|podman|nerdctl)\s+(?:container\s+)?run\s+(?:.*\s)?-|(?:docker|podman)\s+run\s+\\$"
    r"|vllm\s+serve\s+(?:\S*/\S*|.*\s-|\\$|\S+\s*\\?$)|python3?\s+-m\s+vllm\.)"
)
_COMMAND = re.compile(
    rf"[ \t]*(?:[-*+][ \t]+|\d{{1,3}}[.)][ \t]+)?(`?){_PROMPT}?{_STARTS}", re.IGNORECASE
)
_PROSE = re.compile(r"[a-z]{2}[.!?]\s*$|[a-z]{2}[.!?]\s+[A-Z]")
_MOST_BLOCKS = 200


class Block(Record, frozen=True):
    text: str
    line: int
    """Of its first line."""
    language: str
    """What the fence names, in small letters; empty: nothing."""


def code_blocks(text: str) -> tuple[Block, ...]:
    """The code in a text, in order, at most 200 pieces."""
    found: list[Block] = []
    for block in _blocks(text.split("\n")):
        if len(found) >= _MOST_BLOCKS:
            break
        found.append(block)
    return tuple(found)


def _blocks(lines: Sequence[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is not None:
            close = _closing(lines, at + 1, fence[1])
            inside = _dedented(lines[at + 1 : close])
            yield Block(text=inside, line=at + 2, language=fence[2].lower())
            at = close + 1
            continue
        end = _indented_to(lines, at) or _command_to(lines, at)
        if end is None:
            at += 1
            continue
        yield Block(text=_dedented(_unticked(lines[at:end])), line=at + 1, language="")
        at = end


def _closing(lines: Sequence[str], at: int, mark: str) -> int:
    """The line that ends a fence, or the end of the text."""
    for place in range(at, len(lines)):
        stripped = lines[place].strip()
        if stripped.startswith(mark) and not stripped.strip(mark[0]):
            return place
    return len(lines)


def _indented_to(lines: Sequence[str], at: int) -> int | None:
    """Where indented code that begins here ends; it follows an empty line."""
    if not _INDENTED.match(lines[at]) or (at and lines[at - 1].strip()):
        return None
    if _PROSE.search(lines[at]):
        return None
    end = at
    while end < len(lines) and _INDENTED.match(lines[end]):
        end += 1
    return end


def _command_to(lines: Sequence[str], at: int) -> int | None:
    """Where a command that is a line of its own ends, continuations with it."""
    if not _COMMAND.match(lines[at][:1000]) or _PROSE.search(lines[at]):
        return None
    end = at
    while end + 1 < len(lines) and lines[end].rstrip().endswith("\\"):
        end += 1
    return end + 1


def _unticked(lines: Sequence[str]) -> list[str]:
    """Without the bullet before a command, and without the ticks around it."""
    bare = [re.sub(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)", "", lines[0]), *lines[1:]]
    if bare[0].lstrip().startswith("`"):
        bare = [bare[0].lstrip()[1:], *bare[1:]]
        bare[-1] = bare[-1].rstrip().removesuffix("`")
    return bare


def _dedented(lines: Sequence[str]) -> str:
    widths = [len(one) - len(one.lstrip()) for one in lines if one.strip()]
    least = min(widths, default=0)
    return "\n".join(_unprompted(one[least:]) for one in lines)


def _unprompted(line: str) -> str:
    return re.sub(rf"^{_PROMPT}", "", line)
