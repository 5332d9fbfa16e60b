"""The page of a boot run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import RenderableType

from nodeprep.model.report import NodeVerdict, Report, Stage, StageStatus
from nodeprep.output import words as phrase
from nodeprep.output.text.acs import acs_section
from nodeprep.output.text.findings import findings_section, first_lines, unknown_section
from nodeprep.output.text.gate import gate_section
from nodeprep.output.text.look import (
    BAD,
    GOOD,
    INDENT,
    QUIET,
    Look,
    blank,
    heading,
    indented,
    items,
    say,
    table,
    verbatim,
    verdict_lines,
)
from nodeprep.output.text.memory import memory_line, memory_section
from nodeprep.output.verdict import VerdictLine, run_line

_BAD_STAGES = (StageStatus.FAILED, StageStatus.REFUSED)

_STAGE_STYLES = {
    StageStatus.OK: GOOD,
    StageStatus.FAILED: BAD,
    StageStatus.REFUSED: BAD,
    StageStatus.SKIPPED: QUIET,
}


def bringup_page(report: Report, look: Look) -> Iterator[RenderableType]:
    line = run_line(report)
    yield from _verdict(report, line, look)
    yield from first_lines(line.step, "")
    yield say(", ".join(_about(report)), QUIET)
    yield from _stages(report)
    for section in _sections(report):
        yield from section(report, look)
    yield blank()
    yield from _verdict(report, line, look)
    yield from items([say(_next_step(report, line))])


def _verdict(report: Report, line: VerdictLine, look: Look) -> Iterator[RenderableType]:
    ready = report.verdict is NodeVerdict.READY
    labels = phrase.run_labels(simulated=report.simulated, dry_run=report.dry_run)
    yield from verdict_lines(line, GOOD if ready else BAD, look, labels=labels)


def _about(report: Report) -> Iterator[str]:
    yield report.machine or "this node"
    status = report.exit_status
    if report.verdict is not NodeVerdict.READY:
        yield f"exit status {status} ({phrase.exit_name(status)})"


_Section = Callable[[Report, Look], Iterator[RenderableType]]


def _sections(report: Report) -> list[_Section]:
    """The section of the stage that failed comes first; the rest keep the order of the run."""
    failed = {
        _OF_STAGE[stage.name]
        for stage in report.stages
        if stage.status in _BAD_STAGES and stage.name in _OF_STAGE
    }
    return sorted(_SECTIONS, key=lambda section: section not in failed)


def _found(report: Report, look: Look) -> Iterator[RenderableType]:
    yield from findings_section(report.findings, look)
    yield from unknown_section(report.unknown)


def _acs(report: Report, look: Look) -> Iterator[RenderableType]:
    yield from acs_section(report.acs, look)


def _gate(report: Report, look: Look) -> Iterator[RenderableType]:
    for one in report.measured:
        yield from gate_section(one, look)


def _memory(report: Report, look: Look) -> Iterator[RenderableType]:
    """In full where it is what the reader came for: the run got that far, or ended there."""
    plan = report.memory
    if plan is None:
        return
    stopped = any(stage.status in _BAD_STAGES for stage in report.stages)
    if plan.fits and stopped:
        yield from memory_line(plan)
    else:
        yield from memory_section(plan, look)


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
            say(_detail(stage)),
        )
    yield indented(made)


def _detail(stage: Stage) -> str:
    """A refusal has its own section below, with the whole reason."""
    return phrase.short(stage.detail) if stage.status is StageStatus.REFUSED else stage.detail


def _stage_word(stage: Stage) -> str:
    calm = stage.status in (StageStatus.OK, StageStatus.SKIPPED)
    return stage.status.value if calm else stage.status.value.upper()


def _files(report: Report, _look: Look) -> Iterator[RenderableType]:
    """Each folder in a line, the names of its files below it."""
    folders: dict[str, list[str]] = {}
    for path in report.rendered:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    if folders:
        yield blank()
        yield heading("rendered", phrase.count(len(report.rendered), "file"))
    for folder, names in folders.items():
        yield verbatim(f"{folder}/", indent=INDENT)
        yield from items([say(", ".join(names), QUIET)], indent=INDENT + 2)


_SECTIONS: tuple[_Section, ...] = (_found, _acs, _gate, _memory, _files)
_OF_STAGE = {
    "audit": _found,
    "acs-plan": _acs,
    "acs-apply": _acs,
    "acs-verify": _acs,
    "gate": _gate,
    "gate-groups": _gate,
    "memory": _memory,
}


def _next_step(report: Report, line: VerdictLine) -> str:
    """What the reader does with this verdict."""
    if report.verdict is NodeVerdict.READY:
        if report.simulated:
            return "A rehearsal: it says nothing of real hardware and makes no node ready."
        return "Next: register the node in the load balancer."
    if report.dry_run:
        return "A dry run changes nothing: run nodeprep bringup without --dry-run next."
    first = f"Next: {line.step.rstrip('.')}. Then" if line.step else "Next:"
    return f"{first} run nodeprep bringup again; until then keep the node out of the load balancer."
