"""The boot run: the stages in order, one Report, one exit status.  It fails closed."""

from __future__ import annotations

import time
from contextlib import nullcontext
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from nodeprep.acs.again import saved_in_this_boot
from nodeprep.acs.apply import apply
from nodeprep.acs.outcome import Unfinished
from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan as plan_acs
from nodeprep.acs.verify import verify
from nodeprep.audit.run import audit, unknowns, worst
from nodeprep.errors import Exit, NeedsRoot, NodeprepError
from nodeprep.facts.collect import collect_with_gpus, reread
from nodeprep.facts.resources import disk_room
from nodeprep.gate.history import remember
from nodeprep.gate.outcome import exit_status
from nodeprep.gate.run import GateRequest, run_gate
from nodeprep.host.base import Host
from nodeprep.memory.request import request_for
from nodeprep.memory.versions import parse_version
from nodeprep.model.acs import AcsPlan
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.finding import Finding, Severity
from nodeprep.model.gate import GateResult
from nodeprep.model.memory import MemoryPlan
from nodeprep.model.report import AcsSection, NodeVerdict, Report, StageStatus
from nodeprep.model.serving import Knob, RenderedFile
from nodeprep.model.topology import ranges
from nodeprep.settings import Settings
from nodeprep.shapes import shape_of
from nodeprep.stages import Progress, StageLog
from nodeprep.stamp import now_utc, stamp
from nodeprep.state import StateStore
from nodeprep.units import count

_OF_A_VETO = {Exit.GATE_FAILED, Exit.FINDINGS}
"""What a node asks for whose peer-to-peer is vetoed: its files say so, and it is not ready."""


class BringupOptions(Record, frozen=True):
    """What the command line says of this run."""

    out_dir: Path
    today: date
    fail_on: Severity | None = Severity.CRITICAL
    """None: never."""
    dry_run: bool = False
    binary: str | None = None
    min_busbw_gbps: float | None = None
    image: str | None = None
    two_arms: bool | None = None
    """None: where peer-to-peer is expected."""
    program: str = "/usr/bin/nodeprep"
    """The nodeprep that the rendered unit of the boot run starts."""
    config: Path | None = None
    """The configuration file that it is given."""
    allow_simulated: bool = False
    """On a live node a simulated measurement counts only when this is set."""


def bring_up(
    host: Host,
    settings: Settings,
    store: StateStore,
    options: BringupOptions,
    progress: Progress = lambda _: nullcontext(),
) -> Report:
    """Runs every stage that still makes sense and reports.

    Raises NeedsRoot (live, not root), UsageError (a model or release nobody knows, groups that
    cannot be made), NotFound (no accelerator: nothing to bring up), StateError.  Nothing was
    changed then, but that a live node is not ready.
    """
    if host.origin is Origin.LIVE and not host.is_root and not options.dry_run:
        raise NeedsRoot("bringup changes registers and writes files", hint="run it with sudo")
    if host.origin is Origin.LIVE and not options.dry_run:
        store.remove_ready()
    _check_policy(settings)
    return _Run(host, settings, store, options, progress).report()


def _check_policy(settings: Settings) -> None:
    """A wrong model or release is told before anything is changed, not after."""
    if settings.serving.model is not None:
        shape_of(settings.serving.model)
    if settings.serving.vllm_version is not None:
        parse_version(settings.serving.vllm_version)


