"""The page of `acs persist`: files, state, and what is left to do."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import PersistReport
from nodeprep.output.text.look import (
    BAD,
    CAREFUL,
    GOOD,
    INDENT,
    QUIET,
    Look,
    blank,
    command,
    heading,
    headline,
    indented,
    items,
    labelled,
    say,
    table,
    verbatim,
)

_STYLES = {"enabled": GOOD, "in-effect": GOOD, "no-effect": BAD}


def persist_page(report: PersistReport, _look: Look) -> Iterator[RenderableType]:
    yield headline(
        f"{report.method} {report.state}",
        _STYLES.get(report.state, CAREFUL),
        note=report.detail,
    )
    if report.files:
        yield blank()
        for one in report.files:
            yield labelled(
                [("", say(one.path))], tag=("changed", GOOD) if one.changed else ("same", QUIET)
            )
    if report.kernel_parameter:
        yield blank()
        yield heading("kernel parameter")
        yield verbatim(report.kernel_parameter, indent=INDENT)
        yield from items(report.notes, mark="!", style=CAREFUL)
    if report.ports:
        yield blank()
        made = table("port", "reads", "without redirection")
        for port in report.ports:
            made.add_row(
                say(port.bdf),
                say(port.found or "nothing", "green" if port.ok else "red"),
                say(port.expected or "unknown", QUIET),
            )
        yield indented(made)
    if report.next_steps:
        yield blank()
        yield heading("do next")
        for step in report.next_steps:
            yield command(step, indent=INDENT)
