"""What an output of nccl-tests proves, before any threshold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodeprep.model.base import Record
from nodeprep.model.gate import NcclHalf, NcclOutcome, NcclRank, NcclRow
from nodeprep.parse.nccl_head import CUDA_OR_NCCL, FAILURE, LAUNCH, TIMEOUT, TOO_FEW_GPUS, Footer
from nodeprep.parse.nccl_text import Wording

TYPE_BYTES = {
    "int8": 1, "uint8": 1, "char": 1, "int32": 4, "uint32": 4, "int": 4, "uint": 4, "int64": 8,
    "uint64": 8, "half": 2, "float16": 2, "float": 4, "float32": 4, "double": 8, "float64": 8,
    "bfloat16": 2, "bf16": 2,
}  # fmt: skip
_NAME = "all_reduce"
_POINT_TO_POINT = ("sendrecv", "bisection")
"""They print a reduction, root -1 and a size of count elements too, and a bus bandwidth that is the
algorithm's, as all_reduce has it on two ranks; in place they never check (src/sendrecv.cu)."""
_OTHERS = (
    *_POINT_TO_POINT, "all_gather", "alltoall", "alltoallv", "broadcast", "gather", "hypercube",
    "reduce", "reduce_scatter", "scatter",
)  # fmt: skip
_NEAR_ONE = 1.05


class Evidence(Record, frozen=True):
    """One run, read but not judged."""

    lines: tuple[str, ...]
    """Table lines and NCCL's lines that may tell a failure."""
    collective: str | None
    """By the program's own word."""
    hint: str | None
    """By a file name or a command line."""
    header_seen: bool
    ranks: tuple[NcclRank, ...]
    rows: tuple[NcclRow, ...]
    roots: tuple[int | None, ...]
    footer: Footer
    validation: int | None
    mixed: bool = False
    """Rank numbers come more than once: several processes, each with a table of its own."""


def judge_outcome(seen: Evidence) -> tuple[NcclOutcome, str]:
    """Outcome and reason.

    A footer is printed after the last row, so with it the table counts, whatever follows;
    without it a failure message explains why the table ends.
    """
    if seen.footer.present and seen.rows:
        return _judge_rows(seen) or (NcclOutcome.OK, "a whole table, data checked")
    failure = _failure(seen)
    if failure is not None:
        return failure
    if seen.rows:
        proven = _judge_rows(seen)
        if proven is not None and proven[0] is not NcclOutcome.OK_UNVALIDATED:
            return proven
        return NcclOutcome.TRUNCATED, f"{len(seen.rows)} rows and no footer: the text is cut"
    if seen.header_seen or seen.ranks or seen.footer.present:
        named = seen.collective or seen.hint
        if named in _OTHERS:
            return NcclOutcome.NOT_ALL_REDUCE, f"head of {named}_perf without any row"
        return NcclOutcome.TRUNCATED, "head of the output without any row"
    return NcclOutcome.NO_TABLE, "no table of nccl-tests in the text"


def _judge_rows(seen: Evidence) -> tuple[NcclOutcome, str] | None:
    """What speaks against the rows themselves; None: nothing."""
    other = another_collective(seen)
    if other:
        return NcclOutcome.NOT_ALL_REDUCE, other
    if _alone(seen):
        return (
            NcclOutcome.NO_COMMUNICATION,
            "one rank: nothing was sent, bus bandwidth is 0 by its formula",
        )
    wrong = _wrong(seen)
    if wrong:
        return NcclOutcome.WRONG_DATA, wrong
    if seen.mixed:
        return (
            NcclOutcome.MIXED,
            "rank numbers repeat: several processes print here, and no table can be told apart",
        )
    return _unchecked(seen)


def _unchecked(seen: Evidence) -> tuple[NcclOutcome, str] | None:
    """What was not compared; None: all was."""
    checked = [half.checked for half in halves(seen.rows)]
    if seen.validation == 0 or not any(checked):
        return NcclOutcome.OK_UNVALIDATED, "the data was not checked (-c 0, or a cut column)"
    if not all(checked):
        return NcclOutcome.OK_UNVALIDATED, "the data was checked in part only"
    return None


def _wrong(seen: Evidence) -> str | None:
    count = seen.footer.out_of_bounds
    if count or seen.footer.out_of_bounds_ok is False:
        return f"{count} values out of bounds"
    for row in seen.rows:
        for half in (row.out_of_place, row.in_place):
            if half is not None and half.wrong:
                return f"{half.wrong:g} wrong values at {row.size_bytes} bytes"
    return None