class _Run:
    """One boot run; every stage leaves its mark, and the reasons against being ready."""

    def __init__(
        self,
        host: Host,
        settings: Settings,
        store: StateStore,
        options: BringupOptions,
        progress: Progress,
    ) -> None:
        self._host = host
        self._settings = settings
        self._store = store
        self._options = options
        self._log = StageLog(progress)

    def report(self) -> Report:
        facts = self._collect()
        _check_serving(facts, self._settings)
        none: tuple[Finding, ...] = ()
        before = self._log.stage("audit", lambda: self._audit(facts), none, _findings_told)
        facts, acs = self._free_paths(facts)
        findings = before if not acs.applied else self._audit_again(before, facts)
        gate = self._measure(facts)
        parts = self._measure_groups(facts)
        measured = (*((gate,) if gate is not None else ()), *parts)
        found_by_gate = tuple(finding for one in measured for finding in one.findings)
        self._judge_findings((*findings, *found_by_gate))
        memory = self._plan_memory(facts)
        knobs, files = self._render(facts, measured, memory)
        status = self._log.exit_status
        spoken_against = self._log.statuses or self._log.reasons or self._options.dry_run
        ready = status is Exit.OK and not spoken_against
        return Report(
            **stamp("report", facts.boot_id),
            verdict=NodeVerdict.READY if ready else NodeVerdict.NOT_READY,
            exit_status=int(status),
            machine=facts.machine,
            dry_run=self._options.dry_run,
            simulated=self._host.simulates or any(one.simulated for one in measured),
            stages=tuple(self._log.stages),
            findings=(*findings, *found_by_gate),
            unknown=unknowns(facts),
            acs=acs,
            gate=gate,
            gate_groups=parts,
            memory=memory,
            knobs=knobs,
            rendered=tuple(file.path for file in files),
            reasons=tuple(self._log.reasons)
            + (("a dry run changes and measures nothing",) if self._options.dry_run else ()),
        )

    def _collect(self) -> NodeFacts:
        started = time.monotonic()
        with self._log.progress("collect"):
            facts = collect_with_gpus(self._host, self._settings.accelerators)
        detail = f"{count(len(facts.functions), 'PCI function')}, {count(len(facts.gpus), 'GPU')}"
        self._log.mark("collect", StageStatus.OK, started, detail)
        return facts

    def _audit(self, facts: NodeFacts) -> tuple[Finding, ...]:
        known = replace(facts, acs_saved=saved_in_this_boot(facts, self._store))
        return audit(known, self._settings, self._options.today)

    def _audit_again(self, before: tuple[Finding, ...], facts: NodeFacts) -> tuple[Finding, ...]:
        """Findings after the repair: what is gone is shown as resolved."""
        after = self._audit(facts)
        left = {(finding.id, finding.subject) for finding in after}
        resolved = tuple(
            replace(finding, resolved=True)
            for finding in before
            if finding.severity is not Severity.INFO and (finding.id, finding.subject) not in left
        )
        return resolved + after

    def _free_paths(self, facts: NodeFacts) -> tuple[NodeFacts, AcsSection]:
        plan = self._log.stage("acs-plan", lambda: self._plan_acs(facts), AcsPlan(), _writes_told)
        section = AcsSection(
            actions=plan.actions,
            kernel_parameter=plan.kernel_parameter,
            warnings=plan.warnings,
        )
        if plan.refusals:
            self._log.fail("acs-plan", Exit.REFUSED, plan.refusals[0].reason, StageStatus.REFUSED)
            return facts, section
        if not plan.writes:
            self._log.skip("acs-apply", "nothing to write")
            return facts, section
        if self._options.dry_run:
            self._log.skip("acs-apply", f"dry run: {count(len(plan.writes), 'write')} planned")
            return facts, section
        return self._apply(facts, plan, section)

    def _apply(
        self, facts: NodeFacts, plan: AcsPlan, section: AcsSection
    ) -> tuple[NodeFacts, AcsSection]:
        started = time.monotonic()
        try:
            with self._log.progress("acs-apply"):
                applied = apply(self._host, facts, plan, self._store)
        except NodeprepError as error:
            self._log.mark("acs-apply", StageStatus.FAILED, started, error.message)
            self._log.fail("acs-apply", error.status, error.message)
            done = error.applied if isinstance(error, Unfinished) else ()
            return facts, replace(section, applied=done, verified=False)
        self._log.mark(
            "acs-apply", StageStatus.OK, started, f"{count(len(applied), 'port')} written"
        )
        started = time.monotonic()
        after = reread(self._host, facts)
        checked = verify(after, plan)
        if checked.verified:
            self._log.mark("acs-verify", StageStatus.OK, started, "every word as planned")
        else:
            self._log.mark("acs-verify", StageStatus.FAILED, started, "words differ from the plan")
            self._log.fail(
                "acs-verify", Exit.UNVERIFIED, "ACS words read back differ from the plan"
            )
        return after, replace(section, applied=applied, verified=checked.verified)

    def _plan_acs(self, facts: NodeFacts) -> AcsPlan:
        policy = self._settings.acs
        size = self._settings.serving.tensor_parallel
        return plan_acs(
            facts,
            pairs=parse_pairs(policy.pairs, group_size=size),
            allow_in_guest=policy.allow_in_guest,
        )

    def _measure(self, facts: NodeFacts) -> GateResult | None:
        if self._options.dry_run:
            self._log.skip("gate", "dry run")
            return None
        if self._log.statuses:
            self._log.skip("gate", "an earlier stage failed")
            return None
        every = tuple(gpu.index for gpu in facts.gpus)
        gate = self._log.stage("gate", lambda: self._run_gate(facts, every), None, _gate_told)
        if gate is not None and (status := exit_status(gate.verdict)) is not Exit.OK:
            self._log.fail("gate", status, f"{gate.verdict.value}: {gate.reason}")
        return gate

    def _measure_groups(self, facts: NodeFacts) -> tuple[GateResult, ...]:
        """Every server's own GPUs: what all GPUs reach together says little of a group's ways."""
        policy, every = self._settings.serving, len(facts.gpus)
        one_group_of_all = policy.groups < 2 and (policy.tensor_parallel or every) == every
        if one_group_of_all or self._options.dry_run or self._log.statuses:
            return ()
        if self._host.simulates:
            self._log.skip("gate-groups", "the recording holds no run of a single group")
            return ()
        none: tuple[GateResult, ...] = ()
        found = self._log.stage("gate-groups", lambda: self._run_groups(facts), none, _groups_told)
        for one in found:
            if (status := exit_status(one.verdict)) is not Exit.OK:
                reason = f"{ranges(one.gpus, 'GPU')}: {one.verdict.value}: {one.reason}"
                self._log.fail("gate-groups", status, reason)
        return found

    def _run_groups(self, facts: NodeFacts) -> tuple[GateResult, ...]:
        groups = _groups(facts, self._settings)
        return tuple(self._run_gate(facts, group) for group in groups)

    def _run_gate(self, facts: NodeFacts, group: tuple[int, ...]) -> GateResult:
        policy, options = self._settings.gate, self._options
        request = GateRequest(
            binary=options.binary,
            image=options.image,
            min_busbw_gbps=options.min_busbw_gbps,
            allow_simulated=self._host.simulates or options.allow_simulated,
            two_arms=options.two_arms,
            at_boot=True,
            diagnose=policy.diagnose,
            expected_count=self._settings.accelerators.expected_count,
        )
        result = run_gate(self._host, facts, group, policy, request, self._log.note)
        if self._host.simulates:
            return result
        return remember(self._store, facts, result, policy, now_utc())

    def _plan_memory(self, facts: NodeFacts) -> MemoryPlan | None:
        if self._settings.serving.model is None:
            self._log.skip("memory", "no model configured (serving.model)")
            return None
        memory = self._log.stage(
            "memory", lambda: _memory(facts, self._settings), None, _memory_told
        )
        if memory is not None and not memory.fits:
            self._log.fail("memory", Exit.FINDINGS, f"the model does not fit: {memory.limit}")
        return memory

    def _render(
        self, facts: NodeFacts, measured: tuple[GateResult, ...], memory: MemoryPlan | None
    ) -> tuple[tuple[Knob, ...], tuple[RenderedFile, ...]]:
        nothing: tuple[tuple[Knob, ...], tuple[RenderedFile, ...]] = ((), ())
        vetoed = any(one.veto is not None for one in measured) and self._log.statuses <= _OF_A_VETO
        if memory is None or self._options.dry_run or (self._log.statuses and not vetoed):
            why = "no memory plan" if memory is None else "the node has not passed"
            self._log.skip("render", "dry run" if self._options.dry_run else why)
            return nothing
        return self._log.stage(
            "render", lambda: self._write_files(facts, measured, memory), nothing, _files_told
        )

    def _write_files(
        self, facts: NodeFacts, measured: tuple[GateResult, ...], memory: MemoryPlan
    ) -> tuple[tuple[Knob, ...], tuple[RenderedFile, ...]]:
        from nodeprep.serving.files import write
        from nodeprep.serving.render import render_all, units_dir
        from nodeprep.serving.tune import tune_groups

        policy = self._settings.serving
        assert policy.model is not None
        configs = tune_groups(
            facts,
            measured,
            memory,
            policy,
            shape_of(policy.model),
            disk_free_bytes=disk_room(self._host, policy.cache_dir),
        )
        out = self._options.out_dir
        text = render_all(
            configs,
            install_dir=units_dir(out),
            program=self._options.program,
            config_file=self._options.config,
        )
        return configs[0].options + configs[0].env, write(text, out)

    def _judge_findings(self, findings: tuple[Finding, ...]) -> None:
        limit, found = self._options.fail_on, worst(findings)
        if limit is not None and found is not None and found.rank <= limit.rank:
            first = next(one for one in findings if one.counts and one.severity is found)
            reason = f"{found.value} finding {first.id}: {first.summary}"
            self._log.against(Exit.FINDINGS, reason)


