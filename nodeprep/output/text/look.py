"""The dress of text: colours that mean something, glyphs, and the blocks every page is built of.

Whatever comes out of a document goes through `say` or `mixed`, which make it safe; no string of a
document is ever read as rich's markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nodeprep.model.pci import AcsFlag, acs_names
from nodeprep.output.escape import safe
from nodeprep.output.verdict import VerdictLine

BAD = "bold red"
CAREFUL = "bold yellow"
GOOD = "bold green"
CAUTION = "yellow"
"""A side remark to mind, where CAREFUL is a verdict or a mark."""
QUIET = "dim"
STRONG = "bold"
PLAIN = ""

_LETTERS = {AcsFlag.REQ_REDIR: "RR", AcsFlag.CMPL_REDIR: "CR", AcsFlag.EGRESS_CTRL: "EC"}

INDENT = 2
LABEL_WIDTH = 10


class Look(NamedTuple):
    """What a page may use of the terminal."""

    width: int
    """Columns."""
    unicode: bool

    @property
    def wide(self) -> bool:
        """Room for long names of bits and for the names of ports."""
        return self.width >= 110

    @property
    def arrow(self) -> str:
        return "\u2192" if self.unicode else "->"

    @property
    def dot(self) -> str:
        return "\u00b7" if self.unicode else "-"

    @property
    def guides(self) -> tuple[str, str, str, str]:
        """For a child, the last child, and what stands below each of the two."""
        if self.unicode:
            return "\u251c\u2500", "\u2514\u2500", "\u2502 ", "  "
        return "|-", "`-", "| ", "  "

    def bits(self, redirects: AcsFlag) -> str:
        """Redirect bits by lspci's names, on a narrow terminal by the specification's letters."""
        if self.wide:
            return " ".join(acs_names(redirects))
        return " ".join(short for flag, short in _LETTERS.items() if flag in redirects)

    def redirect_legend(self, redirects: AcsFlag, but: str = "") -> str:
        """What the bits of `bits` do; `but`: why they do nothing to these pairs."""
        letters = (
            f"{short} {acs_names(flag)[0]}" for flag, short in _LETTERS.items() if flag in redirects
        )
        named = "ACS bits named" if self.wide else ", ".join(letters)
        aside = f" ({but})" if but else ""
        return f"{named}: peer traffic is sent up to the root, not across{aside}."

    def bar(self, share: float, cells: int) -> str:
        """A bar of `share` (0..1) of `cells` columns; a share that is not 0 shows at least one."""
        full = round(max(0.0, min(1.0, share)) * cells)
        if share > 0:
            full = max(1, full)
        return ("\u2501" if self.unicode else "#") * full


def say(text: str, style: str = PLAIN) -> Text:
    """One safe piece of text."""
    return Text(safe(text), style=style)


def mixed(*pieces: str | tuple[str, str]) -> Text:
    """Safe pieces of text in one line, each with its style."""
    line = Text()
    for piece in pieces:
        text, style = (piece, PLAIN) if isinstance(piece, str) else piece
        line.append(safe(text), style=style or None)
    return line


def blank() -> Text:
    return Text("")


def heading(title: str, note: str = "") -> Text:
    return mixed((title.upper(), STRONG), *([("  " + note, QUIET)] if note else []))


def headline(
    verdict: str, style: str, note: str = "", labels: Iterable[str] = ()
) -> RenderableType:
    """The first line of a page: the verdict, what it rests on, and what it is not."""
    marks = [(f"  [{label.upper()}]", CAREFUL) for label in labels]
    return mixed((verdict, style), *marks, *([f"  {note}"] if note else []))


def verdict_lines(
    line: VerdictLine, style: str, look: Look, *, labels: Iterable[str] = ()
) -> Iterator[RenderableType]:
    """Verdict, reason, labels and the next command: in one line, or the command below them."""
    said = mixed(line.reason, *((f"  [{label.upper()}]", CAREFUL) for label in labels))
    after = f"{look.arrow} {safe(line.command, 4000)}"
    whole = mixed((line.word, style), "  ").append_text(said)
    if not line.command:
        yield from items([said], mark=f"{line.word} ", style=style, indent=0)
    elif cell_len(whole.plain) + 2 + cell_len(after) <= look.width:
        yield whole.append(f"  {after}", STRONG)
    else:
        yield from items([said], mark=f"{line.word} ", style=style, indent=0)
        yield Text(" " * INDENT + after, STRONG, no_wrap=True, overflow="ignore")


def labelled(
    rows: Iterable[tuple[str, RenderableType]], *, tag: tuple[str, str] | None = None
) -> Table:
    """`  label     text`, the text wrapped beside its label; `tag` is the first label, styled."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True, width=INDENT + LABEL_WIDTH)
    grid.add_column(overflow="fold")
    for label, text in rows:
        shown, style = tag or (label, QUIET)
        grid.add_row(Text(" " * INDENT + safe(shown), style=style), text)
        tag = None
    return grid


def items(
    texts: Iterable[str | Text], *, mark: str = "", style: str = PLAIN, indent: int = INDENT
) -> Iterator[RenderableType]:
    """Paragraphs below each other, wrapped beside their mark."""
    gutter = " " * indent + (f"{mark} " if mark else "")
    grid = Table.grid(pad_edge=False)
    grid.add_column(no_wrap=True, width=len(gutter))
    grid.add_column(overflow="fold")
    for text in texts:
        body = say(text) if isinstance(text, str) else text
        grid.add_row(Text(gutter, style=style), body)
    if grid.row_count:
        yield grid


def command(line: str, *, indent: int) -> Text:
    """A line to copy: never wrapped by us, so that it pastes as it stands."""
    text = Text(" " * indent, no_wrap=True, overflow="ignore")
    text.append("$ ", style=QUIET)
    return text.append(safe(line, 4000))


def verbatim(line: str, *, indent: int) -> Text:
    """Like `command`, for what is no command."""
    return Text(" " * indent + safe(line, 4000), no_wrap=True, overflow="ignore")


def table(*columns: str, right: Iterable[str] = (), free: Iterable[str] = ()) -> Table:
    """A calm table: quiet heads, no lines; only the columns in `free` may wrap."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=QUIET)
    for column in columns:
        made.add_column(
            Text(column),
            justify="right" if column in right else "left",
            no_wrap=column not in free,
            overflow="fold",
        )
    return made


def indented(block: RenderableType, by: int = INDENT) -> Padding:
    return Padding(block, (0, 0, 0, by))
