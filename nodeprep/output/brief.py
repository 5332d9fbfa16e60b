"""A document as lines for a journal or a pipe: one fact a line, plain text, the verdict first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nodeprep.model.acs import AcsWrite, AppliedWrite, Refusal
from nodeprep.model.base import Record
from nodeprep.model.finding import Finding, Severity, Unknown
from nodeprep.model.gate import GateResult
from nodeprep.model.memory import MemoryPlan
from nodeprep.model.report import (
    AcsReport,
    AcsSection,
    AuditReport,
    ErrorReport,
    ExplainReport,
    LintReport,
    MachinesReport,
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
from nodeprep.units import gib


def brief(document: Record) -> str:
    """The lines of a document, each made safe.  TypeError: a document of no known type."""
    for kind in type(document).__mro__:
        if kind in _LINES:
            return "".join(f"{safe(line, 4000)}\n" for line in _LINES[kind](document))
    raise TypeError(f"no brief form of {type(document).__name__}")


def _audit(report: AuditReport) -> Iterator[str]:
    facts = report.facts
    name = facts.machine or "this node"
    labels = _labels(words.origin_labels(facts))
    yield f"audit{labels} {name}: {words.audit_verdict(report.findings, report.unknown)}"
    yield from _findings(report.findings)
    yield from _unknown(report.unknown)
    yield from _first(words.first_step(report.findings, report.unknown))


def _bringup(report: Report) -> Iterator[str]:
    name = report.machine or "this node"
    labels = words.run_labels(simulated=report.simulated, dry_run=report.dry_run)
    status = f"exit status {report.exit_status} {words.exit_name(report.exit_status)}"
    yield f"{words.verdict_word(report.verdict)}{_labels(labels)} {name}: {status}"
    yield from (f"reason: {reason}" for reason in report.reasons)
    yield from (_stage(stage) for stage in report.stages)
    yield from _findings(report.findings)
    yield from _unknown(report.unknown)
    yield from _acs_section(report.acs)
    if report.gate:
        yield from _gate(report.gate)
    if report.memory:
        yield from _memory(report.memory)
    yield from (f"rendered {path}" for path in report.rendered)
    yield from _first(words.run_first_step(report))


def _acs(report: AcsReport) -> Iterator[str]:
    detail = f": {report.detail}" if report.detail else ""
    labels = _labels(words.run_labels(simulated=report.simulated))
    yield f"acs {words.acs_outcome(report)}{labels}{detail}"
    if report.plan.forced_reason is not None:
        yield f"acs forced: {report.plan.forced_reason}"
    yield from (f"acs WARNING {warning}" for warning in report.plan.warnings)
    yield from _acs_lines(report.actions, report.applied)
    yield from _findings(report.findings)
    if report.kernel_parameter:
        yield f"acs kernel parameter: {report.kernel_parameter}"
        yield from (f"acs NOTE {note}" for note in report.plan.notes)


def _persist(report: PersistReport) -> Iterator[str]:
    yield f"acs persist {report.action} {report.method}: {report.state}: {report.detail}"
    yield from (f"{'changed' if one.changed else 'same'} {one.path}" for one in report.files)
    if report.kernel_parameter:
        yield f"acs kernel parameter: {report.kernel_parameter}"
    for port in report.ports:
        holds = "as wanted" if port.ok else f"not {port.expected or 'what it should be'}"
        yield f"acs {port.bdf} reads {port.found or 'nothing'}: {holds}"
    yield from (f"acs NOTE {note}" for note in report.notes)
    yield from (f"do next: {step}" for step in report.next_steps)


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
        yield f"{machine.name}{label}: {'; '.join(machine.notes)}"


def _error(report: ErrorReport) -> Iterator[str]:
    hint = f" (do: {report.hint})" if report.hint else ""
    yield f"ERROR {report.error}{hint}"


def _gate(gate: GateResult) -> Iterator[str]:
    figures = words.gate_line(gate)
    label = _labels(words.run_labels(simulated=gate.simulated))
    yield f"gate {gate.verdict.value}{label}: {figures}{'; ' if figures else ''}{gate.reason}"
    if gate.threshold_gbps is not None:
        yield f"gate threshold from: {gate.threshold_source}"
    yield from (f"gate WARNING {text}" for text in gate.warnings)


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
        yield f"{state}{severity} {one.id} {one.subject}: {one.summary}"


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
    GateResult: _gate,
    MemoryPlan: _memory,
    RenderReport: _render,
    LintReport: _lint,
    MachinesReport: _machines,
    SnapshotReport: _snapshot,
    SweepReport: _sweep,
    ErrorReport: _error,
}
"""Adding a document is adding a function and a row."""