def _check_serving(facts: NodeFacts, settings: Settings) -> None:
    """Groups that cannot be made, and a model that cannot be split so, are told before anything is
    changed.  Raises UsageError."""
    _groups(facts, settings)
    if settings.serving.model is not None:
        _memory(facts, settings)


def _groups(facts: NodeFacts, settings: Settings) -> tuple[tuple[int, ...], ...]:
    """The GPU indices of every server.  Raises UsageError."""
    from nodeprep.serving.placement import choose_groups

    policy = settings.serving
    size = request_for(facts, policy).tensor_parallel
    groups = choose_groups(facts, size, max(policy.groups, 1))
    return tuple(tuple(gpu.index for gpu in group) for group in groups)


def _memory(facts: NodeFacts, settings: Settings) -> MemoryPlan:
    from nodeprep.memory.plan import plan

    model = settings.serving.model
    assert model is not None
    return plan(shape_of(model), request_for(facts, settings.serving))


def _findings_told(found: tuple[Finding, ...]) -> str:
    return count(sum(one.id != "healthy" for one in found), "finding")


def _writes_told(plan: AcsPlan) -> str:
    return f"{'; '.join((count(len(plan.writes), 'port'), *plan.warnings))} to write"


def _gate_told(gate: GateResult | None) -> str:
    if gate is None:
        return ""
    return f"{gate.verdict.value}: {gate.reason}{' (simulated)' if gate.simulated else ''}"


def _groups_told(found: tuple[GateResult, ...]) -> str:
    return "; ".join(f"{ranges(one.gpus, 'GPU')} {_gate_told(one)}" for one in found)


def _memory_told(plan: MemoryPlan | None) -> str:
    if plan is None:
        return ""
    return f"{plan.kv_cache_tokens:,} KV tokens at TP {plan.tensor_parallel}"


def _files_told(made: tuple[tuple[Knob, ...], tuple[RenderedFile, ...]]) -> str:
    return count(len(made[1]), "file")
