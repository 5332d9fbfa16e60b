"""The page of `explain A B`: the way between two GPUs, hop by hop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from nodeprep.model.pci import AcsFlag, acs_flag
from nodeprep.model.report import ExplainReport, Hop
from nodeprep.output.text.findings import findings_section
from nodeprep.output.text.look import (
    CAREFUL,
    GOOD,
    PLAIN,
    QUIET,
    STRONG,
    Look,
    blank,
    heading,
    headline,
    indented,
    items,
    labelled,
    mixed,
    say,
    table,
)


def explain_page(report: ExplainReport, look: Look) -> Iterator[RenderableType]:
    a, b = report.pair
    yield headline(f"{a} {look.arrow} {b}", STRONG, note=report.nccl_path)
    yield blank()
    yield labelled(_answers(report))
    yield blank()
    yield heading(_WAY[_use(report)][0])
    yield indented(_way(report, look))
    redirects = _flags(name for hop in report.hops for name in hop.redirects)
    if redirects:
        legend = look.redirect_legend(redirects, _WAY[_use(report)][1])
        yield from items([say(legend, QUIET)])
    yield from _changes(report)
    yield from findings_section(report.findings, look)


_WAY = {
    "pcie": ("the way", ""),
    "nvlink": ("pcie way, not used", "not used: NVLink"),
    "refused": ("the way", "P2P not granted"),
}
"""Heading of the hops, and what to know of redirection on them, by what the pair uses."""


def _use(report: ExplainReport) -> str:
    letters = [one for one in report.p2p.values() if one != "unknown"]
    if letters and any(one != "OK" for one in letters):
        return "refused"
    return "nvlink" if report.level.driver.startswith("NV") else "pcie"


def _answers(report: ExplainReport) -> Iterator[tuple[str, RenderableType]]:
    tree, driver = report.level.tree, report.level.driver
    differ = "?" not in (tree, driver) and tree != driver and not driver.startswith("NV")
    yield (
        "level",
        mixed((tree, STRONG), " by tree, ", (driver, CAREFUL if differ else STRONG), " by driver"),
    )
    if report.level_words:
        yield "", say(report.level_words)
    yield "p2p", _p2p(report.p2p)
    yield "iommu", say(report.iommu or "not known")


def _p2p(statuses: dict[str, str]) -> Text:
    if not statuses:
        return say("not known", CAREFUL)
    line = Text()
    for name, status in statuses.items():
        style = GOOD if status == "OK" else CAREFUL if status != "unknown" else QUIET
        line.append_text(mixed(f"{', ' if line else ''}{name} ", (status, style)))
    return line


def _way(report: ExplainReport, look: Look) -> Table:
    columns = ("", "address", "what", "link", "NUMA", "acs")
    made = table(*columns, free=("what", "acs"), right=("NUMA",))
    made.columns[2].min_width = len("host bridge 10000:00")
    made.columns[5].min_width = len("001d RR CR EC")
    labels = _sides(report)
    for hop, (label, style) in zip(report.hops, labels, strict=True):
        made.add_row(
            say(label, style),
            say(hop.bdf or ""),
            _what(hop, look),
            say(hop.link or ""),
            say("" if hop.numa_node is None else str(hop.numa_node)),
            _acs(hop, look),
        )
    return made


def _sides(report: ExplainReport) -> list[tuple[str, str]]:
    """The name of a GPU at its end of the way, a mark at the turning point."""
    last = len(report.hops) - 1
    sides = []
    for number, hop in enumerate(report.hops):
        if number == 0 and hop.side == "a":
            sides.append((report.pair[0], STRONG))
        elif number == last and hop.side == "b":
            sides.append((report.pair[1], STRONG))
        else:
            sides.append(("turn", QUIET) if hop.side == "common" else ("", PLAIN))
    return sides


def _what(hop: Hop, look: Look) -> Text:
    text = say(hop.what)
    if hop.vendor_device and look.wide:
        text.append_text(mixed((f" {hop.vendor_device}", QUIET)))
    if hop.name and look.wide:
        text.append_text(mixed((f" {hop.name}", QUIET)))
    return text


def _acs(hop: Hop, look: Look) -> Text:
    if hop.bdf is None:
        return Text("")
    if hop.acs is None:
        return say("?", CAREFUL)
    if hop.acs == "none":
        return say("none", QUIET)
    bits = look.bits(_flags(hop.redirects)) or " ".join(hop.redirects)
    return mixed((hop.acs, QUIET), (f" {bits}" if bits else "", CAREFUL))


def _flags(names: Iterable[str]) -> AcsFlag:
    flags = AcsFlag(0)
    for name in names:
        flags |= acs_flag(name) or AcsFlag(0)
    return flags


def _changes(report: ExplainReport) -> Iterator[RenderableType]:
    if report.would_change:
        yield blank()
        yield heading("would change it")
        yield from items(report.would_change, mark="+", style=GOOD)
    if report.would_not_change:
        yield blank()
        yield heading("would not change it")
        yield from items(report.would_not_change, mark="-", style=QUIET)
