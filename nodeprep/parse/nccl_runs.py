"""Where the runs of nccl-tests in one text begin and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodeprep.parse.nccl_head import ends_run, prints_options, prints_rank, tells_failure
from nodeprep.parse.nccl_rows import read_header, starts_row


def split_runs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of the first line of each run and of the line after its last; at least one run.

    After a footer whatever a run prints begins the next one: options, ranks, column names, rows.
    So do options below column names or a row.  What stands between two runs belongs to the later
    one, but for a failure.  Options that come again before both belong to a launcher that starts
    several processes.
    """
    begin = 0
    last_end: int | None = None
    last_line: int | None = None
    for place, line in enumerate(lines):
        if ends_run(line) or (last_end is not None and tells_failure(line)):
            last_end = place
            continue
        of_table = starts_row(line) or read_header(line) is not None
        if last_end is not None and (of_table or _heads(line)):
            yield begin, last_end + 1
            begin, last_end, last_line = last_end + 1, None, None
        elif last_line is not None and prints_options(line):
            yield begin, last_line + 1
            begin, last_line = last_line + 1, None
        if of_table or (last_line is not None and tells_failure(line)):
            last_line = place
    yield begin, len(lines)


def _heads(line: str) -> bool:
    return prints_options(line) or prints_rank(line)
