"""A document as lines for a journal or a pipe: one fact a line, plain text, the verdict first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nodeprep.model.acs import AcsWrite, AppliedWrite, PortCheck, Refusal
from nodeprep.model.base import Record
from nodeprep.model.finding import Finding, Severity, Unknown
from nodeprep.model.gate import GateResult
from nodeprep.model.memory import MemoryPlan
from nodeprep.model.report import (
    AcsReport,
    AcsSection,
    AuditReport,
    ErrorReport,
    ExplainFindingReport,
    ExplainReport,
    LintReport,
    MachinesReport,
    NodeVerdict,
    PersistReport,
    RenderReport,
    Report,
    SnapshotReport,
    Stage,
    SweepReport,
    WatchReport,
)
from nodeprep.output import words
from nodeprep.output.escape import safe
from nodeprep.output.pasting import pastable
from nodeprep.output.verdict import VerdictLine, audit_line, run_line
from nodeprep.units import gib


def brief(document: Record) -> str:
    """The lines of a document, each made safe.  TypeError: a document of no known type."""
    for kind in type(document).__mro__:
        if kind in _LINES:
            lines = _LINES[kind](pastable(document))
            return "".join(f"{safe(line, 4000)}\n" for line in lines)
    raise TypeError(f"no brief form of {type(document).__name__}")


def _audit(report: AuditReport) -> Iterator[str]:
    facts = report.facts
    line = audit_line(report)
    labels = _labels(words.origin_labels(facts))
    tally = words.tally(report.findings, report.unknown)
    yield (
        f"audit {line.word}{labels} {facts.machine or 'this node'}: {line.reason}"
        f"{_command(line)}{f' ({tally})' if tally else ''}"
    )
    yield from _findings(report.findings)
    yield from _unknown(report.unknown)
    yield from _first((line.step, line.command))


def _bringup(report: Report) -> Iterator[str]:
    line = run_line(report)
    labels = _labels(words.run_labels(simulated=report.simulated, dry_run=report.dry_run))
    status = f"exit status {report.exit_status} {words.exit_name(report.exit_status)}"
    aside = "" if report.verdict is NodeVerdict.READY else f" ({status})"
    yield (
        f"{line.word}{labels} {report.machine or 'this node'}: {line.reason}{_command(line)}{aside}"
    )
    yield from (f"reason: {reason}" for reason in report.reasons)
    yield from (_stage(stage) for stage in report.stages)
    yield from _findings(report.findings)
    yield from _unknown(report.unknown)
    yield from _acs_section(report.acs)
    for one in report.measured:
        yield from _gate(one)
    if report.memory:
        yield from _memory(report.memory)
    yield from (f"rendered {path}" for path in report.rendered)
    yield from _first((line.step, line.command))


def _acs(report: AcsReport) -> Iterator[str]:
    detail = f": {report.detail}" if report.detail else ""
    labels = _labels(words.run_labels(simulated=report.simulated))
    yield f"acs {words.acs_outcome(report)}{labels}{detail}"
    if report.plan.forced_reason is not None:
        yield f"acs forced: {report.plan.forced_reason}"
    yield from (f"acs WARNING {warning}" for warning in report.plan.warnings)
    yield from (f"acs {_port(port)}" for port in report.ports if not port.ok)
    yield from _acs_lines(report.actions, report.applied)
    yield from _findings(report.findings)
    yield from _first(words.acs_step(report))
    if report.kernel_parameter:
        yield f"acs kernel parameter: {report.kernel_parameter}"
        yield from (f"acs NOTE {note}" for note in report.plan.notes)


def _persist(report: PersistReport) -> Iterator[str]:
    yield f"acs persist {report.action} {report.method}: {report.state}: {report.detail}"
    yield from (f"{'changed' if one.changed else 'same'} {one.path}" for one in report.files)
    if report.kernel_parameter:
        yield f"acs kernel parameter: {report.kernel_parameter}"
    for port in report.ports:
        yield f"acs {_port(port)}"
    yield from (f"acs NOTE {note}" for note in report.notes)
    yield from (f"do next: {step}" for step in report.next_steps)


def _port(port: PortCheck) -> str:
    holds = "as wanted" if port.ok else f"not {port.expected or 'what it should be'}"
    return f"{port.bdf} reads {port.found or 'nothing'}: {holds}"


def _watch(report: WatchReport) -> Iterator[str]:
    state = "GPU LOST" if report.lost else "ok" if report.paths_free else "GPU paths redirect"
    labels = _labels(words.run_labels(simulated=report.simulated))
    gpus = words.count(report.gpus, "GPU")
    yield f"watch {state}{labels}: {gpus}; {report.acs} ({report.why})"
    yield from (f"lost {one}" for one in report.lost)
    yield from (f"did: {one}" for one in report.actions)
    yield from _findings(report.findings)


def _explain(report: ExplainReport) -> Iterator[str]:
    a, b = report.pair
    p2p = " ".join(f"{name} {status}" for name, status in report.p2p.items()) or "unknown"
    yield f"{a}-{b}: {report.level.tree} by tree, {report.level.driver} by driver, P2P {p2p}"
    yield f"NCCL will use: {report.nccl_path}"
    for hop in report.hops:
        redirects = f" redirects: {' '.join(hop.redirects)}" if hop.redirects else ""
        acs = f": ACS {hop.acs or 'unknown'}{redirects}" if hop.bdf else ""
        yield f"hop {hop.side} {hop.bdf or '-'} {hop.what}{acs}"
    yield from (f"would change it: {text}" for text in report.would_change)
    yield from (f"would not change it: {text}" for text in report.would_not_change)
    yield from _findings(report.findings)


def _render(report: RenderReport) -> Iterator[str]:
    changed = sum(one.changed for one in report.files)
    labels = _labels(words.run_labels(simulated=report.simulated))
    yield f"render{labels}: {words.count(len(report.files), 'file')}, {changed} changed"
    yield from (f"{'changed' if one.changed else 'same'} {one.path}" for one in report.files)
    yield from (
        f"group {number}: GPUs {words.ranges(group)}"
        for number, group in enumerate(report.groups)
        if len(report.groups) > 1
    )
    yield from (f"WARNING {text}" for text in report.warnings)
    yield from report.diff.splitlines()


def _lint(report: LintReport) -> Iterator[str]:
    tally = words.audit_verdict(report.findings, report.unknown)
    yield f"lint {words.count(len(report.files), 'file')}, vLLM {report.vllm_version}: {tally}"
    yield from _findings(report.findings)
    yield from _unknown(report.unknown)
    yield from _first(words.first_step(report.findings, report.unknown))


def _machines(report: MachinesReport) -> Iterator[str]:
    for machine in report.machines:
        label = " [CONSTRUCTED]" if machine.constructed else ""
        ends = "" if machine.exit_status is None else f", exit {machine.exit_status}"
        yield f"{machine.name}{label}: {machine.gpus or 'GPUs not known'}{ends}: {machine.summary}"
        yield from (f"{machine.name} note: {note}" for note in machine.notes)


def _finding_page(report: ExplainFindingReport) -> Iterator[str]:
    yield from report.text.rstrip("\n").split("\n")


def _error(report: ErrorReport) -> Iterator[str]:
    hint = f" (do: {report.hint})" if report.hint else ""
    yield f"ERROR {report.error}{hint}"


def _gate(gate: GateResult) -> Iterator[str]:
    figures = words.gate_line(gate)
    label = _labels(words.run_labels(simulated=gate.simulated))
    yield f"gate {gate.verdict.value}{label}: {figures}{'; ' if figures else ''}{gate.reason}"
    if gate.threshold_gbps is not None:
        yield f"gate threshold from: {gate.threshold_source}"
    if gate.veto:
        yield f"gate VETO P2P: {gate.veto}"
    for run in (*gate.runs[1:], *gate.arms[1:], *gate.pair_runs):
        figure = "" if run.measured_gbps is None else f" {words.gbps(run.measured_gbps)}"
        yield f"gate run {run.name}: {run.verdict.value}{figure}"
    if gate.drift is not None:
        yield f"gate drift: {words.drift(gate.drift)}"
    yield from (f"gate WARNING {text}" for text in gate.warnings)


def _gate_alone(gate: GateResult) -> Iterator[str]:
    yield from _gate(gate)
    yield from _findings(gate.findings)


def _memory(plan: MemoryPlan) -> Iterator[str]:
    verdict = "fits" if plan.fits else "DOES NOT FIT"
    yield (
        f"plan {verdict}: {plan.model} on {plan.gpu}, tensor parallel {plan.tensor_parallel}, "
        f"vLLM {plan.vllm_version} {plan.engine}"
    )
    if plan.limit:
        yield f"plan limit: {plan.limit}"
    yield (
        f"plan KV cache: {plan.kv_cache_tokens:,} tokens in {plan.num_blocks:,} blocks, "
        f"{plan.max_concurrency:.2f} requests of {plan.max_model_len:,} tokens at once"
    )
    for name, rank in words.like_ranks(plan.ranks):
        yield (
            f"plan {name}: {gib(rank.total_bytes):.2f} GiB total, "
            f"{gib(rank.requested_bytes):.2f} asked, {gib(rank.weights_bytes):.2f} weights, "
            f"{gib(rank.non_kv_bytes):.2f} all but KV, {gib(rank.kv_cache_bytes):.2f} KV cache"
        )
    yield from (f"plan WARNING {text}" for text in plan.warnings)
    yield from (
        f"plan advice {one.option} {one.value}{_freed(one.frees_bytes)}: {one.reason}"
        for one in plan.advice
    )
    yield from (
        f"plan step {one.term} = {words.step_value(one)}: {one.formula}: {one.numbers} "
        f"[{'fitted; ' if one.fitted else ''}{one.source}]"
        for one in plan.steps
    )


def _freed(size_bytes: int | None) -> str:
    return "" if size_bytes is None else f" ({gib(size_bytes):+.2f} GiB KV)"


def _sweep(report: SweepReport) -> Iterator[str]:
    fitting = sum(row.fits for row in report.rows)
    yield f"sweep {fitting} of {len(report.rows)} fit: {report.model} on {report.gpu}"
    for row in report.rows:
        chosen = " ".join(f"{name}={value}" for name, value in row.settings.items())
        if row.kv_cache_bytes is None or not row.fits:
            yield f"sweep {chosen}: NO: {row.limit}"
        else:
            yield (
                f"sweep {chosen}: {gib(row.kv_cache_bytes):.2f} GiB KV, "
                f"{row.kv_cache_tokens or 0:,} tokens, {row.max_concurrency or 0:.2f} at once"
            )


def _stage(stage: Stage) -> str:
    detail = f": {stage.detail}" if stage.detail else ""
    return f"stage {stage.name} {stage.status.value} {words.seconds(stage.duration_s)}{detail}"


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    for one in findings:
        state = "repaired " if one.resolved else "waived " if one.waived else ""
        word = one.severity.value
        severity = word if one.severity is Severity.INFO else word.upper()
        yield f"{state}{severity} {one.id} {words.subject(one)}: {one.summary}"


def _unknown(unknown: Iterable[Unknown]) -> Iterator[str]:
    for one in unknown:
        hint = f" (do: {one.hint})" if one.hint else ""
        yield f"UNKNOWN {one.subject}: {one.reason}{hint}"


def _acs_section(acs: AcsSection) -> Iterator[str]:
    yield f"acs {words.acs_outcome(acs)}"
    yield from _acs_lines(acs.actions, acs.applied)


def _acs_lines(
    actions: Iterable[AcsWrite | Refusal], applied: Iterable[AppliedWrite]
) -> Iterator[str]:
    done = {one.write.bdf: one for one in applied}
    for action in actions:
        if isinstance(action, Refusal):
            hint = f" (do: {action.hint})" if action.hint else ""
            yield f"acs REFUSED {action.subject}: {action.reason}{hint}"
        else:
            yield _acs_write(action, done.pop(action.bdf, None))
    yield from (_acs_write(one.write, one) for one in done.values())


def _acs_write(write: AcsWrite, applied: AppliedWrite | None) -> str:
    bits = " ".join(words.changed_bits(write.before, write.after))
    groups = words.ranges(write.weakens_groups)
    costs = f", weakens IOMMU groups {groups}" if groups else ""
    outcome = f": {words.write_outcome(applied)}" if applied else ""
    return f"acs {write.bdf} {write.before} -> {write.after} {bits}{costs}{outcome}"


def _command(line: VerdictLine) -> str:
    return f" -> {line.command}" if line.command else ""


def _first(step: tuple[str, str]) -> Iterator[str]:
    text, command = step
    if text or command:
        yield f"do first: {text}" + (f" [{command}]" if command else "")


def _labels(labels: Iterable[str]) -> str:
    return "".join(f" [{label.upper()}]" for label in labels)


def _snapshot(report: SnapshotReport) -> Iterator[str]:
    kind = "redacted" if report.redacted else "NOT redacted"
    yield f"snapshot {report.path}: {report.size_bytes} bytes, {report.answers} answers, {kind}"
    yield from (f"missing {why}" for why in report.missing)


_LINES: dict[type, Callable[[Any], Iterator[str]]] = {
    AuditReport: _audit,
    Report: _bringup,
    AcsReport: _acs,
    PersistReport: _persist,
    WatchReport: _watch,
    ExplainReport: _explain,
    ExplainFindingReport: _finding_page,
    GateResult: _gate_alone,
    MemoryPlan: _memory,
    RenderReport: _render,
    LintReport: _lint,
    MachinesReport: _machines,
    SnapshotReport: _snapshot,
    SweepReport: _sweep,
    ErrorReport: _error,
}
"""Adding a document is adding a function and a row."""