def _alone(seen: Evidence) -> bool:
    """Whether only one rank took part: bus bandwidth 0 where algorithm bandwidth is not."""
    busbw = [half.busbw_gbps for half in halves(seen.rows)]
    if any(busbw):
        return False
    fast = max((half.algbw_gbps or 0.0 for half in halves(seen.rows)), default=0.0)
    return fast >= 0.5 or len({rank.rank for rank in seen.ranks}) == 1


def _failure(seen: Evidence) -> tuple[NcclOutcome, str] | None:
    """What a failure message says; None: there is none."""
    hang = _search(TIMEOUT, seen.lines)
    if hang:
        return NcclOutcome.HANG, f"the run did not end: {hang}"
    few = _search(TOO_FEW_GPUS, seen.lines)
    if few:
        return NcclOutcome.LAUNCH_ERROR, few
    cause = _cause(seen.lines)
    if cause:
        return NcclOutcome.CRASH, cause
    crash = _search(FAILURE, seen.lines)
    if crash:
        return NcclOutcome.CRASH, f"the program failed: {crash}"
    launch = None if seen.rows or seen.header_seen else _search(LAUNCH, seen.lines)
    if launch:
        return NcclOutcome.LAUNCH_ERROR, f"the program did not start its test: {launch}"
    return None


def _cause(lines: Sequence[str]) -> str | None:
    """The text of the first CUDA or NCCL error."""
    return next(((match[1] or match[2]).strip(" /") for match in CUDA_OR_NCCL.each(lines)), None)


def _search(wording: Wording, lines: Sequence[str]) -> str | None:
    return next((line.strip()[:200] for line in lines if wording.search(line)), None)


def another_collective(seen: Evidence) -> str | None:
    """Why the rows are not those of all_reduce; None: they are, or nothing speaks against it.

    The program's own word decides.  Without it: all_reduce prints a reduction, root -1 (or no root
    column), a size of count elements, and a bus bandwidth of 2(n-1)/n times the algorithm's
    (src/all_reduce.cu), which no other collective has above 1.  sendrecv prints the same on two
    ranks: what it checks tells the two apart.
    """
    if seen.collective is not None:
        return None if seen.collective == _NAME else f"the table is of {seen.collective}"
    factor = bus_factor(seen.rows)
    reductions = {row.redop for row in seen.rows}
    if reductions == {"none"}:
        return "reduction none: the table is of another collective"
    if reductions == {None} and seen.hint != _NAME and (factor is None or factor < _NEAR_ONE):
        return "no reduction column: the table is of another collective"
    if any(root is not None and root >= 0 for root in seen.roots):
        return "the rows name a root: the table is of reduce or broadcast"
    if any(_counts_otherwise(row) for row in seen.rows):
        return "size is not count elements: the table is of another collective"
    point_to_point = _point_to_point(seen, factor)
    if point_to_point:
        return point_to_point
    listed = max((rank.rank for rank in seen.ranks), default=1) + 1
    lowest = 2 * (listed - 1) / listed if listed >= 2 else 1.0
    if factor is not None and 0 < factor < 0.97 * lowest:
        return f"bus bandwidth is {factor:.3f} of algorithm bandwidth: not all_reduce"
    return None


def _point_to_point(seen: Evidence, factor: float | None) -> str | None:
    """Why the rows are those of sendrecv; None: they are not, or nothing tells."""
    inside = [row.in_place for row in seen.rows if row.in_place is not None]
    if any(half.checked for half in inside) or (factor is not None and factor >= _NEAR_ONE):
        return None
    outside = [row.out_of_place for row in seen.rows if row.out_of_place is not None]
    if len(inside) == len(seen.rows) and outside and all(half.checked for half in outside):
        return "checked out of place only, as sendrecv is: the table is not of all_reduce"
    if seen.hint in _POINT_TO_POINT:
        return f"the text names {seen.hint}_perf: the table is not of all_reduce"
    return None


def bus_factor(rows: Sequence[NcclRow]) -> float | None:
    """busbw / algbw where both are printed with enough digits; None: nowhere."""
    best = max(halves(rows), key=lambda half: half.algbw_gbps or 0.0, default=None)
    if best is None or best.busbw_gbps is None or not best.algbw_gbps or best.algbw_gbps < 0.25:
        return None
    return best.busbw_gbps / best.algbw_gbps


def _counts_otherwise(row: NcclRow) -> bool:
    """Whether size and count contradict each other; size 0 says nothing."""
    width = TYPE_BYTES.get(row.dtype or "")
    if width is None or not row.count or not row.size_bytes:
        return False
    return row.size_bytes // width != row.count


def halves(rows: Sequence[NcclRow]) -> Iterator[NcclHalf]:
    """All halves of all rows."""
    for row in rows:
        for half in (row.out_of_place, row.in_place):
            if half is not None:
                yield half
