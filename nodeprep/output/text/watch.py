"""The page of one look of `watch`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import WatchReport
from nodeprep.output import words as phrase
from nodeprep.output.text.look import (
    BAD,
    CAREFUL,
    GOOD,
    QUIET,
    STRONG,
    Look,
    headline,
    items,
    mixed,
    say,
)


def watch_page(report: WatchReport, _look: Look) -> Iterator[RenderableType]:
    bad = bool(report.lost) or not report.paths_free
    yield headline(
        "GPU LOST" if report.lost else "paths redirect" if bad else "all well",
        BAD if report.lost else CAREFUL if bad else GOOD,
        note=f"{phrase.count(report.gpus, 'GPU')}; {report.why}",
        labels=phrase.run_labels(simulated=report.simulated),
    )
    yield from items(report.lost, mark="!", style=BAD)
    yield say(f"acs: {report.acs}", QUIET)
    yield from items(report.actions)
    for one in report.findings:
        yield from items([mixed((one.id, STRONG), f": {one.summary}")], mark="!", style=CAREFUL)
