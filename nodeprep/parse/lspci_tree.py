r"""The tree of `lspci -t` and `lspci -tv`: who hangs below whom.

    -+-[0000:00]-+-00.0
     |           +-01.1-[01]--+-00.0  NVIDIA Corporation Device 2b85
     |           |            \-00.1  NVIDIA Corporation Device 22e8
     |           \-03.1-[02-05]----00.0-[03-05]--+-00.0-[04]----00.0
     |                                           \-02.0-[05]--
     \-[0000:20]---00.0

The column of a branch (`+-`, `\-`) tells its bus: the one that was opened in front of that column.
So columns must have survived the paste; bus numbers are checked against the ranges above them.

A terminal may have folded long lines, and what is folded may look like a branch of another bus.
Such a text is read twice, as it stands and with the lines of full width joined to the next.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from nodeprep.errors import ParseError
from nodeprep.model.lspci import LspciTree, LspciTreeNode
from nodeprep.model.pci import Bdf, parse_bdf
from nodeprep.parse.text import clean_lines

MAX_NODES = 20_000
_LONGEST = 2_048
"""lspci cuts its lines at 1,024 characters."""

_TREE = re.compile(r"[\s|]*(?:-?[+\\]-|-\[)")
_BUS = re.compile(
    r"\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<first>[0-9a-f]{2})(?:-(?P<last>[0-9a-f]{2}))?\]"
)
_DEVICE = re.compile(r"(?P<address>[01][0-9a-f]\.[0-7])(?:  ?(?P<name>\S.*))?")
_BRANCH = re.compile(r"[+\\]-")
_ROOT = re.compile(r"[+\\]-\[[0-9a-f]{4,8}:")
_FIRST_ROOT = re.compile(r"-(?:\+-)?\[(?P<domain>[0-9a-f]{4,8}:)?[0-9a-f]{2}\]")
_CUT = re.compile(r"\]$|(?<!\]-)-$")
"""Ends that lspci does not write: something stands behind every branch, and `--` behind a bus."""
_EMPTY_BUS = re.compile(r"\]--$|\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-$")
"""A bridge, or a root bus, without functions."""
_REST = re.compile(r"[\s|]*[|+\\][\s|+\\-]*|-+(?:[0-9+\[].*)?")
"""What a narrow window or a fold leaves of a line: bars without a branch, or a branch's tail."""
_DASHES = re.compile(r"-+")
_NAMED = re.compile(r"[01][0-9a-f]\.[0-7]  ?\S")
_BARS = re.compile(r"\s*\||\s+[+\\]-")


class _Bus(NamedTuple):
    """A bus that is open: devices that follow stand on it."""

    domain: str
    number: int
    last: int
    """Highest bus number below the bridge."""
    bridge: Bdf | None
    root: str


def parse_lspci_tree(text: str) -> LspciTree:
    """Every function of the tree, with its parent.

    Functions whose place is not certain are left out: a branch that begins above the paste, lost
    columns, bus numbers that do not fit.  `complete` is False then, as it is when a branch does not
    end, or a line.  Raises ParseError without a tree.
    """
    lines = [line.expandtabs() for line in clean_lines(text)]
    plain, joined = _read(lines), None
    if plain.lost and _looks_folded(lines):
        joined = _read(_joined(lines))
    best = plain if joined is None or joined.lost else joined
    nodes = list(best.nodes.values())
    if joined is not None and joined.lost:
        # Only what both ways agree on.
        nodes = _with_parents(
            [node for node in nodes if _same_place(node, joined.nodes.get(node.bdf))]
        )
    if not nodes:
        raise ParseError("no tree of lspci -t in the text", hint="run: lspci -tv")
    # The last of `lines` is empty when the text ends in a line end.
    lost = best.lost or lines[-1].endswith("-")
    return LspciTree(nodes=tuple(nodes), complete=not best.open and not lost)


def _read(lines: list[str]) -> _Reader:
    reader = _Reader(_width(lines))
    for line in lines:
        if len(line) <= _LONGEST:
            reader.line(line)
    reader.end()
    return reader


def _width(lines: list[str]) -> int:
    return max((len(line) for line in lines if _TREE.match(line)), default=0)


def _looks_folded(lines: list[str]) -> bool:
    """Whether a line of full width has something below it that begins no line of a tree."""
    width = _width(lines)
    return any(
        len(line) == width and below.strip() and not _begins(below)
        for line, below in pairwise(lines)
    )


def _begins(line: str) -> bool:
    """Whether a line is the beginning of one: a root, or bars or blanks in front of a branch."""
    root = _FIRST_ROOT.match(line)
    return _BARS.match(line) is not None or (root is not None and root["domain"] is not None)


def _joined(lines: list[str]) -> list[str]:
    """The lines of a tree that a terminal has folded: those of full width go on in the next."""
    width = _width(lines)
    whole: list[str] = []
    full = False
    for line in lines:
        bars = not whole[-1].strip(" |") if whole else False
        branch = _TREE.match(line) or _REST.fullmatch(line)
        named = branch and _NAMED.search(whole[-1]) if whole else False
        goes_on = full and (bars or not (_begins(line) or named))
        if goes_on:
            whole[-1] += line
        else:
            whole.append(line)
        full = bool(goes_on or branch) and len(line) == width and len(whole[-1]) < _LONGEST
    return whole


