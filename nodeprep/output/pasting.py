"""Commands as they are to be pasted: on a replayed machine they name it."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from nodeprep.model.base import Record
from nodeprep.model.finding import Finding
from nodeprep.model.gate import GateResult
from nodeprep.model.report import AcsReport, AuditReport, ExplainReport, Report
from nodeprep.output.words import on_machine

T = TypeVar("T", bound=Record)


def pastable(document: T) -> T:
    """The document for a person: commands of its remedies carry `--machine NAME`.

    The document itself, which programs read as JSON, says what holds on the node.
    """
    machine = _machine(document)
    if machine is None or not isinstance(document, (AcsReport, AuditReport, ExplainReport, Report)):
        return document
    changed = {"findings": _named(document.findings, machine)}
    if isinstance(document, Report) and document.gate is not None:
        return replace(document, **changed, gate=_gate(document.gate, machine))
    return replace(document, **changed)


def _machine(document: Record) -> str | None:
    if isinstance(document, AuditReport):
        return document.facts.machine
    if isinstance(document, (AcsReport, ExplainReport, Report)):
        return document.machine
    return None


def _gate(gate: GateResult, machine: str) -> GateResult:
    return replace(gate, findings=_named(gate.findings, machine))


def _named(findings: tuple[Finding, ...], machine: str) -> tuple[Finding, ...]:
    return tuple(
        one
        if one.remedy is None
        else replace(
            one,
            remedy=replace(
                one.remedy,
                commands=tuple(on_machine(line, machine) for line in one.remedy.commands),
            ),
        )
        for one in findings
    )
