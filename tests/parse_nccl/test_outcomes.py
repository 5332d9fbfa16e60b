"""What an output proves: outcome, reason, and what does not add up."""

from __future__ import annotations

import re

import pytest

from nodeprep.model.gate import NcclOutcome
from nodeprep.parse.nccl_tests import parse_nccl
from tests.parse_nccl.tables import FOUR, NAMES, simulated, top
from tests.simulator.nccl import simulate_all_reduce


@pytest.mark.parametrize("cells", ["6.71089e+07", "96"])
def test_wrong_values_in_one_half_of_one_row(cells: str) -> None:
    lines = simulated("2.13.10").splitlines()
    row = next(place for place, line in enumerate(lines) if line.startswith("    67108864"))
    lines[row] = re.sub(r" 0( +\S+ +\S+ +\S+ +0)$", rf" {cells}\1", lines[row])
    text = "\n".join(lines).replace("values : 0 OK", "values : 4 FAILED")
    report = parse_nccl(text)
    assert report.outcome is NcclOutcome.WRONG_DATA
    assert report.out_of_bounds == 4
    wrong = report.rows[3].out_of_place
    assert wrong is not None
    assert wrong.wrong == float(cells)


def test_wrong_values_count_without_a_footer() -> None:
    text = simulated(wrong=7)
    assert parse_nccl(text[: text.index("# Out of bounds")]).outcome is NcclOutcome.WRONG_DATA


def test_data_not_checked() -> None:
    report = parse_nccl(simulated(validation=0))
    assert report.outcome is NcclOutcome.OK_UNVALIDATED
    assert report.validation == 0
    assert any("not checked" in problem for problem in report.problems)


def test_one_rank_measures_nothing() -> None:
    text = """\
# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8388608 step: 2(factor) validation: 1 graph: 0
#  Rank  0 Group  0 Pid   5092 on     node-a device  0 [0x21] NVIDIA GeForce RTX 5090
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     8388608       2097152     float     sum      -1    15.06  557.01    0.00      0     0.07  119837.26    0.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0
"""  # noqa: E501
    report = parse_nccl(text)
    assert report.outcome is NcclOutcome.NO_COMMUNICATION
    assert top(report) == (0.0, 0.0)


def test_every_cut_is_noticed() -> None:
    """Wherever a text ends before its average, it is not taken for a whole measurement."""
    text = simulated()
    whole = parse_nccl(text)
    footer = text.index("# Out of bounds")
    for end in range(0, footer, 37):
        report = parse_nccl(text[:end])
        assert report.outcome in (NcclOutcome.TRUNCATED, NcclOutcome.NO_TABLE)
        assert set(report.rows) <= set(whole.rows) if report.rows else True
    for end in range(footer, text.index("# Avg"), 5):
        assert parse_nccl(text[:end]).problems


def test_cut_inside_a_row_leaves_that_row_out() -> None:
    text = simulated("2.13.10")
    end = text.index("   268435456")
    for more in range(5, 110, 7):
        assert len(parse_nccl(text[: end + more]).rows) <= 6


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("33554432 1048576 float 817.8 41.03 35.90 0e+00 785.1 42.74 37.40 0e+00", "no reduction"),
        ("33554432 1048576 float none -1 817.8 41.03 35.90 0 785.1 42.74 37.40 N/A", "none"),
        ("33554432 8388608 float none 0 817.8 41.03 41.03 0 785.1 42.74 42.74 0", "none"),
        ("33554432 8388608 float sum 0 817.8 41.03 41.03 0 785.1 42.74 42.74 0", "root"),
        ("33554432 1048576 float sum -1 817.8 41.03 35.90 0 785.1 42.74 37.40 0", "count"),
        ("33554432 8388608 float sum -1 817.8 41.03 30.77 0 785.1 42.74 32.06 0", "0.750"),
    ],
)
def test_other_collectives_are_refused(rows: str, words: str) -> None:
    text = f"{rows}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 36.65\n"
    report = parse_nccl(text)
    assert report.outcome is NcclOutcome.NOT_ALL_REDUCE
    assert words in report.reason


