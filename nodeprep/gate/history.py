"""This node's own measurements, and how far the last one drifted from the good ones before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec
from msgspec.structs import replace

from nodeprep.errors import StateError
from nodeprep.gate.command import members
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.gate import DriftReading, GateResult, GateVerdict
from nodeprep.settings import GatePolicy
from nodeprep.state import StateStore

SCHEMA = "nodeprep.gate-history/1"
_BASELINE_RUNS = 10
_LEAST_RUNS = 3
_MAX_RUNS = 2000


class PastRun(Record, frozen=True):
    """One measurement as it is kept."""

    collected_at: str
    boot_id: str | None
    verdict: GateVerdict
    measured_gbps: float | None
    gpus: tuple[str, ...]
    """UUIDs, or addresses: another card is another node."""
    max_bytes: int | None
    source: str
    simulated: bool
    nccl_version: str | None = None
    driver_version: str | None = None
    threshold_source: str = "none"
    veto: str | None = None
    drifted: bool = False
    """Too far below the baseline to become part of it."""


class History(Record, frozen=True):
    schema: str = SCHEMA
    runs: tuple[PastRun, ...] = ()


def remember(
    store: StateStore, facts: NodeFacts, result: GateResult, policy: GatePolicy, collected_at: str
) -> GateResult:
    """Keeps the run, and gives the result with its drift.

    A folder that cannot be written to is a warning: `nodeprep gate` needs no root.
    """
    try:
        past = read_history(store)
        run = past_run(facts, result, collected_at)
        found = drift(past.runs, run)
        low = found is not None and found.change < -policy.drift_warning
        kept = (*past.runs, replace(run, drifted=low))[-_MAX_RUNS:]
        store.write_gate_history(_encoded(replace(past, runs=kept)))
    except StateError as error:
        kept_not = f"the measurement was not kept: {error.message}"
        return replace(result, warnings=(*result.warnings, kept_not))
    findings = () if found is None else tuple(_findings(found, run, policy))
    return replace(result, drift=found, findings=(*result.findings, *findings))


def read_history(store: StateStore) -> History:
    """Everything kept; empty before the first run.  Raises StateError for a damaged file."""
    content = store.read_gate_history()
    if content is None:
        return History()
    try:
        past = msgspec.json.decode(content, type=History)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(f"the gate's history is damaged: {error}") from None
    if past.schema != SCHEMA:
        raise StateError(f"the gate's history has schema {past.schema[:40]!r}")
    return past


def past_run(facts: NodeFacts, result: GateResult, collected_at: str) -> PastRun:
    sizes = [row.size_bytes for row in result.rows]
    return PastRun(
        collected_at=collected_at,
        boot_id=facts.boot_id,
        verdict=result.verdict,
        measured_gbps=result.measured_gbps,
        gpus=tuple(gpu.uuid or gpu.bdf for gpu in members(facts, result.gpus)),
        max_bytes=max(sizes, default=None),
        source=result.source,
        simulated=result.simulated,
        nccl_version=result.nccl_version,
        driver_version=facts.platform.driver_version,
        threshold_source=result.threshold_source,
        veto=result.veto,
    )


def drift(past: Sequence[PastRun], run: PastRun) -> DriftReading | None:
    """This run against the median of the last good ones of the same kind; None: too few, or no
    figure."""
    if run.measured_gbps is None:
        return None
    good = [
        one.measured_gbps
        for one in past
        if one.verdict is GateVerdict.PASS
        and one.measured_gbps
        and not one.drifted
        and _kind(one) == _kind(run)
    ][-_BASELINE_RUNS:]
    if len(good) < _LEAST_RUNS:
        return None
    baseline = median(good)
    return DriftReading(
        baseline_gbps=round(baseline, 3),
        runs=len(good),
        change=round(run.measured_gbps / baseline - 1, 4),
    )


def _kind(run: PastRun) -> tuple[object, ...]:
    """What makes two figures comparable; another NCCL or driver is a reason for drift, not a
    reason not to look."""
    return run.gpus, run.max_bytes, run.source, run.simulated, run.veto is None


def _findings(found: DriftReading, run: PastRun, policy: GatePolicy) -> Iterator[Finding]:
    fall = -found.change
    if fall <= policy.drift_warning:
        return
    severe = fall > policy.drift_critical
    yield Finding(
        id="busbw-drift",
        severity=Severity.CRITICAL if severe else Severity.WARNING,
        subject="all_reduce",
        summary=f"{run.measured_gbps:.2f} GB/s is {fall:.0%} below this node's own "
        f"{found.baseline_gbps:.2f} of {found.runs} good runs",
        cause="something changed since: link, firmware, driver, NCCL, cooling or load",
        evidence=(
            Evidence(source="history", text=f"baseline {found.baseline_gbps} GB/s"),
            Evidence(
                source="this run",
                text=f"NCCL {run.nccl_version or '?'}, driver {run.driver_version or '?'}",
            ),
        ),
        remedy=Remedy(
            text="compare with the good runs before it, in history/gate.json of the state folder"
        ),
    )


def _encoded(history: History) -> bytes:
    return msgspec.json.encode(history) + b"\n"
