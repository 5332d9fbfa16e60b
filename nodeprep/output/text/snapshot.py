"""The page of `snapshot`: what was written, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import SnapshotReport
from nodeprep.output.text.look import QUIET, STRONG, Look, blank, headline, items, mixed, say
from nodeprep.units import show_bytes


def snapshot_page(report: SnapshotReport, look: Look) -> Iterator[RenderableType]:
    yield headline("snapshot written", STRONG)
    kind = "redacted" if report.redacted else "NOT redacted: keep it to yourself"
    yield mixed(
        (report.path, STRONG),
        (f"  {show_bytes(report.size_bytes)}, {report.answers} answers, {kind}", QUIET),
    )
    if report.missing:
        yield blank()
        yield from items((say(why) for why in report.missing), mark=look.dot, style=QUIET)
