"""Measures a group of GPUs once, and again where one run does not decide."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from nodeprep.errors import Denied, HostError, NotFound, NotRecorded, ParseError, TimedOut
from nodeprep.gate.attempt import Attempt, Limits, OnRow, attempt
from nodeprep.gate.command import NVLINK_SIZE, Command, gate_command, members
from nodeprep.gate.judge import judge
from nodeprep.gate.repeats import chosen, is_passing, wants_another
from nodeprep.gate.threshold import threshold
from nodeprep.gate.torch_fallback import parse_torch, torch_command
from nodeprep.gate.without_p2p import without_p2p
from nodeprep.host.base import Host
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import GateResult, GateRun, GateVerdict, NcclOutcome, NcclReport, Threshold
from nodeprep.model.readings import Stopped
from nodeprep.parse.nccl_tests import parse_nccl
from nodeprep.settings import GatePolicy
from nodeprep.units import parse_size_bytes

KILL_S = 15.0
"""What ending a run that hangs may take."""
_NVLINK_PATIENCE = 3
"""16 times the data: a node that lost NVLink needs 250 s, and is slow, not hung."""


class Tool(Record, frozen=True):
    """What measures: a program of the node, or of a container image."""

    program: str
    container: tuple[str, str] | None = None
    """Engine and image."""
    torch: bool = False

    @property
    def source(self) -> str:
        return "torch" if self.torch else "nccl-tests"


class Bench:
    """One tool on one machine."""

    def __init__(
        self,
        host: Host,
        facts: NodeFacts,
        policy: GatePolicy,
        tool: Tool,
        *,
        min_busbw_gbps: float | None,
        allow_simulated: bool,
        tell: Callable[[str], None],
    ) -> None:
        self.host = host
        self.facts = facts
        self.policy = policy
        self.tool = tool
        self.tell = tell
        self._min_busbw_gbps = min_busbw_gbps
        self._allow_simulated = allow_simulated
        self._end = time.monotonic() + policy.total_s

    def left_s(self) -> float:
        """What remains of the time for everything."""
        return self._end - time.monotonic()

    def has_time(self, max_size: str) -> bool:
        """Whether one more run would end in time, even if it hung and had to be killed."""
        return self.left_s() >= self.limits(max_size).deadline_s + KILL_S

    def limits(self, max_size: str) -> Limits:
        times = _NVLINK_PATIENCE if max_size == NVLINK_SIZE else 1
        return Limits(
            deadline_s=self.policy.deadline_s * times, silence_s=self.policy.silence_s * times
        )

    def once(
        self,
        group: Sequence[int],
        max_size: str,
        *,
        settings: dict[str, str] | None = None,
        limits: Limits | None = None,
        on_row: OnRow = lambda _: None,
        by_class: bool = False,
    ) -> GateResult:
        """One run, judged.  Nothing the machine does is raised; it is a verdict.

        `settings`: NCCL variables under test.  `by_class`: whatever mark is given for the node, a
        part of it, or the node without peer-to-peer, is held against the built-in table.
        """
        command = self._command(group, max_size, settings)

        def asked_for(nccl_version: str | None, size_bytes: int) -> Threshold:
            facts = without_p2p(self.facts) if settings else self.facts
            policy = replace(self.policy, min_busbw_gbps=None) if by_class else self.policy
            given = None if by_class else self._min_busbw_gbps
            return threshold(facts, tuple(group), policy, given, nccl_version, size_bytes)

        try:
            done = attempt(
                self.host, command, limits or self.limits(max_size), tell=self.tell, on_row=on_row
            )
            report = _read(done, torch=self.tool.torch)
        except (HostError, ParseError) as error:
            result = _no_figures(error, asked_for(None, parse_size_bytes(max_size)))
        else:
            astray = _other_gpus(report, self.facts, group)
            report = replace(report, problems=(*astray, *report.problems))
            mark = asked_for(report.nccl_version, _largest(report) or parse_size_bytes(max_size))
            result = self._judged(done, report, mark, len(group))
        return replace(result, binary=command.shown, source=self.tool.source)

    def repeated(self, group: Sequence[int], max_size: str, on_row: OnRow) -> GateResult:
        """Runs until the verdict stands: at once, or by the median of at most 1 + repeats."""
        results = [self._after_waiting(group, max_size, on_row)]
        while (
            not self.host.simulates
            and self.has_time(max_size)
            and wants_another(results, self.policy)
        ):
            self.tell(f"run {len(results) + 1}, the last one: {results[-1].reason}")
            results.append(self.once(group, max_size))
        runs = tuple(told(str(number), one) for number, one in enumerate(results, 1))
        return replace(chosen(results), runs=runs)

    def _after_waiting(self, group: Sequence[int], max_size: str, on_row: OnRow) -> GateResult:
        """The first run that does not meet a fabric or GPUs that are not ready yet."""
        end = time.monotonic() + self.policy.wait_s
        while True:
            result = self.once(group, max_size, on_row=on_row)
            late = time.monotonic() + self.policy.retry_every_s > end or not self.has_time(max_size)
            if self.host.simulates or late or not is_passing(result):
                return result
            self.tell(f"waiting: {result.reason}")
            time.sleep(self.policy.retry_every_s)

    def _command(
        self, group: Sequence[int], max_size: str, settings: dict[str, str] | None
    ) -> Command:
        make = torch_command if self.tool.torch else gate_command
        return make(
            self.facts, group, self.tool.program, max_size,
            settings=settings, container=self.tool.container,
        )  # fmt: skip

    def _judged(
        self, done: Attempt, report: NcclReport, mark: Threshold, group_size: int
    ) -> GateResult:
        answer = done.answer
        report = replace(report, simulated=report.simulated or answer.simulated)
        result = judge(
            report, answer.status, mark, group_size, self.policy,
            hung=answer.stopped is not None, allow_simulated=self._allow_simulated,
        )  # fmt: skip
        reason, warnings = result.reason, list(result.warnings)
        if result.verdict is GateVerdict.HUNG and answer.stopped is Stopped.SILENCE:
            reason += f"; no row came for {self.policy.silence_s:g} s"
        if answer.survivors:
            reason += f"; process {', '.join(answer.survivors)} cannot be killed: reboot the node"
        if answer.truncated:
            warnings.append("the program printed more than is kept")
        return replace(
            result, reason=reason, warnings=tuple(warnings), survivors=answer.survivors,
            duration_s=round(answer.duration_s, 3),
        )  # fmt: skip


def told(name: str, result: GateResult) -> GateRun:
    """A result as one run among others."""
    return GateRun(
        name=name,
        verdict=result.verdict,
        measured_gbps=result.measured_gbps,
        reason=result.reason,
        duration_s=result.duration_s,
        transports=result.transports,
    )


def no_run(verdict: GateVerdict, reason: str, mark: Threshold) -> GateResult:
    """A verdict without figures, still with what would have been asked."""
    return GateResult(
        verdict=verdict,
        reason=reason,
        threshold_gbps=mark.threshold_gbps,
        threshold_source=mark.source,
        expected_gbps=mark.expected_gbps,
        limiting_hop=mark.limiting_hop,
        reasoning=mark.reasoning,
    )


def _read(done: Attempt, *, torch: bool) -> NcclReport:
    return parse_torch(done.answer.stdout, done.text) if torch else parse_nccl(done.text)


def _largest(report: NcclReport) -> int | None:
    """The size at which a whole run is judged: less than asked for where memory was short."""
    if report.outcome is not NcclOutcome.OK:
        return None
    return max(row.size_bytes for row in report.rows)


def _other_gpus(report: NcclReport, facts: NodeFacts, group: Sequence[int]) -> tuple[str, ...]:
    """Ranks on GPUs that are not of the group, by the addresses they print (2.15.0 and later)."""
    wanted = {gpu.bdf.partition(".")[0] for gpu in members(facts, group)}
    ran = {(rank.bus_id or "").lower().partition(".")[0] for rank in report.ranks}
    strange = sorted(place for place in ran - wanted if place.count(":") == 2)
    return (f"the run was on GPUs that are not of the group: {', '.join(strange)}",) * bool(strange)


def _no_figures(error: HostError | ParseError, mark: Threshold) -> GateResult:
    """What it means that a run could not be started, or printed what nobody can read."""
    match error:
        case ParseError():
            return no_run(GateVerdict.INVALID_OUTPUT, error.message, mark)
        case TimedOut():
            reason = f"the run did not end before its deadline: {error.message}"
            return no_run(GateVerdict.HUNG, reason, mark)
        case NotFound() | Denied():
            return no_run(GateVerdict.NO_BINARY, error.message, mark)
        case NotRecorded():
            reason = f"nothing was measured: {error.message}"
            return no_run(GateVerdict.PRECONDITION, reason, mark)
        case _:
            return no_run(GateVerdict.CRASHED, error.message, mark)
