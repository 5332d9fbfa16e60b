"""The line a reader looks for: what to do with the node, why, and what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nodeprep.errors import Exit
from nodeprep.model.acs import Refusal
from nodeprep.model.finding import Finding, Severity
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.model.report import AuditReport, NodeVerdict, Report, StageStatus
from nodeprep.output import words

_GATE_STEPS = {
    GateVerdict.NO_THRESHOLD: "say what this node must reach: nodeprep bringup --min-busbw GB/S, "
    "or gate.min_busbw_gbps in the configuration",
    GateVerdict.NO_BINARY: "install nccl-tests, or name its program with --binary PATH",
    GateVerdict.WRONG_DATA: "keep peer-to-peer off until a checked transfer passes",
    GateVerdict.FAIL_BANDWIDTH: "find the pair, port or link that is slow",
    GateVerdict.FAIL_TRANSPORT: "find the pair that takes another way than it should",
    GateVerdict.HUNG: "find the pair that hangs",
}
_PASSING = (GateVerdict.PASS, GateVerdict.NOT_APPLICABLE)
_DIAGNOSABLE = (
    GateVerdict.WRONG_DATA,
    GateVerdict.FAIL_BANDWIDTH,
    GateVerdict.FAIL_TRANSPORT,
    GateVerdict.HUNG,
)


class VerdictLine(NamedTuple):
    word: str
    reason: str
    step: str = ""
    """What to do first; empty: nothing, or nothing can be done."""
    command: str = ""
    """The command of that step, to be pasted."""


def audit_line(report: AuditReport) -> VerdictLine:
    """Of the worst open finding, then of the gaps; a note is no reason for anything."""
    worst = next(iter(_judged(report.findings)), None)
    if worst is not None:
        critical = worst.severity is Severity.CRITICAL
        word = "DO NOT REGISTER" if critical else "WARNING"
        return VerdictLine(word, words.short(worst.summary), *words.first_step(report.findings))
    if report.unknown:
        named = ", ".join(dict.fromkeys(one.subject for one in report.unknown))
        step = words.first_step((), report.unknown)
        return VerdictLine("INCOMPLETE", f"not everything could be read: {named}", *step)
    healthy = next((one for one in report.findings if one.id == "healthy"), None)
    read = healthy.summary.partition("in what was read: ")[2] if healthy else ""
    return VerdictLine("NOTHING WRONG", "in what was read" + (f": {read}" if read else ""))


def run_line(report: Report) -> VerdictLine:
    """Of a boot run: the figures of a ready node, the first cause of any other verdict."""
    word = words.verdict_word(report.verdict)
    if report.verdict is NodeVerdict.READY:
        return VerdictLine(word, ", ".join(_figures(report)))
    reason, step, command = next(_causes(report))
    if report.dry_run and step != _refusal_step(report):
        step, command = "run it without --dry-run", "sudo nodeprep bringup"
    return VerdictLine(word, reason, step, words.on_machine(command, report.machine))


def _figures(report: Report) -> Iterator[str]:
    gate = report.gate
    if gate is not None and gate.measured_gbps is not None:
        mark = "" if gate.threshold_gbps is None else f" of {gate.threshold_gbps:g}"
        yield f"{gate.measured_gbps:.1f}{mark} GB/s"
    elif gate is not None:
        yield f"gate {gate.verdict.value}"
    freed = sum(one.ok and not one.rolled_back for one in report.acs.applied)
    if freed:
        yield f"{words.count(freed, 'port')} freed"
    if report.memory is not None:
        yield f"{report.memory.kv_cache_tokens:,} KV tokens"
    if report.rendered:
        yield words.count(len(report.rendered), "file")


_Cause = tuple[str, str, str]
"""Reason, step, command."""


def _causes(report: Report) -> Iterator[_Cause]:
    """Refusal, ACS that did not take, gate, findings by severity, memory, anything else."""
    refusals = [one for one in report.acs.actions if isinstance(one, Refusal)]
    if refusals:
        yield words.short(refusals[0].reason), _refusal_step(report), "nodeprep acs plan"
    failed = [one for one in report.stages if one.status is StageStatus.FAILED]
    for stage in failed:
        if stage.name.startswith("acs"):
            yield stage.detail, "see what the ports hold", "nodeprep acs verify"
    gate = report.gate
    if gate is not None and gate.verdict not in _PASSING:
        yield f"{gate.verdict.value}: {gate.reason}", *_gate_step(gate)
    for finding in _judged(report.findings):
        if finding.severity is Severity.CRITICAL or report.exit_status == Exit.FINDINGS:
            yield words.short(finding.summary), *words.first_step([finding])
    if report.memory is not None and not report.memory.fits:
        advice = next(iter(report.memory.advice), None)
        step = f"set {advice.option} {advice.value}: {advice.reason}" if advice else ""
        yield f"the model does not fit: {report.memory.limit or 'see its plan'}", step, ""
    yield from ((stage.detail, "", "") for stage in failed)
    if report.dry_run:
        yield "a dry run changes and measures nothing", "", ""
    yield next(iter(report.reasons), words.exit_name(report.exit_status)), "", ""


def _refusal_step(report: Report) -> str:
    return words.refusal_hint(report.acs.actions)


def _gate_step(gate: GateResult) -> tuple[str, str]:
    """Of the gate's own findings, best first; else what its verdict asks for."""
    text, command = words.first_step(gate.findings)
    if text:
        return text, command
    again = "nodeprep gate --diagnose" if gate.verdict in _DIAGNOSABLE else ""
    return _GATE_STEPS.get(gate.verdict, ""), again


def _judged(findings: Iterable[Finding]) -> list[Finding]:
    """Open findings at warning and above, the worst first."""
    every = [one for one in findings if one.counts and one.severity is not Severity.INFO]
    return sorted(every, key=lambda one: one.severity.rank)
