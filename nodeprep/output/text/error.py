"""The page of a command that could not do its work."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import ErrorReport
from nodeprep.output.text.findings import first_lines
from nodeprep.output.text.look import BAD, Look, items


def error_page(report: ErrorReport, _look: Look) -> Iterator[RenderableType]:
    yield from items([report.error], mark="ERROR", style=BAD, indent=0)
    if report.hint:
        yield from first_lines(report.hint, "")
