"""Which form a document is printed in, and with what dress."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nodeprep.errors import UsageError
from nodeprep.model.base import Record

FORMATS = ("auto", "text", "brief", "json")
COLORS = ("auto", "always", "never")


def render(
    document: Record,
    fmt: str,
    *,
    stream_is_tty: bool,
    color: str,
    env: Mapping[str, str],
    width: int,
) -> str:
    """The document as it is printed, with its last line end.

    `auto` is text on a terminal and brief elsewhere.  `width` is in columns and only text cares.
    """
    form = choose_format(fmt, stream_is_tty=stream_is_tty)
    unicode = wants_unicode(env)
    if form == "json":
        from nodeprep.output.json import dump_text

        return dump_text(document, ascii_only=not unicode)
    if form == "brief":
        from nodeprep.output.brief import brief
        from nodeprep.output.escape import ascii_only

        lines = brief(document)
        return lines if unicode else ascii_only(lines)
    from nodeprep.output.text import render_text

    colored = wants_color(color, stream_is_tty=stream_is_tty, env=env)
    return render_text(document, color=colored, width=width, unicode=unicode)


def choose_format(fmt: str, *, stream_is_tty: bool) -> str:
    """`text`, `brief` or `json`."""
    if fmt not in FORMATS:
        raise UsageError(f"unknown format {fmt[:40]!r}", hint=f"one of: {', '.join(FORMATS)}")
    if fmt != "auto":
        return fmt
    return "text" if stream_is_tty else "brief"


def wants_color(color: str, *, stream_is_tty: bool, env: Mapping[str, str]) -> bool:
    """Whether to colour: what was asked for comes before NO_COLOR (no-color.org)."""
    if color not in COLORS:
        raise UsageError(f"unknown colour {color[:40]!r}", hint=f"one of: {', '.join(COLORS)}")
    if color != "auto":
        return color == "always"
    return stream_is_tty and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def wants_unicode(env: Mapping[str, str]) -> bool:
    """Whether the reader's character set is UTF-8.

    The first of LC_ALL, LC_CTYPE and LANG that is set decides; with none of them set it is taken
    for UTF-8, as systemd does (is_locale_utf8), since a container sets none.
    """
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = env.get(name)
        if value:
            return re.search(r"utf-?8", value, re.IGNORECASE) is not None
    return True