def test_the_name_of_the_test_decides() -> None:
    report = parse_nccl(simulated().replace("all_reduce_perf", "reduce_scatter_perf_mpi"))
    assert report.outcome is NcclOutcome.NOT_ALL_REDUCE
    assert report.collective == "reduce_scatter"
    assert parse_nccl(simulated().replace("reduce_perf", "reduce_perf_mpi")).problems == ()


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("node-a: Test CUDA failure common.cu:422 'uncorrectable ECC error encountered'", "crash"),
        ("node-a: Test NCCL failure all_reduce.cu:44 'unhandled cuda error / '", "crash"),
        ("node-a: Test timeout (3s) common.cu:319\n .. pid 1: Test failure common.cu:405", "hang"),
        ("Invalid number of GPUs: 8 requested but only 7 were found.", "launch-error"),
        ("all_reduce_perf: error while loading shared libraries: libnccl.so.2: x", "launch-error"),
        ("bash: all_reduce_perf: command not found", "launch-error"),
        ("invalid option '?'\nUSAGE: all_reduce_perf \n\t[-t,--nthreads <num>]", "launch-error"),
        ("Cuda failure common.cu:732 'out of memory'", "crash"),
        ("mpirun detected that one or more processes exited with non-zero status", "crash"),
        (" .. node-a pid 30491: Test failure common.cu:1189", "crash"),
        ("Segmentation fault (core dumped)", "crash"),
        ("GPU0  GPU1\n X   PIX", "no-table"),
        ("", "no-table"),
    ],
)
def test_texts_without_a_table(text: str, outcome: str) -> None:
    report = parse_nccl(text)
    assert report.outcome.value == outcome
    assert bool(report.messages) == (outcome != "no-table")


def test_a_crash_in_the_table_is_a_crash() -> None:
    text = simulated()
    cut = text[: text.index("   134217728")]
    report = parse_nccl(cut + "node-a: Test NCCL failure all_reduce.cu:507 'unhandled cuda error'")
    assert report.outcome is NcclOutcome.CRASH
    assert report.reason == "unhandled cuda error"
    assert len(report.rows) == 4


def test_failure_lines_after_a_footer_change_nothing() -> None:
    report = parse_nccl(simulated() + "\n .. node-a pid 27169: Test failure common.cu:1454\n")
    assert report.outcome is NcclOutcome.OK
    assert report.messages


def test_the_last_whole_run_counts() -> None:
    slow = simulate_all_reduce("2.13.10", FOUR, NAMES, 6.0, transport="SHM")
    fast = simulated("2.13.10")
    report = parse_nccl(f"$ ./all_reduce_perf\n{slow}\n$ NCCL_X=1 ./all_reduce_perf\n{fast}")
    assert top(report) == (24.0, 24.0)
    assert report.transports == ("P2P/direct pointer",)
    assert report.problems == ()
    other = parse_nccl(fast + "\n" + simulated().replace("all_reduce_perf", "alltoall_perf"))
    assert other.outcome is NcclOutcome.OK
    cut = parse_nccl(slow + "\n" + fast[: fast.index("# Out")])
    assert top(cut) == (6.0, 6.0)


def changed(text: str, pattern: str, new: str) -> tuple[str, ...]:
    result = re.sub(pattern, new, text, count=1)
    assert result != text
    return parse_nccl(result).problems


def test_what_does_not_add_up_is_a_problem() -> None:
    text = simulated()
    assert any("missing" in p for p in changed(text, r"(?m)^    33554432 .*\n", ""))
    assert any("average" in p for p in changed(text, r"(?m)^     8388608 .*\n", ""))
    assert any("algbw" in p for p in changed(text, r" 15\.72 ", " 17.72 "))
    assert any("busbw" in p for p in changed(text, r" 24\.00 ", " 34.00 "))
    assert any("rank lines" in p for p in changed(text, r"(?m)^#  Rank  2.*\n", ""))
    assert any("hosts" in p for p in changed(text, r"(Rank  2 .*) node-a", r"\1 node-b"))
    assert any("share" in p for p in changed(text, r"0000:44:00", "0000:43:00"))
    assert any("last row" in p for p in changed(text, r"maxBytes 536870912", "maxBytes 1073741824"))
    assert any("footer" in p for p in changed(text, r"(?m)^# Avg.*\n", ""))
    assert any("repeat" in p for p in changed(text, r"(?m)^(    33554432 .*\n)", r"\1\1"))
    assert any("reduction" in p for p in changed(text, r"    sum ", "   prod "))
    assert any("not checked" in p for p in changed(text, r"    0  213", "  N/A  213"))
