"""The output of nccl-tests' all_reduce_perf, every version and any paste of it -> NcclReport."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from nodeprep.model.gate import NcclDocument, NcclReport, NcclRow
from nodeprep.model.nccl_log import NcclLog
from nodeprep.parse import nccl_head as head
from nodeprep.parse.nccl_accept import acceptance_problems
from nodeprep.parse.nccl_log import read_log
from nodeprep.parse.nccl_outcome import Evidence, judge_outcome
from nodeprep.parse.nccl_rows import Table, read_header, read_table
from nodeprep.parse.nccl_text import split_lines


def parse_nccl(text: str) -> NcclReport:
    """Everything a text of all_reduce_perf says; never more than it says.

    A text without a table gives the outcome `no-table`.  Of several runs in one text the last
    whole one is read.  Raises ParseError only for binary or over-size input.
    """
    lines = split_lines(text)
    begin, end = _chosen_run(lines.table)
    run = lines.table[begin:end]
    log_lines = lines.log_between(begin, end)
    bare = [line for line in run if " via " in line or "NCCL" in line]
    return _report(run, log_lines, read_log((*log_lines, *bare)))


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


def _report(lines: Sequence[str], log_lines: Sequence[str], log: NcclLog) -> NcclReport:
    table = read_table(lines)
    options = head.read_options(lines)
    footer = head.read_footer(lines)
    ranks = head.read_ranks(lines)
    collective, hint = head.read_collective(lines), head.read_hint(lines)
    outcome, reason = judge_outcome(
        Evidence(
            lines=(*lines, *log_lines),
            collective=collective,
            hint=hint,
            header_seen=_header_seen(lines),
            ranks=ranks,
            rows=table.rows,
            roots=table.roots,
            footer=footer,
            validation=options.validation,
        )
    )
    report = NcclReport(
        outcome=outcome,
        reason=reason,
        collective=collective or hint,
        simulated=head.is_simulated(lines),
        ranks=ranks,
        rows=table.rows,
        avg_busbw_gbps=footer.avg_busbw_gbps,
        out_of_bounds=footer.out_of_bounds,
        out_of_bounds_ok=footer.out_of_bounds_ok,
        transports=log.transports,
        channels=log.by_pair,
        nccl_version=log.nccl_version or head.read_library_version(lines),
        messages=head.failure_lines((*lines, *log_lines)),
        tests_version=head.read_tests_version(lines),
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        step_factor=options.step_factor,
        step_bytes=options.step_bytes,
        validation=options.validation,
    )
    return msgspec.structs.replace(report, problems=_problems(report, table))


def _problems(report: NcclReport, table: Table) -> tuple[str, ...]:
    if not report.rows:
        return ()
    return acceptance_problems(
        report,
        cpu_time=table.header is not None and table.header.cpu_time,
        time_place_us=0.01 if table.microseconds else 1.0,
    )


def _header_seen(lines: Iterable[str]) -> bool:
    return any(head.starts_run(line) or read_header(line) for line in lines)


def _chosen_run(lines: Sequence[str]) -> tuple[int, int]:
    """Where the last run with a footer begins and ends, those of all_reduce first; the last run
    when none has a footer."""
    runs = list(_runs(lines))
    whole = [(begin, end) for begin, end in runs if head.read_footer(lines[begin:end]).present]
    wanted = [
        (begin, end)
        for begin, end in whole
        if head.read_collective(lines[begin:end]) in (None, "all_reduce")
    ]
    return (wanted or whole or runs)[-1]


def _runs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """One text may hold several runs: options after a footer begin a new one, and what stands
    between the two belongs to it.

    Options that come again before a footer belong to a launcher that starts several processes.
    """
    begin = 0
    last_end: int | None = None
    for place, line in enumerate(lines):
        if head.ends_run(line):
            last_end = place
        elif last_end is not None and head.starts_run(line):
            yield begin, last_end + 1
            begin, last_end = last_end + 1, None
    yield begin, len(lines)
