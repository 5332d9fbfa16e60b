"""The page of `machines`: the recorded machines that ship, one in a line."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import MachineEntry, MachinesReport
from nodeprep.output import words as phrase
from nodeprep.output.text.look import (
    QUIET,
    STRONG,
    Look,
    blank,
    headline,
    indented,
    items,
    mixed,
    say,
    table,
)


def machines_page(report: MachinesReport, look: Look) -> Iterator[RenderableType]:
    yield headline(
        phrase.count(len(report.machines), "recorded machine"),
        STRONG,
        note="use one with --machine NAME; exit: what bringup ends with",
    )
    yield blank()
    made = table("name", "gpus", "exit", "shows", free=("name", "gpus", "shows"), right=("exit",))
    for machine in report.machines:
        exit_status = "" if machine.exit_status is None else str(machine.exit_status)
        made.add_row(
            say(machine.name, STRONG),
            say(phrase.short_model(machine.gpus)),
            say(exit_status),
            say(machine.summary),
        )
    yield indented(made)
    for machine in report.machines:
        yield from _notes(machine, look)


def _notes(machine: MachineEntry, look: Look) -> Iterator[RenderableType]:
    if machine.notes:
        yield blank()
        kind = "constructed" if machine.constructed else "recorded on a node"
        yield mixed((machine.name, STRONG), (f"  {kind}", QUIET))
        yield from items((say(note) for note in machine.notes), mark=look.dot, style=QUIET)
