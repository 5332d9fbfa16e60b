"""The boot run: the stages in order, one Report, one exit status.  It fails closed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

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
from nodeprep.gate.outcome import exit_status, p2p_verified
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
from nodeprep.model.report import AcsSection, NodeVerdict, Report, Stage, StageStatus
from nodeprep.model.serving import Knob, RenderedFile
from nodeprep.settings import Settings
from nodeprep.shapes import shape_of
from nodeprep.stamp import now_utc, stamp
from nodeprep.state import StateStore
from nodeprep.units import count

T = TypeVar("T")
Progress = Callable[[str], AbstractContextManager[object]]


@runtime_checkable
class Notes(Protocol):
    """A stage as it is shown, if it can say what it is at."""

    def note(self, text: str) -> None: ...


_PRECEDENCE = (
    Exit.REFUSED,
    Exit.UNVERIFIED,
    Exit.GATE_FAILED,
    Exit.FINDINGS,
    Exit.ERROR,
    Exit.USAGE,
    Exit.NEEDS_ROOT,
)
"""The exit status of a run is the first of these that any stage asked for."""


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

    Raises NeedsRoot (live, not root), UsageError (a model or release nobody knows), NotFound (no
    accelerator: nothing to bring up), StateError.  Nothing was changed then, but that a live node
    is not ready.
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
        self._progress = progress
        self._stages: list[Stage] = []
        self._statuses: set[Exit] = set()
        self._reasons: list[str] = []
        self._step: object = None

    def report(self) -> Report:
        facts = self._collect()
        none: tuple[Finding, ...] = ()
        before = self._stage("audit", lambda: self._audit(facts), "{}", none)
        facts, acs = self._free_paths(facts)
        findings = before if not acs.applied else self._audit_again(before, facts)
        gate = self._measure(facts)
        found_by_gate = gate.findings if gate is not None else ()
        self._judge_findings((*findings, *found_by_gate))
        memory = self._plan_memory(facts)
        knobs, files = self._render(facts, gate, memory)
        status = next((one for one in _PRECEDENCE if one in self._statuses), Exit.OK)
        ready = status is Exit.OK and not (self._statuses or self._reasons or self._options.dry_run)
        return Report(
            **stamp("report", facts.boot_id),
            verdict=NodeVerdict.READY if ready else NodeVerdict.NOT_READY,
            exit_status=int(status),
            machine=facts.machine,
            dry_run=self._options.dry_run,
            simulated=self._host.simulates or (gate is not None and gate.simulated),
            stages=tuple(self._stages),
            findings=(*findings, *found_by_gate),
            unknown=unknowns(facts),
            acs=acs,
            gate=gate,
            memory=memory,
            knobs=knobs,
            rendered=tuple(file.path for file in files),
            reasons=tuple(self._reasons)
            + (("a dry run changes and measures nothing",) if self._options.dry_run else ()),
        )

    def _collect(self) -> NodeFacts:
        started = time.monotonic()
        with self._progress("collect"):
            facts = collect_with_gpus(self._host, self._settings.accelerators)
        detail = f"{count(len(facts.functions), 'PCI function')}, {count(len(facts.gpus), 'GPU')}"
        self._mark("collect", StageStatus.OK, started, detail)
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
        plan = self._stage("acs-plan", lambda: self._plan_acs(facts), "{} to write", AcsPlan())
        section = AcsSection(
            actions=plan.actions,
            kernel_parameter=plan.kernel_parameter,
            warnings=plan.warnings,
        )
        if plan.refusals:
            self._fail("acs-plan", Exit.REFUSED, plan.refusals[0].reason, StageStatus.REFUSED)
            return facts, section
        if not plan.writes:
            self._skip("acs-apply", "nothing to write")
            return facts, section
        if self._options.dry_run:
            self._skip("acs-apply", f"dry run: {count(len(plan.writes), 'write')} planned")
            return facts, section
        return self._apply(facts, plan, section)

    def _apply(
        self, facts: NodeFacts, plan: AcsPlan, section: AcsSection
    ) -> tuple[NodeFacts, AcsSection]:
        started = time.monotonic()
        try:
            with self._progress("acs-apply"):
                applied = apply(self._host, facts, plan, self._store)
        except NodeprepError as error:
            self._mark("acs-apply", StageStatus.FAILED, started, error.message)
            self._fail("acs-apply", error.status, error.message)
            done = error.applied if isinstance(error, Unfinished) else ()
            return facts, replace(section, applied=done, verified=False)
        self._mark("acs-apply", StageStatus.OK, started, f"{count(len(applied), 'port')} written")
        started = time.monotonic()
        after = reread(self._host, facts)
        checked = verify(after, plan)
        if checked.verified:
            self._mark("acs-verify", StageStatus.OK, started, "every word as planned")
        else:
            self._mark("acs-verify", StageStatus.FAILED, started, "words differ from the plan")
            self._fail("acs-verify", Exit.UNVERIFIED, "ACS words read back differ from the plan")
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
            self._skip("gate", "dry run")
            return None
        if self._statuses:
            self._skip("gate", "an earlier stage failed")
            return None
        gate = self._stage("gate", lambda: self._run_gate(facts), "{}", None)
        if gate is not None and (status := exit_status(gate.verdict)) is not Exit.OK:
            self._fail("gate", status, f"{gate.verdict.value}: {gate.reason}")
        return gate

    def _run_gate(self, facts: NodeFacts) -> GateResult:
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
        group = tuple(gpu.index for gpu in facts.gpus)
        result = run_gate(self._host, facts, group, policy, request, self._note)
        if self._host.simulates:
            return result
        return remember(self._store, facts, result, policy, now_utc())

    def _plan_memory(self, facts: NodeFacts) -> MemoryPlan | None:
        if self._settings.serving.model is None:
            self._skip("memory", "no model configured (serving.model)")
            return None
        memory = self._stage("memory", lambda: _memory(facts, self._settings), "{}", None)
        if memory is not None and not memory.fits:
            self._fail("memory", Exit.FINDINGS, f"the model does not fit: {memory.limit}")
        return memory

    def _render(
        self, facts: NodeFacts, gate: GateResult | None, memory: MemoryPlan | None
    ) -> tuple[tuple[Knob, ...], tuple[RenderedFile, ...]]:
        nothing: tuple[tuple[Knob, ...], tuple[RenderedFile, ...]] = ((), ())
        vetoed = gate is not None and gate.veto is not None and self._statuses <= _OF_A_VETO
        if memory is None or self._options.dry_run or (self._statuses and not vetoed):
            why = "no memory plan" if memory is None else "the node has not passed"
            self._skip("render", "dry run" if self._options.dry_run else why)
            return nothing
        return self._stage("render", lambda: self._write_files(facts, gate, memory), "{}", nothing)

    def _write_files(
        self, facts: NodeFacts, gate: GateResult | None, memory: MemoryPlan
    ) -> tuple[tuple[Knob, ...], tuple[RenderedFile, ...]]:
        from nodeprep.serving.files import write
        from nodeprep.serving.render import render_all, units_dir
        from nodeprep.serving.tune import tune_groups

        policy = self._settings.serving
        assert policy.model is not None
        configs = tune_groups(
            facts,
            gate,
            memory,
            policy,
            shape_of(policy.model),
            p2p_verified=p2p_verified(gate),
            disk_free_bytes=disk_room(self._host, policy.cache_dir),
        )
        out = self._options.out_dir
        text = render_all(configs, install_dir=units_dir(out), program=self._options.program)
        return configs[0].options + configs[0].env, write(text, out)

    def _judge_findings(self, findings: tuple[Finding, ...]) -> None:
        limit, found = self._options.fail_on, worst(findings)
        if limit is not None and found is not None and found.rank <= limit.rank:
            first = next(one for one in findings if one.counts and one.severity is found)
            self._statuses.add(Exit.FINDINGS)
            self._reasons.append(f"{found.value} finding {first.id}: {first.summary}")

    def _stage(self, name: str, work: Callable[[], T], detail: str, otherwise: T) -> T:
        """Runs one stage; an error it raises ends the stage, not the run."""
        started = time.monotonic()
        try:
            with self._progress(name) as self._step:
                value = work()
        except NodeprepError as error:
            self._mark(name, StageStatus.FAILED, started, error.message)
            self._fail(name, error.status, error.message)
            return otherwise
        self._mark(name, StageStatus.OK, started, detail.format(_told(value)))
        return value

    def _note(self, text: str) -> None:
        """A few words on what the stage under way is at."""
        if isinstance(self._step, Notes):
            self._step.note(text)

    def _mark(self, name: str, status: StageStatus, started: float, detail: str = "") -> None:
        spent = round(time.monotonic() - started, 3)
        self._stages.append(Stage(name=name, status=status, duration_s=spent, detail=detail))

    def _skip(self, name: str, why: str) -> None:
        self._stages.append(
            Stage(name=name, status=StageStatus.SKIPPED, duration_s=0.0, detail=why)
        )

    def _fail(
        self, name: str, status: Exit, reason: str, mark: StageStatus = StageStatus.FAILED
    ) -> None:
        """Keeps a reason against being ready, and shows it at the stage."""
        self._statuses.add(status)
        self._reasons.append(f"{name}: {reason}")
        self._stages = [
            replace(stage, status=mark, detail=reason) if stage.name == name else stage
            for stage in self._stages
        ]


def _memory(facts: NodeFacts, settings: Settings) -> MemoryPlan:
    from nodeprep.memory.plan import plan

    model = settings.serving.model
    assert model is not None
    return plan(shape_of(model), request_for(facts, settings.serving))


def _told(value: object) -> str:
    """A stage's result in a few words."""
    if isinstance(value, AcsPlan):
        return "; ".join((count(len(value.writes), "port"), *value.warnings))
    if isinstance(value, GateResult):
        simulated = " (simulated)" if value.simulated else ""
        return f"{value.verdict.value}: {value.reason}{simulated}"
    if isinstance(value, MemoryPlan):
        return f"{value.kv_cache_tokens:,} KV tokens at TP {value.tensor_parallel}"
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], tuple):
        return count(len(value[1]), "file")
    if isinstance(value, tuple):
        return count(sum(one.id != "healthy" for one in value), "finding")
    return ""
