"""Whether a table can be taken as a measurement of the whole group: nothing lost, nothing odd.

Every figure of nccl-tests is printed twice over: bandwidths follow from size, time and the number
of ranks, the average from all rows.  What does not add up was lost or changed on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from nodeprep.model.gate import NcclHalf, NcclRank, NcclReport, NcclRow
from nodeprep.parse.nccl_outcome import TYPE_BYTES, halves

_MAX_DEVIATION = 0.02
_MAX_AVERAGE_DEVIATION = 0.005
_PLACE_GBPS = 0.01
"""Bandwidths are printed with two decimals."""
_MAX_SIZES = 100_000


def acceptance_problems(
    report: NcclReport, *, cpu_time: bool, time_place_us: float = 0.01
) -> tuple[str, ...]:
    """Reasons not to judge the bandwidth of a table, in plain words; empty: none.

    `cpu_time`: the time column does not belong to the bandwidths. `time_place_us`: its last
    printed place.
    """
    return tuple(
        problem
        for problems in (
            _footer_problems(report),
            _rank_problems(report.ranks),
            _size_problems(report),
            _row_problems(report, None if cpu_time else time_place_us),
            _average_problems(report),
        )
        for problem in problems
    )


def _footer_problems(report: NcclReport) -> Iterator[str]:
    if report.out_of_bounds is None or report.avg_busbw_gbps is None:
        yield "the footer is missing or cut"


def _rank_problems(ranks: Sequence[NcclRank]) -> Iterator[str]:
    numbers = [rank.rank for rank in ranks]
    if not numbers:
        yield "no rank lines: nothing says which GPUs took part"
        return
    if sorted(numbers) != list(range(len(numbers))):
        yield f"rank lines are missing or repeated: {_list(numbers)}"
    hosts = {rank.host for rank in ranks if rank.host}
    if len(hosts) > 1:
        yield f"ranks on {len(hosts)} hosts: not a measurement of one node"
    shared = [place for place, times in Counter(map(_place, ranks)).items() if times > 1]
    if shared:
        yield f"two ranks share one GPU: {shared[0]}"


def _place(rank: NcclRank) -> str:
    """The GPU of a rank.  A bus number alone (`0x01`) may be shared by two devices."""
    bus = rank.bus_id or ""
    if bus.count(":") >= 2:
        return f"{rank.host} {bus}"
    return f"{rank.host} device {rank.device} {bus}"


def _size_problems(report: NcclReport) -> Iterator[str]:
    sizes = [row.size_bytes for row in report.rows]
    if any(later <= earlier for earlier, later in pairwise(sizes)):
        yield "sizes repeat or do not rise"
        return
    wanted = _wanted_sizes(report)
    if wanted and sizes and sizes[-1] != wanted[-1]:
        yield f"the last row is {sizes[-1]} bytes, asked for was {wanted[-1]}"
    elif wanted and sizes != wanted:
        yield f"{len(wanted) - len(sizes)} of {len(wanted)} sizes are missing"


def _wanted_sizes(report: NcclReport) -> list[int]:
    """Sizes that the options ask for; empty when the options are not all known.

    The program rounds each size down to whole elements.
    """
    size, last = report.min_bytes, report.max_bytes
    factor, step = report.step_factor, report.step_bytes
    if size is None or last is None or size <= 0 or not ((factor or 0) > 1 or step):
        return []
    width = TYPE_BYTES.get(report.rows[0].dtype or "", 1) if report.rows else 1
    sizes: list[int] = []
    while size <= last and len(sizes) < _MAX_SIZES:
        sizes.append(size // width * width)
        size = size * factor if factor else size + (step or 0)
    return sizes


def _row_problems(report: NcclReport, time_place_us: float | None) -> Iterator[str]:
    if time_place_us is None:
        yield "the time column is CPU time (-C)"
    if any(row.out_of_place is None or row.in_place is None for row in report.rows):
        yield "half of the table is missing"
    reductions = {row.redop for row in report.rows} - {"sum"}
    if reductions:
        yield f"reduction {next(iter(reductions))} instead of sum"
    problems = (
        _row_problem(row, half, len(report.ranks), time_place_us)
        for row in report.rows
        for half in (row.out_of_place, row.in_place)
        if half is not None
    )
    first = next((problem for problem in problems if problem), None)
    if first:
        yield first


def _row_problem(
    row: NcclRow, half: NcclHalf, ranks: int, time_place_us: float | None
) -> str | None:
    """What contradicts itself in one half of a row."""
    at = f"at {row.size_bytes} bytes"
    if not half.checked:
        return f"the data was not checked {at}"
    if half.algbw_gbps is None or half.busbw_gbps is None or half.time_us is None:
        return f"a figure is missing {at}"
    if time_place_us is not None and half.time_us > 0:
        expected = row.size_bytes / half.time_us / 1e3
        rounding = _PLACE_GBPS + expected * time_place_us / half.time_us
        if not _near(half.algbw_gbps, expected, rounding):
            return f"algbw is not size / time {at}"
    factor = 2 * (ranks - 1) / ranks if ranks else None
    if factor is not None and not _near(
        half.busbw_gbps, half.algbw_gbps * factor, _PLACE_GBPS * (1 + factor)
    ):
        return f"busbw is not that of {ranks} ranks {at}"
    return None


def _near(printed: float, expected: float, rounding: float) -> bool:
    """Within 2 %, and within what printing rounds away."""
    return abs(printed - expected) <= _MAX_DEVIATION * abs(expected) + rounding


def _average_problems(report: NcclReport) -> Iterator[str]:
    """The printed average is the plain mean of both halves of all rows."""
    printed = report.avg_busbw_gbps
    figures = [half.busbw_gbps for half in halves(report.rows) if half.busbw_gbps is not None]
    if printed is None or not figures:
        return
    mean = sum(figures) / len(figures)
    if abs(mean - printed) > _MAX_AVERAGE_DEVIATION * abs(printed) + _PLACE_GBPS:
        yield f"the rows average {mean:.2f} GB/s, the footer says {printed:g}: rows are missing"


def _list(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:16])
    return shown + (", ..." if len(numbers) > 16 else "")
