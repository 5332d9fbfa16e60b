"""The page of `render`: files and the reason of every setting in them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from nodeprep.model.report import RenderReport
from nodeprep.model.serving import Knob
from nodeprep.output import words as phrase
from nodeprep.output.text.look import (
    CAREFUL,
    GOOD,
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

_DIFF_STYLE = {"+": GOOD, "-": CAREFUL, "@": QUIET}


def render_page(report: RenderReport, _look: Look) -> Iterator[RenderableType]:
    changed = sum(one.changed for one in report.files)
    yield headline(
        phrase.count(len(report.files), "file"),
        STRONG,
        note=f"{changed} changed" if changed else "nothing changed",
        labels=phrase.run_labels(simulated=report.simulated),
    )
    yield from items(report.warnings, mark="!", style=CAREFUL)
    if len(report.groups) > 1:
        yield blank()
        for number, group in enumerate(report.groups):
            yield labelled([(f"group {number}", say(f"GPUs {phrase.ranges(group)}"))])
    if report.diff:
        yield blank()
        yield heading("difference", "nothing was written")
        for line in report.diff.splitlines():
            yield say(line, _DIFF_STYLE.get(line[:1], ""))
    if report.files:
        yield blank()
        yield heading("files")
        for one in report.files:
            yield labelled(
                [("", say(one.path))], tag=("changed", GOOD) if one.changed else ("same", QUIET)
            )
    if report.knobs:
        yield blank()
        yield heading("settings", "each with its reason")
        made = table("name", "value", "reason", free=("value", "reason"))
        for knob in report.knobs:
            made.add_row(say(knob.name), _value(knob), _reason(knob))
        yield indented(made)


def _value(knob: Knob) -> Text:
    return say(phrase.value_text(knob.value), STRONG)


def _reason(knob: Knob) -> Text:
    return mixed(knob.reason, (f" ({knob.source})" if knob.source else "", QUIET))
