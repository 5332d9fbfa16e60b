"""The part of the PCI tree that GPU traffic can use: root bus, ports, GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Finding
from nodeprep.model.pci import AcsFlag, AcsStatus, Bdf, PciFunction, acs_word
from nodeprep.output import words as phrase
from nodeprep.output.escape import safe
from nodeprep.output.text.findings import SEVERITY_STYLE
from nodeprep.output.text.look import (
    CAREFUL,
    PLAIN,
    QUIET,
    STRONG,
    Look,
    blank,
    heading,
    indented,
    items,
    mixed,
    say,
    table,
)

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_DEEPEST = 8
"""Levels that are indented; what lies deeper is drawn at the same place."""


def tree_section(
    facts: NodeFacts, findings: Iterable[Finding], look: Look
) -> Iterator[RenderableType]:
    if not facts.gpus:
        return
    drawing = _Drawing(facts, findings, look)
    yield blank()
    yield heading("pci tree of the gpu paths")
    yield indented(drawing.rows())
    yield from items([say(line, QUIET) for line in drawing.legend()])


class _Drawing:
    def __init__(self, facts: NodeFacts, findings: Iterable[Finding], look: Look) -> None:
        self.facts, self.look = facts, look
        self.indices = {gpu.bdf: gpu.index for gpu in facts.gpus}
        self.marked = _named(findings)
        self.children: dict[Bdf | None, list[PciFunction]] = {}
        self.seen: set[Bdf] = set()
        tree = facts.tree
        for gpu in facts.gpus:
            above: Bdf | None = None
            for bdf in tree.path(gpu.bdf):
                function = facts.functions.get(bdf)
                if function is not None and bdf not in self.seen:
                    self.children.setdefault(above, []).append(function)
                    self.seen.add(bdf)
                above = bdf

    def roots(self) -> list[tuple[str, list[PciFunction]]]:
        """What hangs on each root bus."""
        buses: dict[str, list[PciFunction]] = {}
        for function in self.children.get(None, ()):
            buses.setdefault(function.root_bus or "not known", []).append(function)
        return sorted(buses.items())

    def numa(self, tops: Iterable[PciFunction]) -> str:
        nodes = {top.numa_node for top in tops}
        return ", ".join(sorted("?" if node is None else str(node) for node in nodes))

    def rows(self) -> Table:
        """Columns: address in the tree, what it is, link, ACS control word, IOMMU group."""
        made = table("address", "what", "link", "acs", "group", right=("group",), free=("what",))
        for bus, tops in self.roots():
            made.add_row(say(f"root bus {bus}", STRONG), say(f"NUMA {self.numa(tops)}", QUIET))
            for stem, function in self._walk(tops, ()):
                made.add_row(
                    mixed((stem, QUIET), (function.bdf, self.marked.get(function.bdf, PLAIN))),
                    self._what(function),
                    say(phrase.link_text(function.link)),
                    self._acs(function),
                    self._group(function),
                )
        return made

    def _walk(
        self, functions: list[PciFunction], last: tuple[bool, ...]
    ) -> Iterator[tuple[str, PciFunction]]:
        """Every function below, with the guides that lead to it."""
        ordered = sorted(functions, key=lambda one: one.bdf)
        for number, function in enumerate(ordered):
            here = (*last, number == len(ordered) - 1)
            yield self._stem(here), function
            if len(here) < 64:
                yield from self._walk(self.children.get(function.bdf, []), here)

    def _stem(self, last: tuple[bool, ...]) -> str:
        tee, corner, line, gap = self.look.guides
        shown = last[-_DEEPEST:]
        return "".join(gap if end else line for end in shown[:-1]) + (corner if shown[-1] else tee)

    def _what(self, function: PciFunction) -> Text:
        index = self.indices.get(function.bdf)
        if index is not None:
            return say(f"GPU{index}", STRONG)
        text = say(function.kind)
        return text.append(f" {function.vendor_device}", QUIET) if self.look.wide else text

    def _acs(self, function: PciFunction) -> Text:
        if function.acs is None:
            unknown = function.acs_status is not AcsStatus.ABSENT
            return say("?", CAREFUL) if unknown else say("none", QUIET)
        word, redirects = acs_word(function.acs.control), function.acs.redirects
        if not redirects:
            return say(word, QUIET)
        return mixed(f"{word} ", (self.look.bits(redirects), CAREFUL))

    def _group(self, function: PciFunction) -> Text:
        return say(phrase.group_text(self.facts, function), QUIET)

    def legend(self) -> Iterator[str]:
        drawn = [self.facts.functions[bdf] for bdf in self.seen]
        redirects = AcsFlag(0)
        for one in drawn:
            redirects |= one.acs.redirects if one.acs else AcsFlag(0)
        if redirects:
            yield self.look.redirect_legend(redirects, _unused(self.facts))
        if any("/" in phrase.link_text(one.link) for one in drawn):
            yield "Link: negotiated / possible. A GPU at rest lowers its speed, never its width."
        if any(one.acs is None and one.acs_status is not AcsStatus.ABSENT for one in drawn):
            yield "ACS ?: the extended configuration space was not readable (root reads it)."


def _unused(facts: NodeFacts) -> str:
    """Why no pair of the node sends peer traffic over PCIe; empty where one does or may."""
    if facts.pairs and all(pair.nvlinks for pair in facts.pairs):
        return "not used: NVLink"
    if facts.pairs and all(pair.nvlinks or pair.p2p_granted is False for pair in facts.pairs):
        return "P2P not granted"
    return ""


def _named(findings: Iterable[Finding]) -> dict[str, str]:
    """The colour of every address that the subject of an open finding names; the worst wins."""
    styles: dict[str, str] = {}
    for finding in findings:
        if finding.counts:
            for bdf in _BDF.findall(safe(finding.subject)):
                styles.setdefault(bdf, SEVERITY_STYLE[finding.severity])
    return styles
