"""The page of a boot run."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import NodeVerdict, Report, Stage, StageStatus
from nodeprep.output import words as phrase
from nodeprep.output.text.acs import acs_section
from nodeprep.output.text.findings import findings_section, first_lines, unknown_section
from nodeprep.output.text.gate import gate_section
from nodeprep.output.text.look import (
    BAD,
    GOOD,
    QUIET,
    Look,
    blank,
    heading,
    headline,
    indented,
    items,
    say,
    table,
    verbatim,
)
from nodeprep.output.text.memory import memory_section

_STAGE_STYLES = {
    StageStatus.OK: GOOD,
    StageStatus.FAILED: BAD,
    StageStatus.REFUSED: BAD,
    StageStatus.SKIPPED: QUIET,
}


def bringup_page(report: Report, look: Look) -> Iterator[RenderableType]:
    yield _verdict(report)
    yield from items(report.reasons, mark=look.dot)
    yield from first_lines(*phrase.run_first_step(report))
    yield from _stages(report)
    yield from findings_section(report.findings, look)
    yield from unknown_section(report.unknown)
    yield from acs_section(report.acs, look)
    if report.gate:
        yield from gate_section(report.gate, look)
    if report.memory:
        yield from memory_section(report.memory, look)
    yield from _files(report)
    yield blank()
    yield _verdict(report)
    yield from items([say(_next_step(report))])


def _verdict(report: Report) -> RenderableType:
    ready = report.verdict is NodeVerdict.READY
    name = report.machine or "this node"
    status = f"exit status {report.exit_status} ({phrase.exit_name(report.exit_status)})"
    return headline(
        phrase.verdict_word(report.verdict),
        GOOD if ready else BAD,
        note=f"{name}, {status}",
        labels=phrase.run_labels(simulated=report.simulated, dry_run=report.dry_run),
    )


def _stages(report: Report) -> Iterator[RenderableType]:
    if not report.stages:
        return
    yield blank()
    total = sum(stage.duration_s for stage in report.stages)
    yield heading("stages", f"{phrase.seconds(total)} in all")
    made = table("stage", "status", "took", "detail", right=("took",), free=("detail",))
    made.show_header = False
    for stage in report.stages:
        made.add_row(
            say(stage.name),
            say(_stage_word(stage), _STAGE_STYLES[stage.status]),
            say(phrase.seconds(stage.duration_s), QUIET),
            say(stage.detail),
        )
    yield indented(made)


def _stage_word(stage: Stage) -> str:
    calm = stage.status in (StageStatus.OK, StageStatus.SKIPPED)
    return stage.status.value if calm else stage.status.value.upper()


def _files(report: Report) -> Iterator[RenderableType]:
    if report.rendered:
        yield blank()
        yield heading("rendered", phrase.count(len(report.rendered), "file"))
        yield from (verbatim(path, indent=2) for path in report.rendered)


def _next_step(report: Report) -> str:
    """What the reader does with this verdict."""
    if report.verdict is NodeVerdict.READY:
        if report.simulated:
            return "A rehearsal: it says nothing of real hardware and makes no node ready."
        return "Next: register the node in the load balancer."
    if report.dry_run:
        return "A dry run changes nothing: run nodeprep bringup without --dry-run next."
    text, command = phrase.run_first_step(report)
    step = command or text or "see the reasons above"
    return (
        f"Next: {step.rstrip('.')}. Then run nodeprep bringup again; "
        "until then keep the node out of the load balancer."
    )
