"""Cleaning of pasted text: the one place that knows what terminals, mailers and forums do to it.

Every step takes time linear in the text, and the text is bounded before anything else looks at it.
"""

from __future__ import annotations

import quopri
import re

from nodeprep.errors import ParseError

MAX_TEXT_BYTES = 8 << 20
"""8 MiB: `lspci -vvv` of a node with 500 functions is 1 MB."""
MAX_LINES = 200_000
MAX_LINE = 16_384
"""Longer lines are blanked: no line of these tools is a tenth of that."""

_TOO_LONG = "keep only the output of that one command"

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

_LINE_ENDS = ("\r\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029")
# Escape sequences (ECMA-48): CSI and OSC behind a real ESC, behind its pictures (^[, \e, \033,
# \x1b), and colour codes whose ESC a paste has swallowed.
_ESCAPE = re.compile(
    r"(?:[\x1b\u241b]|\^\[|\\e|\\033|\\x1b)"
    r"(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?|[()][0-9A-B])"
    r"|\x9b[0-?]{0,32}[ -/]{0,4}[@-~]"
    r"|\[[0-9]{1,3}(?:;[0-9]{1,3}){0,5}m"
)
_COLOUR = re.compile(r"\[[0-9;]{1,24}m")
# All but tab and line feed; then zero-width and direction marks, the byte order mark, and halves
# of surrogate pairs, which no encoder takes.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
    r"\ud800-\udfff]+"
)
_QUOTE = re.compile(r" {0,3}>(?: ?>){0,20} ?")
_MARKDOWN = re.compile(r"\\([\[\]<>_*|#~`])")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", " "), ("&#160;", " "), ("&amp;", "&"))

_QP_SIGN = re.compile(r"=(?:\n|3D|20|09|C2=A0)")
_QP_BROKEN = re.compile(r"=(?![0-9A-F]{2}|\n)")
_HTML = re.compile(r"</?(?:span|div|p|br|pre|td|tr|html|body)\b", re.IGNORECASE)


def decode(data: bytes) -> str:
    """Bytes as text: UTF-8, or UTF-16 with its mark (Windows shells); the undecodable is replaced.

    Raises ParseError over MAX_TEXT_BYTES.
    """
    if len(data) > MAX_TEXT_BYTES:
        raise ParseError(
            f"the input is longer than {MAX_TEXT_BYTES >> 20} MiB",
            hint=_TOO_LONG,
        )
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    return data.decode("utf-8", errors="replace")


def clean_text(text: str) -> str:
    r"""The lines of `clean_lines`, joined by `\n`."""
    return "\n".join(clean_lines(text))


def clean_lines(text: str) -> list[str]:
    r"""The lines as the program printed them; tabs and columns are kept.

    Removed or undone: escape sequences and their pictures (`^[[4m`), control characters, byte order
    marks, mail quotes (`> `), quoted-printable, HTML entities, markdown escapes (`\[`).  The last
    line is empty when the text ends in a line end.  Lines over MAX_LINE characters come back empty.
    Raises ParseError over MAX_TEXT_BYTES characters or MAX_LINES lines.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise ParseError(
            f"the text is longer than {MAX_TEXT_BYTES >> 20} MiB ({len(text)} characters)",
            hint=_TOO_LONG,
        )
    # Line by line, and long lines first of all: a substitution over the whole of a hostile text
    # would hold millions of pieces.
    return [_clean(line) if len(line) <= MAX_LINE else "" for line in _lines(text)]


def looks_like_html(text: str) -> bool:
    """Whether tags of a web page or an HTML mail stand in the text."""
    return _HTML.search(text) is not None


def shown(text: str, limit: int = 60) -> str:
    """A piece of untrusted text for a message: short, one line, no control characters."""
    piece = " ".join(text[: limit * 4].split())
    return repr(piece if len(piece) <= limit else piece[: limit - 3] + "...")


def _lines(text: str) -> list[str]:
    text = text.replace("\0", "")  # UTF-16 without its mark
    for mark in _LINE_ENDS:
        text = text.replace(mark, "\n")
    text = _unquote_printable(text)
    if text.count("\n") > MAX_LINES:
        raise ParseError(f"the text has more than {MAX_LINES:,} lines", hint=_TOO_LONG)
    return text.split("\n")


def _clean(line: str) -> str:
    if not _is_plain(line):
        line = _CONTROL.sub("", _ESCAPE.sub("", line))
    if "&" in line:
        for entity, character in _ENTITIES:
            line = line.replace(entity, character)
    quote = _QUOTE.match(line)
    if quote is not None:
        line = line[quote.end() :]
    return _MARKDOWN.sub(r"\1", line) if "\\" in line else line


def _is_plain(line: str) -> bool:
    """Whether there is nothing to remove: quick, and true of most lines."""
    return (
        line.isascii()
        and line.replace("\t", " ").isprintable()
        and "^[" not in line
        and "\\" not in line
        and ("[" not in line or _COLOUR.search(line) is None)
    )


def _unquote_printable(text: str) -> str:
    """Undoes quoted-printable (RFC 2045, 6.7) where every `=` of the text is one of its escapes."""
    if _QP_SIGN.search(text) is None or _QP_BROKEN.search(text) is not None:
        return text
    encoded = text.encode("utf-8", errors="replace")
    return quopri.decodestring(encoded).decode("utf-8", errors="replace")