def _same_place(node: LspciTreeNode, other: LspciTreeNode | None) -> bool:
    return other is not None and (node.parent, node.root_bus) == (other.parent, other.root_bus)


def _with_parents(nodes: list[LspciTreeNode]) -> list[LspciTreeNode]:
    """Without the functions below one that was left out, or that stands behind them."""
    kept: dict[Bdf, LspciTreeNode] = {}
    for node in nodes:
        if node.parent is None or node.parent in kept:
            kept[node.bdf] = node
    return list(kept.values())


class _Reader:
    """The branches that are open, by column, and the functions found so far."""

    def __init__(self, width: int) -> None:
        self.nodes: dict[Bdf, LspciTreeNode] = {}
        self.open: dict[int, _Bus | None] = {}
        """Column of a branch that goes on below -> its bus; None: the host bridges themselves."""
        self.seen = 0
        self.lost = False
        """A branch without a beginning, a cut bracket, or bus numbers that do not fit."""
        self._width = width
        self._skip = False
        """The next line is the rest of one that ended in front of its branch."""
        self._names = False
        self._unnamed = False
        """Lines end in a function without a name, or in an empty bus where lines are cut."""

    def line(self, line: str) -> None:
        """One line: of the tree, of what is left of one, or of something else."""
        if not line.strip():
            return
        skipped, self._skip = self._skip, False
        rest = _REST.fullmatch(line.rstrip()) is not None and not _TREE.match(line)
        if self.open and rest:
            self.lost = True
            self._skip = "|" in line or line[0].isspace()
        elif not skipped and _TREE.match(line):
            self._tree_line(line)

    def end(self) -> None:
        """With -v every function has a name: one without is what is left of a bridge."""
        self.lost = self.lost or (self._names and self._unnamed)

    def _tree_line(self, line: str) -> None:
        """A branch that goes on or begins, and what hangs from it, left to right."""
        place = len(line) - len(line.lstrip(" |"))
        known, bus = self._begin(line, place)
        bridge: Bdf | None = None
        named = False
        while known and place < len(line):
            if (branch := _BRANCH.match(line, place)) is not None:
                self._branch(branch, bus)
                place = branch.end()
            elif (bracket := _BUS.match(line, place)) is not None:
                bus = self._enter(bracket, bus, bridge)
                known, bridge, place = bus is not None, None, bracket.end()
            elif bus is not None and (device := _DEVICE.match(line, place)) is not None:
                bridge, named = self._device(device, bus), device["name"] is not None
                place = device.end()
            elif (dashes := _DASHES.match(line, place)) is not None:
                place = dashes.end()
            else:
                known = False
        bare = line.rstrip()
        empty = _EMPTY_BUS.search(bare) is not None
        cut = not (named or empty) and _CUT.search(bare) is not None
        self.lost = self.lost or not known or cut
        self._names = self._names or named
        at_edge = empty and len(line) == self._width
        self._unnamed = self._unnamed or (not named and (bridge is not None or at_edge))

    def _begin(self, line: str, place: int) -> tuple[bool, _Bus | None]:
        """Whether the bus that this line goes on with is known, and that bus."""
        if line[place] == "-":
            return self._root(line, place), None
        for column in [column for column in self.open if column > place]:
            # A line further left: branches to its right should have ended.
            self.lost = True
            del self.open[column]
        if place in self.open:
            return True, self.open[place]
        # An excerpt may begin with one of several root buses, never with anything deeper.
        self.lost = True
        return _ROOT.match(line, place) is not None, None

    def _root(self, line: str, place: int) -> bool:
        """Whether the line begins a tree; one without a domain is a folded branch below another."""
        root = _FIRST_ROOT.match(line, place)
        if root is None or (self.nodes and root["domain"] is None):
            self.lost = True
            return False
        self.lost = self.lost or bool(self.open)
        self.open.clear()
        return True

    def _branch(self, branch: re.Match[str], bus: _Bus | None) -> None:
        if branch[0] == "+-":
            self.open[branch.start()] = bus
        else:
            self.open.pop(branch.start(), None)

    def _enter(self, bracket: re.Match[str], bus: _Bus | None, bridge: Bdf | None) -> _Bus | None:
        """The bus that a bracket opens; None when it does not fit below the one at hand."""
        first = int(bracket["first"], 16)
        last = int(bracket["last"], 16) if bracket["last"] else first
        if bus is None:
            domain = f"{int(bracket['domain'] or '0', 16):04x}"
            return _Bus(domain, first, 0xFF, None, f"{domain}:{first:02x}")
        if not bus.number <= first <= last <= bus.last:
            return None
        if bridge is not None:
            self.nodes[bridge] = replace(
                self.nodes[bridge], secondary_bus=first, subordinate_bus=last
            )
        # Without a bridge: one of several buses behind the bridge above.
        return _Bus(bus.domain, first, last, bridge or bus.bridge, bus.root)

    def _device(self, device: re.Match[str], bus: _Bus) -> Bdf:
        bdf = parse_bdf(f"{bus.domain}:{bus.number:02x}:{device['address']}")
        self.nodes[bdf] = LspciTreeNode(
            bdf=bdf, parent=bus.bridge, root_bus=bus.root, name=device["name"]
        )
        self.seen += 1
        if self.seen > MAX_NODES:
            raise ParseError(
                f"more than {MAX_NODES:,} functions", hint="keep the output of one command"
            )
        return bdf
