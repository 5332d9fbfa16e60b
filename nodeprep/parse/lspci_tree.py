r"""The tree of `lspci -t` and `lspci -tv`: who hangs below whom.

    -+-[0000:00]-+-00.0
     |           +-01.1-[01]--+-00.0  NVIDIA Corporation Device 2b85
     |           |            \-00.1  NVIDIA Corporation Device 22e8
     |           \-03.1-[02-05]----00.0-[03-05]--+-00.0-[04]----00.0
     |                                           \-02.0-[05]--
     \-[0000:20]---00.0

The column of a branch (`+-`, `\-`) tells its bus: the one that was opened in front of that column.
So columns must have survived the paste; bus numbers are checked against the ranges above them.
"""

from __future__ import annotations

import re
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
_CUT = re.compile(r"(?:[+\\]-|\]|\.[0-7]-)$")
_DASHES = re.compile(r"-+")


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
    end.  Raises ParseError without a tree.
    """
    lines = [line.expandtabs() for line in clean_lines(text)]
    reader = _Reader()
    for line in lines:
        if len(line) <= _LONGEST and _TREE.match(line):
            reader.line(line)
    if not reader.nodes:
        raise ParseError("no tree of lspci -t in the text", hint="run: lspci -tv")
    # The last of `lines` is empty when the text ends in a line end.
    lost = reader.lost or lines[-1].endswith("-")
    return LspciTree(nodes=tuple(reader.nodes.values()), complete=not reader.open and not lost)


class _Reader:
    """The branches that are open, by column, and the functions found so far."""

    def __init__(self) -> None:
        self.nodes: dict[Bdf, LspciTreeNode] = {}
        self.open: dict[int, _Bus | None] = {}
        """Column of a branch that goes on below -> its bus; None: the host bridges themselves."""
        self.seen = 0
        self.lost = False
        """A branch without a beginning, a cut bracket, or bus numbers that do not fit."""

    def line(self, line: str) -> None:
        """One line: a branch that goes on or begins, and what hangs from it, left to right."""
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
        # lspci writes something behind every branch and bracket: without it the line is cut.
        cut = not named and _CUT.search(line.rstrip()) is not None
        self.lost = self.lost or not known or cut

    def _begin(self, line: str, place: int) -> tuple[bool, _Bus | None]:
        """Whether the bus that this line goes on with is known, and that bus."""
        if line[place] == "-":
            self.lost = self.lost or bool(self.open)
            self.open.clear()
            return True, None
        for column in [column for column in self.open if column > place]:
            # A line further left: branches to its right should have ended.
            self.lost = True
            del self.open[column]
        if place in self.open:
            return True, self.open[place]
        # An excerpt may begin with one of several root buses, never with anything deeper.
        self.lost = True
        return _ROOT.match(line, place) is not None, None

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
