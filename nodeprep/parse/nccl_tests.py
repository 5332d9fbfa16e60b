"""The output of nccl-tests' all_reduce_perf, every version and any paste of it -> NcclReport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from nodeprep.model.base import Record
from nodeprep.model.gate import NcclDocument, NcclOutcome, NcclReport, NcclRow
from nodeprep.parse import nccl_head as head
from nodeprep.parse.nccl_accept import acceptance_problems
from nodeprep.parse.nccl_log import read_log
from nodeprep.parse.nccl_outcome import Evidence, another_collective, judge_outcome
from nodeprep.parse.nccl_rows import Table, read_header, read_table
from nodeprep.parse.nccl_runs import split_runs
from nodeprep.parse.nccl_text import Lines, split_lines

_MAX_FAILURES = 8
_FAILED = (NcclOutcome.WRONG_DATA, NcclOutcome.CRASH, NcclOutcome.HANG, NcclOutcome.LAUNCH_ERROR)


class _Run(Record, frozen=True):
    """One of the runs of a text, read by itself."""

    lines: tuple[str, ...]
    log_lines: tuple[str, ...]
    table: Table
    options: head.Options
    seen: Evidence

    @property
    def whole(self) -> bool:
        return self.seen.footer.present and bool(self.seen.rows)

    @property
    def headed(self) -> bool:
        """Whether it prints its options or its ranks itself."""
        return bool(self.seen.ranks) or any(map(head.prints_options, self.lines))


def parse_nccl(text: str) -> NcclReport:
    """Everything a text of all_reduce_perf says; never more than it says.

    A text without a table gives the outcome `no-table`.  Of several runs in one text the last
    whole one is read, those of all_reduce first; a failure of another one is among the problems.
    Raises ParseError only for binary or over-size input.
    """
    lines = split_lines(text)
    runs = [_read_run(lines, begin, end) for begin, end in split_runs(lines.table)]
    chosen = _chosen(runs)
    failures = dict.fromkeys(_failures([*runs[:chosen], *runs[chosen + 1 :]]))
    return _report(_with_company(runs[: chosen + 1]), tuple(failures)[:_MAX_FAILURES])


def parse_nccl_document(text: str) -> NcclDocument:
    """The report as one flat document: what `nodeprep parse nccl` prints."""
    report = parse_nccl(text)
    largest = largest_row(report.rows)
    out_of_place = largest.out_of_place if largest else None
    in_place = largest.in_place if largest else None
    return NcclDocument(
        outcome=report.outcome,
        reason=report.reason,
        ranks=len(report.ranks),
        rows=len(report.rows),
        max_size_bytes=largest.size_bytes if largest else None,
        busbw_out_of_place_gbps=out_of_place.busbw_gbps if out_of_place else None,
        busbw_in_place_gbps=in_place.busbw_gbps if in_place else None,
        avg_busbw_gbps=report.avg_busbw_gbps,
        out_of_bounds=report.out_of_bounds,
        transports=report.transports,
        channels=report.channels,
        collective=report.collective,
        nccl_version=report.nccl_version,
        tests_version=report.tests_version,
        simulated=report.simulated,
        problems=report.problems,
        messages=report.messages,
        devices=report.ranks,
        table=report.rows,
    )


def largest_row(rows: Sequence[NcclRow]) -> NcclRow | None:
    """The row of the largest size; the last one when a size repeats."""
    return max(reversed(rows), key=lambda row: row.size_bytes, default=None)


def _read_run(lines: Lines, begin: int, end: int) -> _Run:
    own = lines.table[begin:end]
    log_lines = lines.log_between(begin, end)
    table, options = read_table(own), head.read_options(own)
    seen = Evidence(
        lines=(*own, *log_lines),
        collective=head.read_collective(own),
        hint=head.read_hint(own),
        header_seen=any(head.prints_options(line) or read_header(line) for line in own),
        ranks=head.read_ranks(own),
        rows=table.rows,
        roots=table.roots,
        footer=head.read_footer(own),
        validation=options.validation,
    )
    return _Run(lines=own, log_lines=log_lines, table=table, options=options, seen=seen)


def _chosen(runs: Sequence[_Run]) -> int:
    """Place of the last whole run, those of all_reduce first.

    When none is whole: of the last one that prints its options or ranks.
    """
    places = range(len(runs))
    whole = [place for place in places if runs[place].whole]
    wanted = [place for place in whole if another_collective(runs[place].seen) is None]
    headed = [place for place in places if place == 0 or runs[place].headed]
    return (wanted or whole or headed)[-1]


def _with_company(runs: Sequence[_Run]) -> _Run:
    """The last of these runs, with the ranks of all processes that were started together.

    Each process prints ranks from 0 on, before the first footer; a later table without ranks is
    that of one of them.
    """
    ranks = next((run.seen.ranks for run in reversed(runs) if run.headed), ())
    times = Counter(rank.rank for rank in ranks)
    if all(count == 1 for count in times.values()):
        return runs[-1]
    together = msgspec.structs.replace(runs[-1].seen, ranks=ranks, mixed=True)
    return msgspec.structs.replace(runs[-1], seen=together)


def _failures(runs: Sequence[_Run]) -> Iterator[str]:
    """What runs that are not read say of a failure."""
    for run in runs:
        outcome, reason = judge_outcome(run.seen)
        if outcome in _FAILED:
            yield f"another run in the text failed: {reason}"
        elif outcome is NcclOutcome.TRUNCATED and run.headed:
            yield f"another run in the text has no end: {reason}"


def _report(run: _Run, failures: tuple[str, ...]) -> NcclReport:
    seen, options = run.seen, run.options
    outcome, reason = judge_outcome(seen)
    bare = [line for line in run.lines if " via " in line or "NCCL" in line]
    log = read_log((*run.log_lines, *bare))
    report = NcclReport(
        outcome=outcome,
        reason=reason,
        collective=seen.collective or seen.hint,
        simulated=head.is_simulated(run.lines),
        ranks=seen.ranks,
        rows=seen.rows,
        avg_busbw_gbps=seen.footer.avg_busbw_gbps,
        out_of_bounds=seen.footer.out_of_bounds,
        out_of_bounds_ok=seen.footer.out_of_bounds_ok,
        transports=log.transports,
        channels=log.by_pair,
        nccl_version=log.nccl_version or head.read_library_version(run.lines),
        messages=head.failure_lines(seen.lines),
        tests_version=head.read_tests_version(run.lines),
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        step_factor=options.step_factor,
        step_bytes=options.step_bytes,
        validation=options.validation,
    )
    return _with_problems(report, run.table, failures)


def _with_problems(report: NcclReport, table: Table, failures: tuple[str, ...]) -> NcclReport:
    """With all that speaks against the table; the reason of a good outcome names the first."""
    if not report.rows:
        return msgspec.structs.replace(report, problems=failures)
    cpu_time = table.header is not None and table.header.cpu_time
    place_us = 0.01 if table.microseconds else 1.0
    own = acceptance_problems(report, cpu_time=cpu_time, time_place_us=place_us)
    problems = (*failures, *own)
    reason = report.reason
    if report.outcome is NcclOutcome.OK and problems:
        reason = f"data checked, but {problems[0]}"
    return msgspec.structs.replace(report, problems=problems, reason=reason)
