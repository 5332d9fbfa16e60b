"""The verdict over one run: figures, data, transport; never exit status or average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodeprep.model.gate import (
    GateResult,
    GateVerdict,
    NcclHalf,
    NcclOutcome,
    NcclReport,
    NcclRow,
    Threshold,
)
from nodeprep.settings import GatePolicy

Ruling = tuple[GateVerdict, str]

_SPREAD_ROWS = 3
MEASURED = (
    GateVerdict.PASS,
    GateVerdict.FAIL_BANDWIDTH,
    GateVerdict.FAIL_TRANSPORT,
    GateVerdict.NO_THRESHOLD,
)
"""Verdicts over a run that ended, with the right data."""
_LAUNCH_FAILURES = {
    125: "the container could not be started",
    126: "the program cannot be run",
    127: "the program or one of its libraries is missing",
}
_CHECK_STATUSES = (0, 1, 7)
"""nccl-tests ends with 1 (up to 2.17.2) or 7 when its own checks fail; these are judged here."""
_TIMEOUT_STATUS = 124
"""timeout(1) ended the program."""
_CAUSES = (
    ("system not yet initialized", "the NVLink fabric is not up: wait for nvidia-fabricmanager"),
    ("busy or unavailable", "a GPU is occupied, or in exclusive mode"),
    ("uncorrectable ECC", "a hardware fault: take the GPU out of service"),
    ("no kernel image", "the binary was built without this GPU's architecture"),
    ("no CUDA-capable device", "CUDA sees no GPU: driver, container or CUDA_VISIBLE_DEVICES"),
    ("driver version is insufficient", "the driver is older than the CUDA runtime"),
    ("invalid device ordinal", "more GPUs asked for than CUDA sees: MIG, a lost GPU"),
)


def judge(
    report: NcclReport,
    exit_status: int | None,
    threshold: Threshold,
    group_size: int,
    policy: GatePolicy,
    hung: bool = False,
    allow_simulated: bool = True,
) -> GateResult:
    """Verdict on a run of all_reduce_perf over `group_size` GPUs.

    The measured value is the mean of out-of-place and in-place bus bandwidth at the largest size,
    GB/s.  It counts only when the table is whole, is of this group, and its data was checked.
    `exit_status` None: not known. `hung`: ended at its deadline.  An output that says it is
    simulated is refused unless `allow_simulated`.
    """
    measured = _measured(report.rows)
    ruling = (
        _refuse_group(group_size)
        or _refuse_simulated(report, allow_simulated)
        or _refuse_hung(report, exit_status, hung)
        or _refuse_outcome(report, exit_status)
        or _refuse_table(report, exit_status, group_size)
        or _judge_bandwidth(report, measured, threshold)
    )
    usable = ruling[0] in MEASURED
    return GateResult(
        verdict=ruling[0],
        reason=ruling[1],
        measured_gbps=round(measured, 3) if usable and measured is not None else None,
        threshold_gbps=threshold.threshold_gbps,
        threshold_source=threshold.source,
        expected_gbps=threshold.expected_gbps,
        limiting_hop=threshold.limiting_hop,
        reasoning=threshold.reasoning,
        rows=report.rows,
        transports=report.channels,
        avg_busbw_gbps=report.avg_busbw_gbps,
        nccl_version=report.nccl_version,
        warnings=tuple(_warnings(report, exit_status, threshold, policy)) if usable else (),
        simulated=report.simulated,
    )


def wrong_transports(report: NcclReport, expected: str | None) -> tuple[str, ...]:
    """Ways between two ranks that are not the expected ones: `0->1 SHM/direct`.

    The network is wrong on a single node whatever is expected; host memory is wrong where
    peer-to-peer is expected.
    """
    wrong = ("NET", "SHM", "COLLNET") if expected == "P2P" else ("NET", "COLLNET")
    return tuple(
        f"{pair} {transport}"
        for pair, transport in report.channels.items()
        if transport.partition("/")[0] in wrong
    )


def _refuse_group(group_size: int) -> Ruling | None:
    if group_size >= 2:
        return None
    return GateVerdict.NOT_APPLICABLE, f"{group_size} GPU: there is no pair to measure"


def _refuse_simulated(report: NcclReport, allowed: bool) -> Ruling | None:
    if not report.simulated or allowed:
        return None
    return (
        GateVerdict.INVALID_OUTPUT,
        "the output is simulated: it counts only where that is allowed",
    )


def _refuse_hung(report: NcclReport, exit_status: int | None, hung: bool) -> Ruling | None:
    if report.outcome is NcclOutcome.HANG:
        return GateVerdict.HUNG, report.reason
    ended = exit_status == _TIMEOUT_STATUS and report.outcome is not NcclOutcome.OK
    if not hung and not ended:
        return None
    reason = "the run did not end before its deadline"
    if report.rows:
        reason += f", after {len(report.rows)} rows"
    elif report.outcome is NcclOutcome.TRUNCATED:
        reason += (
            ", before its first row: peer-to-peer broken by IOMMU, ACS or driver is the usual cause"
        )
    return GateVerdict.HUNG, reason


def _refuse_outcome(report: NcclReport, exit_status: int | None) -> Ruling | None:
    """What an output that is not a whole all_reduce table means for the gate."""
    failed = exit_status not in (0, None)
    match report.outcome:
        case NcclOutcome.OK:
            return None
        case NcclOutcome.WRONG_DATA:
            return GateVerdict.WRONG_DATA, f"{report.reason}: the node returns wrong results"
        case NcclOutcome.CRASH:
            return GateVerdict.CRASHED, _explained(report.reason)
        case NcclOutcome.LAUNCH_ERROR:
            return _launch_error(report, exit_status)
        case NcclOutcome.NO_TABLE | NcclOutcome.TRUNCATED if failed:
            return _died(report, exit_status)
        case _:
            return GateVerdict.INVALID_OUTPUT, _explained(report.reason)


def _launch_error(report: NcclReport, exit_status: int | None) -> Ruling:
    if exit_status in _LAUNCH_FAILURES:
        return GateVerdict.NO_BINARY, f"{_LAUNCH_FAILURES[exit_status]}: {report.reason}"
    if "Invalid number of GPUs" in report.reason:
        return (
            GateVerdict.PRECONDITION,
            f"{report.reason} MIG, a lost GPU or CUDA_VISIBLE_DEVICES hides some",
        )
    return GateVerdict.INVALID_OUTPUT, report.reason


def _died(report: NcclReport, exit_status: int | None) -> Ruling:
    """No whole table, and a status that says so too."""
    if exit_status in _LAUNCH_FAILURES:
        return GateVerdict.NO_BINARY, _LAUNCH_FAILURES[exit_status]
    return GateVerdict.CRASHED, f"the program ended {_ending(exit_status)}: {report.reason}"


def _ending(exit_status: int | None) -> str:
    killed = exit_status is not None and exit_status < 0
    return f"by signal {-exit_status}" if killed and exit_status else f"with status {exit_status}"


def _refuse_table(report: NcclReport, exit_status: int | None, group_size: int) -> Ruling | None:
    """Why a whole table is no measurement of this group."""
    if exit_status is not None and exit_status not in _CHECK_STATUSES:
        return GateVerdict.CRASHED, f"the program ended {_ending(exit_status)} after its table"
    problems = list(report.problems)
    if report.ranks and len(report.ranks) != group_size:
        problems.insert(0, f"the run had {len(report.ranks)} ranks, the group has {group_size}")
    if not problems:
        return None
    return GateVerdict.INVALID_OUTPUT, "; ".join(problems)


def _judge_bandwidth(report: NcclReport, measured: float | None, threshold: Threshold) -> Ruling:
    if measured is None:
        return GateVerdict.INVALID_OUTPUT, "no bandwidth at the largest size"
    mark = threshold.threshold_gbps
    size = _largest(report.rows).size_bytes if report.rows else 0
    told = f"{measured:.2f} GB/s at {size >> 20} MiB"
    if mark is None:
        return GateVerdict.NO_THRESHOLD, f"{told}, and no threshold is known for this node"
    if measured >= mark:
        return GateVerdict.PASS, f"{told}, at or over {mark:g}"
    astray = wrong_transports(report, threshold.expected_transport)
    if astray:
        return (
            GateVerdict.FAIL_TRANSPORT,
            f"{told}, under {mark:g}: {listed(astray)} instead of peer-to-peer"
            if threshold.expected_transport == "P2P"
            else f"{told}, under {mark:g}: the network carries traffic inside the node: "
            f"{listed(astray)}",
        )
    return GateVerdict.FAIL_BANDWIDTH, f"{told}, under {mark:g}{_where_to_look(report)}"


def _where_to_look(report: NcclReport) -> str:
    kinds = {transport.partition("/")[0] for transport in report.channels.values()}
    if kinds == {"P2P"}:
        return (
            ", though every way is peer-to-peer: look at ACS redirection on the path, at width and "
            "speed of the links, at the IOMMU, and for other load"
        )
    if kinds == {"SHM"}:
        return ", through host memory: look at link width, NUMA placement and memory channels"
    return ""


def _warnings(
    report: NcclReport, exit_status: int | None, threshold: Threshold, policy: GatePolicy
) -> Iterator[str]:
    """What a person should know of a run that was measured."""
    yield from _figure_warnings(report.rows, threshold, policy)
    astray = wrong_transports(report, threshold.expected_transport)
    if astray:
        yield f"unexpected transport: {listed(astray)}"
    elif threshold.expected_transport == "P2P":
        yield from _unproved(report)
    if exit_status in (1, 7):
        yield f"the program's own check failed (status {exit_status}); it is not what is judged"
    if not threshold.verified and threshold.source.startswith("table"):
        yield "no public recording verifies the threshold of this class"


def _unproved(report: NcclReport) -> Iterator[str]:
    """A ring has a way out of every rank; the log must name each of them."""
    if not report.channels:
        yield "transport not proved: the log names no channel"
        return
    sources = {int(pair.partition("->")[0]) for pair in report.channels}
    silent = sorted({rank.rank for rank in report.ranks} - sources)
    if silent:
        yield f"transport not proved: the log names no way out of rank {listed(silent)}"


def _figure_warnings(
    rows: Sequence[NcclRow], threshold: Threshold, policy: GatePolicy
) -> Iterator[str]:
    measured = _measured(rows)
    mark, low = threshold.threshold_gbps, threshold.warn_below_gbps
    if measured is not None and mark is not None and low is not None and mark <= measured < low:
        yield f"{measured:.2f} GB/s passes, and is less than the {low:g} such nodes reach"
    apart = spread(rows)
    if apart is not None and apart > policy.max_spread:
        yield f"the last three sizes spread by {apart:.0%}: measure again"
    values = [value for row in rows if (value := _mean(row)) is not None]
    if values and measured is not None and max(values) > 0:
        drop = 1 - measured / max(values)
        if drop > policy.max_drop_from_peak:
            yield f"bandwidth falls {drop:.0%} from its peak of {max(values):.2f} GB/s"
    yield from _half_warning(rows, policy)


def spread(rows: Sequence[NcclRow]) -> float | None:
    """How far the last three sizes lie apart, as a fraction of the best; None: fewer rows."""
    last = [value for row in rows[-_SPREAD_ROWS:] if (value := _mean(row)) is not None]
    if len(last) < _SPREAD_ROWS or max(last) <= 0:
        return None
    return (max(last) - min(last)) / max(last)


def _half_warning(rows: Sequence[NcclRow], policy: GatePolicy) -> Iterator[str]:
    """Out-of-place and in-place run the same way: they agree on a healthy node."""
    halves = _both(_largest(rows)) if rows else None
    if halves is None or max(halves) <= 0:
        return
    apart = (max(halves) - min(halves)) / max(halves)
    if apart > policy.max_spread:
        yield f"out-of-place and in-place differ by {apart:.0%} at the largest size"


def _measured(rows: Sequence[NcclRow]) -> float | None:
    """Mean of both halves at the largest size, GB/s."""
    return _mean(_largest(rows)) if rows else None


def _largest(rows: Sequence[NcclRow]) -> NcclRow:
    return max(reversed(rows), key=lambda row: row.size_bytes)


def _mean(row: NcclRow) -> float | None:
    """Of the halves that were measured; PyTorch measures in place only."""
    figures = [_busbw(half) for half in (row.out_of_place, row.in_place) if half is not None]
    known = [figure for figure in figures if figure is not None]
    return sum(known) / len(known) if known and len(known) == len(figures) else None


def _both(row: NcclRow) -> tuple[float, float] | None:
    a, b = _busbw(row.out_of_place), _busbw(row.in_place)
    return None if a is None or b is None else (a, b)


def _busbw(half: NcclHalf | None) -> float | None:
    return None if half is None else half.busbw_gbps


def _explained(reason: str) -> str:
    """A CUDA or NCCL message with what it means here."""
    meaning = next((meaning for words, meaning in _CAUSES if words in reason), None)
    return f"{reason}: {meaning}" if meaning else reason


def listed(items: Sequence[object]) -> str:
    """The first eight, and how many more there are."""
    return ", ".join(map(str, items[:8])) + (
        f" and {len(items) - 8} more" if len(items) > 8 else ""
    )
