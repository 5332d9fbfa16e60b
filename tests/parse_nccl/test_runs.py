"""Several runs, or several processes, in one text: one table is read, and it is told which."""

from __future__ import annotations

import re

import pytest

from nodeprep.model.gate import NcclOutcome
from nodeprep.parse.nccl_tests import parse_nccl
from tests.parse_nccl.tables import FOUR, NAMES, simulated, top
from tests.simulator.nccl import simulate_all_reduce

SLOW = simulate_all_reduce("2.13.10", FOUR, NAMES, 6.0, simulated_line=False)
FAST = simulated("2.13.10")


def without_head(text: str, *, ranks: bool = False) -> str:
    """A table as authors cut it: from the column names on, or from the ranks on."""
    kept = re.sub(r"(?m)^# nThread.*\n#\n# Using devices\n", "", text)
    return kept if ranks else re.sub(r"(?m)^#  Rank .*\n", "", kept)


def labelled(text: str) -> str:
    return "".join(f" 0: {line}\n" for line in text.splitlines())


def broadcast(text: str) -> str:
    return re.sub(r"   sum      -1", "  none       0", text)


@pytest.mark.parametrize("label", [str, labelled])
@pytest.mark.parametrize("ranks", [True, False])
def test_after_a_footer_ranks_or_column_names_begin_another_run(label: type, ranks: bool) -> None:
    first, second = without_head(SLOW, ranks=ranks), without_head(FAST, ranks=ranks)
    report = parse_nccl(f"{label(first)}\nWith the other settings:\n\n{label(second)}")
    assert top(report) == (24.0, 24.0)
    assert len(report.rows) == 7
    assert len(report.ranks) == (4 if ranks else 0)
    assert not any("repeat" in problem or "average" in problem for problem in report.problems)


def test_rows_after_a_footer_are_of_another_run() -> None:
    rows = "\n".join(line for line in SLOW.splitlines() if "float" in line)
    report = parse_nccl(f"{FAST}\n{rows}\n")
    assert top(report) == (24.0, 24.0)
    assert report.problems == ()


def test_a_last_rank_alone_begins_another_run() -> None:
    """A page that shows the last rank line of each of its runs."""
    first = re.sub(r"(?m)^#  Rank  [0-2].*\n", "", without_head(FAST, ranks=True))
    second = first.replace("Rank  3", "Rank  7")
    report = parse_nccl(first + "\n" + second[: second.index("     8388608")])
    assert [rank.rank for rank in report.ranks] == [3]
    assert len(report.rows) == 7
    assert any("has no end" in problem for problem in report.problems)


def test_options_below_a_row_begin_another_run() -> None:
    cut = SLOW[: SLOW.index("    67108864")]
    report = parse_nccl(f"{cut}$ ./all_reduce_perf -g 4\n{FAST}")
    assert len(report.rows) == 7
    assert len(report.ranks) == 4
    assert top(report) == (24.0, 24.0)


def test_a_run_that_hung_before_its_first_row_is_told() -> None:
    hung = SLOW[: SLOW.index("     8388608")]
    report = parse_nccl(f"{hung}^C\n$ NCCL_P2P_DISABLE=1 ./all_reduce_perf -g 4\n{FAST}")
    assert report.outcome is NcclOutcome.OK
    assert len(report.ranks) == 4
    assert report.problems == (
        "another run in the text has no end: head of the output without any row",
    )


def test_two_processes_without_a_common_launcher_are_no_table() -> None:
    """Each prints ranks 0 to 3: what belongs to which cannot be told."""
    begin, end = FAST.index("#  Rank  0"), FAST.index("#\n#    ")
    head, ranks, table = FAST[:begin], FAST[begin:end], FAST[end:]
    others = ranks.replace("4242", "5353")
    rows = "".join(line for line in table.splitlines(keepends=True) if "float" in line)
    together = head + head + ranks + others + table
    footer = table[table.index("# Out") :]
    for text in (together + rows + footer, together + table, head + ranks + others + table):
        report = parse_nccl(text)
        assert report.outcome is NcclOutcome.MIXED
        assert "several processes" in report.reason
        assert len(report.ranks) == 8
        assert any("repeated" in problem for problem in report.problems)


def test_a_table_of_old_versions_is_known_by_its_rows() -> None:
    other = broadcast(FAST.replace("24.00", "16.00"))
    report = parse_nccl(f"{FAST}\n{other}")
    assert report.outcome is NcclOutcome.OK
    assert top(report) == (24.0, 24.0)
    assert report.problems == ()
    assert parse_nccl(other).outcome is NcclOutcome.NOT_ALL_REDUCE


def test_the_failure_of_another_run_is_told() -> None:
    wrong = simulate_all_reduce("2.13.10", FOUR, NAMES, 24.0, wrong=4, simulated_line=False)
    report = parse_nccl(f"{wrong}\n{FAST}")
    assert report.outcome is NcclOutcome.OK
    assert report.problems == ("another run in the text failed: 8 values out of bounds",)
    assert report.problems[0] in report.reason
    crash = "node-a: Test CUDA failure common.cu:422 'out of memory'\n .. pid 1: Test failure x:4\n"
    begin = FAST.index("     8388608")
    for text in (FAST[:begin] + crash + FAST, SLOW[: SLOW.index("    67108864")] + crash + FAST):
        report = parse_nccl(text)
        assert report.outcome is NcclOutcome.OK
        assert report.problems == ("another run in the text failed: out of memory",)


def test_a_good_outcome_names_what_speaks_against_it() -> None:
    plain = parse_nccl(simulated())
    assert (plain.problems, plain.reason) == ((), "a whole table, data checked")
    missing = parse_nccl(re.sub(r"(?m)^    33554432 .*\n", "", simulated()))
    assert missing.outcome is NcclOutcome.OK
    assert missing.reason == f"data checked, but {missing.problems[0]}"


def test_data_checked_in_part_is_not_checked() -> None:
    report = parse_nccl(re.sub(r"    0  213", "  N/A  213", simulated()))
    assert report.outcome is NcclOutcome.OK_UNVALIDATED


@pytest.mark.parametrize(
    "sentence",
    [
        "It fell from Avg bus bandwidth    : 24.5 to Avg bus bandwidth    : 3.5, see above.",
        "Averages: `Avg bus bandwidth    : 3.5`",
        "Avg bus bandwidth    : 3.5",
        "before it was Out of bounds values : 12 FAILED",
        "# Out of bounds values : 12 FAILED",
    ],
)
def test_figures_of_the_footer_are_its_own(sentence: str) -> None:
    plain = parse_nccl(simulated())
    for text in (f"{simulated()}\n{sentence}\n", f"{sentence}\n{simulated()}"):
        report = parse_nccl(text)
        assert report.avg_busbw_gbps == plain.avg_busbw_gbps
        assert report.out_of_bounds == 0
        assert report.outcome is NcclOutcome.OK
    cut = simulated()[: simulated().index("# Out")]
    if not sentence.startswith(("#", "Avg")):
        assert parse_nccl(f"{cut}{sentence}\n").outcome is NcclOutcome.TRUNCATED
