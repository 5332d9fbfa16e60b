"""The GPUs of a node, and how each two of them reach each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from rich.console import RenderableType
from rich.text import Text

from nodeprep.model.facts import NodeFacts
from nodeprep.model.gpu import Gpu
from nodeprep.model.topology import GpuPair, P2pStatus, PathLevel, level_label
from nodeprep.output import words as phrase
from nodeprep.output.text.look import (
    CAREFUL,
    INDENT,
    PLAIN,
    QUIET,
    STRONG,
    Look,
    blank,
    heading,
    indented,
    items,
    say,
    table,
)
from nodeprep.units import gib

_Cell = tuple[str, str]
"""Text and style."""

_MOST_IN_MATRIX = 32
"""No node has more; a recording that claims so gets its list only."""

_MEANING = {
    PathLevel.PIX: "one PCIe bridge between them",
    PathLevel.PXB: "several PCIe bridges, one switch tree",
    PathLevel.PHB: "the same root bus, no common switch",
    PathLevel.NODE: "several root buses of one NUMA node",
    PathLevel.SYS: "across NUMA nodes",
    PathLevel.NVLINK: "NVLink",
}


def gpus_section(facts: NodeFacts, look: Look) -> Iterator[RenderableType]:
    yield blank()
    names = Counter(gpu.name or "name not known" for gpu in facts.gpus)
    yield heading("gpus", ", ".join(f"{number} x {name}" for name, number in names.items()))
    if not facts.gpus:
        yield from items(["none found"])
        return
    yield indented(_list(facts, named=len(names) > 1))
    if 1 < len(facts.gpus) <= _MOST_IN_MATRIX:
        yield from _Matrix(facts, look).render()


def _list(facts: NodeFacts, *, named: bool) -> RenderableType:
    columns = ["", "address", "NUMA", "link", "memory", "group", *(["name"] if named else [])]
    made = table(*columns, right=("NUMA", "memory", "group"), free=("name",))
    for gpu in facts.gpus:
        function = facts.functions.get(gpu.bdf)
        numa = None if function is None else function.numa_node
        total = gpu.memory_total_bytes
        made.add_row(
            say(f"GPU{gpu.index}", STRONG),
            say(gpu.bdf),
            _number(numa),
            say(phrase.link_text(None if function is None else function.link)),
            say("?", QUIET) if total is None else say(f"{gib(total):.1f} GiB"),
            say(phrase.group_text(facts, function), QUIET if function is None else PLAIN),
            *([say(gpu.name or "?")] if named else []),
        )
    return made


def _number(value: int | None) -> Text:
    return say("?", QUIET) if value is None else say(str(value))


class _Matrix:
    """Level by tree, level by driver where the two differ, and P2P under it where it is not OK."""

    def __init__(self, facts: NodeFacts, look: Look) -> None:
        self.facts, self.look = facts, look
        both = [(a, b) for a in facts.gpus for b in facts.gpus if a.index < b.index]
        self.differ = any(self._differs(a, b) for a, b in both)
        self.letters = {self._p2p(a, b)[0] for a, b in both}

    def render(self) -> Iterator[RenderableType]:
        size = max(len(self.facts.gpus) - 1, 9)
        cell = max(len(f"GPU{size}"), 4) + 2
        per_block = max(1, (self.look.width - INDENT - 6 - 8) // cell)
        for start in range(0, len(self.facts.gpus), per_block):
            yield blank()
            yield indented(self._block(self.facts.gpus[start : start + per_block]))
        yield from items([say(line, QUIET) for line in self._legend()])

    def _block(self, columns: tuple[Gpu, ...]) -> RenderableType:
        made = table("", " ", *(f"GPU{gpu.index}" for gpu in columns))
        rows: list[tuple[str, Callable[[Gpu, Gpu], _Cell]]] = [("level", self._level)]
        if self.differ:
            rows = [("tree", self._by_tree), ("driver", self._by_driver)]
        rows += [("p2p", self._refused)] if len(self.letters) > 1 else []
        for gpu in self.facts.gpus:
            name = f"GPU{gpu.index}"
            for label, cell in rows:
                itself = "" if label == "p2p" else "X"
                cells = [
                    say(itself, QUIET) if gpu.index == other.index else say(*cell(gpu, other))
                    for other in columns
                ]
                if label != "p2p" or any(text.plain for text in cells):
                    made.add_row(say(name, STRONG), say(label, QUIET), *cells)
                    name = ""
        return made

    def _pair(self, a: Gpu, b: Gpu) -> GpuPair | None:
        return self.facts.pair(a.index, b.index)

    def _tree_level(self, a: Gpu, b: Gpu) -> PathLevel | None:
        known = a.bdf in self.facts.functions and b.bdf in self.facts.functions
        return self.facts.tree.level(a.bdf, b.bdf) if known else None

    def _differs(self, a: Gpu, b: Gpu) -> bool:
        pair = self._pair(a, b)
        driver = None if pair is None else pair.driver_level
        return driver not in (None, PathLevel.NVLINK, self._tree_level(a, b))

    def _shown_level(self, a: Gpu, b: Gpu) -> PathLevel | None:
        """The one level both agree on; NVLink, which only the driver knows, comes first."""
        pair = self._pair(a, b)
        driver = None if pair is None else pair.driver_level
        return driver or self._tree_level(a, b)

    def _level(self, a: Gpu, b: Gpu) -> _Cell:
        pair = self._pair(a, b)
        level = self._shown_level(a, b)
        return level_label(level, pair.nvlinks if pair else None), PLAIN if level else QUIET

    def _by_tree(self, a: Gpu, b: Gpu) -> _Cell:
        level = self._tree_level(a, b)
        return level_label(level), QUIET if level is None else PLAIN

    def _by_driver(self, a: Gpu, b: Gpu) -> _Cell:
        pair = self._pair(a, b)
        if pair is None or pair.driver_level is None:
            return "?", QUIET
        style = CAREFUL if self._differs(a, b) else PLAIN
        return level_label(pair.driver_level, pair.nvlinks), style

    def _p2p(self, a: Gpu, b: Gpu) -> _Cell:
        pair = self._pair(a, b)
        statuses = [] if pair is None else [pair.p2p_read, pair.p2p_write]
        known = [status for status in statuses if status is not None]
        if not known:
            return "?", QUIET
        shown = "/".join(dict.fromkeys(status.value for status in known))
        return shown, "green" if set(known) == {P2pStatus.OK} else "yellow"

    def _refused(self, a: Gpu, b: Gpu) -> _Cell:
        """Nothing where P2P is granted, so that what is not stands out."""
        text, style = self._p2p(a, b)
        return ("", PLAIN) if text == P2pStatus.OK.value else (text, style)

    def _legend(self) -> Iterator[str]:
        shown = {self._shown_level(a, b) for a in self.facts.gpus for b in self.facts.gpus}
        if self.differ:
            shown |= {self._tree_level(a, b) for a in self.facts.gpus for b in self.facts.gpus}
        yield f" {self.look.dot} ".join(
            f"{level.value}{'#' if level is PathLevel.NVLINK else ''} {meaning}"
            for level, meaning in _MEANING.items()
            if level in shown
        )
        if len(self.letters) == 1:
            letter = next(iter(self.letters))
            told = "not known" if letter == "?" else letter
            yield f"P2P {told} for {'all pairs' if len(self.facts.pairs) > 1 else 'the pair'}"
        elif self.letters:
            yield "p2p: where nothing stands it is OK"
        if self.differ:
            step = phrase.on_machine("nodeprep explain GPU0 GPU1", self.facts.machine)
            yield f"Tree and driver differ; {step} says why."
        elif all(pair.driver_level is None for pair in self.facts.pairs):
            yield "The level is that of the PCI tree; the driver's is not known."
        mig = [f"GPU{gpu.index}" for gpu in self.facts.gpus if gpu.mig_enabled]
        if mig:
            yield f"MIG is on: {', '.join(mig)}"
