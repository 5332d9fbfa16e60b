"""The page of `machines`: the recorded machines that ship."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import MachinesReport
from nodeprep.output import words as phrase
from nodeprep.output.text.look import QUIET, STRONG, Look, blank, headline, items, mixed, say


def machines_page(report: MachinesReport, look: Look) -> Iterator[RenderableType]:
    yield headline(phrase.count(len(report.machines), "recorded machine"), STRONG)
    for machine in report.machines:
        yield blank()
        kind = "constructed" if machine.constructed else "recorded on a node"
        yield mixed((machine.name, STRONG), (f"  {kind}", QUIET))
        yield from items((say(note) for note in machine.notes), mark=look.dot, style=QUIET)
