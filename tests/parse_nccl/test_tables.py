"""Tables as versions print them and as people paste them."""

from __future__ import annotations

import re

import pytest

from nodeprep.errors import ParseError
from nodeprep.model.gate import NcclOutcome, NcclReport
from nodeprep.parse.nccl_tests import largest_row, parse_nccl, parse_nccl_document
from tests.simulator.nccl import VERSIONS, simulate_all_reduce

FOUR = [(index, f"0000:{0x43 + index:02x}:00.0") for index in range(4)]
NAMES = ["NVIDIA L40S"] * 4

FIRST_RELEASE = """\
# nThread 1 nGpus 2 minBytes 262144 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 \
validation: 1
# NCCL Tests compiled with NCCL 2.4
# Using devices
#   Rank  0 on     node-a device  0 [0x05] GeForce RTX 2080 Ti
#   Rank  1 on     node-a device  1 [0x06] GeForce RTX 2080 Ti

#                                                 out-of-place                    in-place
#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw
      262144         65536   float     sum    0.092   2.85   2.85    1e-07    0.093   2.82   2.82    1e-07
      524288        131072   float     sum    0.158   3.32   3.32    0e+00    0.160   3.28   3.28    0e+00
     1048576        262144   float     sum    0.293   3.58   3.58    0e+00    0.294   3.57   3.57    0e+00
 Out of bounds values : 0 OK
 Avg bus bandwidth    : 3.23667
"""  # noqa: E501

BEFORE_2_13 = """\
# nThread 1 nGpus 2 minBytes 8388608 maxBytes 33554432 step: 2(factor) warmup iters: 5 iters: 20 \
validation: 1
#
# Using devices
#   Rank  0 Pid  56789 on     node-a device  0 [0x1a] Tesla V100
#   Rank  1 Pid  56789 on     node-a device  1 [0x3d] Tesla V100
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152   float     sum    841.2    9.97    9.97  1e-07    838.9   10.00   10.00  1e-07
    16777216       4194304   float     sum   1641.7   10.22   10.22  1e-07   1643.1   10.21   10.21  1e-07
    33554432       8388608   float     sum    32454    1.03    1.03  1e-07    32455    1.03    1.03  1e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 7.07667
#
"""  # noqa: E501

PER_ITERATION = """\
# nccl-tests version 2.19.6 nccl-headers=22707 nccl-library=22707
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8388608 maxBytes 16777216 step: 2(factor) warmup iters: 1 iters: 20 \
agg iters: 1 validation: 1 graph: 0 unalign: 0
# Per-Iteration Report: CUDA event timing; i_* uses max over process rows
# Using devices
#  Rank  0 Group  0 Pid  27266 on         node-a device  0 [0000:16:00] NVIDIA L40S
#  Rank  1 Group  0 Pid  27266 on         node-a device  1 [0000:26:00] NVIDIA L40S
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    \
i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%
     8388608       2097152     float     sum      -1   569.95   14.72   14.72       0   560.10   \
590.00   589.50     1.20   570.44   14.71   14.71       0   561.00   592.00   591.00     1.30
    16777216       4194304     float     sum      -1  1115.17   15.04   15.04       0  1100.00  \
1130.00  1129.00     0.80  1116.93   15.02   15.02       0  1101.00  1131.00  1130.00     0.90
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 14.8725
#
# Collective test concluded: all_reduce_perf
"""


def simulated(version: str = "2.19.6", **options: object) -> str:
    return simulate_all_reduce(version, FOUR, NAMES, 24.0, simulated_line=False, **options)  # type: ignore[arg-type]


def top(report: NcclReport) -> tuple[float | None, float | None]:
    row = largest_row(report.rows)
    assert row is not None
    out, inside = row.out_of_place, row.in_place
    return out.busbw_gbps if out else None, inside.busbw_gbps if inside else None


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_same_table(version: str) -> None:
    report = parse_nccl(simulated(version))
    assert report.outcome is NcclOutcome.OK
    assert report.problems == ()
    assert [rank.rank for rank in report.ranks] == [0, 1, 2, 3]
    assert [row.size_bytes >> 20 for row in report.rows] == [8, 16, 32, 64, 128, 256, 512]
    assert top(report) == (24.0, 24.0)
    assert report.channels == dict.fromkeys(("0->1", "1->2", "2->3", "3->0"), "P2P/direct pointer")
    assert report.nccl_version == "2.27.7"


def test_simulation_says_so() -> None:
    assert parse_nccl(simulate_all_reduce("2.17.9", FOUR, NAMES, 24.0)).simulated
    assert not parse_nccl(simulated()).simulated


def test_first_release_prints_milliseconds() -> None:
    report = parse_nccl(FIRST_RELEASE)
    assert report.outcome is NcclOutcome.OK
    assert report.problems == ()
    assert top(report) == (3.58, 3.57)
    out = report.rows[-1].out_of_place
    assert out is not None
    assert out.time_us == pytest.approx(293)
    assert out.wrong is None
    assert out.error == 0


def test_error_column_is_no_count_of_wrong_values() -> None:
    report = parse_nccl(BEFORE_2_13)
    assert report.outcome is NcclOutcome.OK
    assert report.problems == ()
    out = report.rows[0].out_of_place
    assert out is not None
    assert (out.wrong, out.error) == (None, 1e-7)
    assert top(report) == (1.03, 1.03)


def test_per_iteration_columns_are_skipped() -> None:
    report = parse_nccl(PER_ITERATION)
    assert report.outcome is NcclOutcome.OK
    assert report.problems == ()
    assert top(report) == (15.04, 15.02)


def test_time_stamps_after_the_row_are_skipped() -> None:
    text = re.sub(r"(?m)^( +\d+ .*float.*)$", r"\1  2026-11-29 12:08:25", simulated())
    assert parse_nccl(text).rows == parse_nccl(simulated()).rows


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


def paste(text: str, how: str) -> str:
    lines = text.splitlines()
    changed = {
        "indented": ["    " + line for line in lines],
        "blank lines": [part for line in lines for part in (line, "")],
        "quoted": ["> " + line for line in lines],
        "crlf": [line + "\r" for line in lines],
        "no hashes": [line.lstrip("#") for line in lines],
        "all commented": ["# " + line for line in lines],
        "mpi tags": ["[1,0]<stdout>:" + line for line in lines],
        "prte tags": ["[prterun-node-a-77@1,0]<stdout>: " + line for line in lines],
        "pod log": ["2026-03-12T14:17:56.347804930Z stdout F " + line for line in lines],
        "compose log": ["worker-0  | " + line for line in lines],
        "colour": [f"\x1b[32m{line}\x1b[0m" for line in lines],
        "narrow": [re.sub(" +", " ", line) for line in lines],
        "markdown table": [re.sub(r" {2,}", " | ", line) for line in lines],
        "remarks": [line + "   <-- look" if "float" in line else line for line in lines],
        "tags in rows": [
            re.sub(r"( -1 )", r" -1[1,0]<stdout>: ", line) if "float" in line else line
            for line in lines
        ],
        "wrapped": [
            part
            for line in lines
            for part in ((line[:90], line[90:]) if "float" in line else (line,))
        ],
    }[how]
    return "\n".join(changed) + "\n"


WAYS = [
    "indented", "blank lines", "quoted", "crlf", "no hashes", "all commented", "mpi tags",
    "prte tags", "pod log", "compose log", "colour", "narrow", "markdown table", "remarks",
    "tags in rows", "wrapped",
]  # fmt: skip


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("version", VERSIONS)
def test_pastes_keep_their_figures(version: str, how: str) -> None:
    plain = parse_nccl(simulated(version))
    report = parse_nccl(paste(simulated(version), how))
    assert report.outcome is NcclOutcome.OK
    assert report.rows == plain.rows
    assert report.ranks == plain.ranks
    assert report.avg_busbw_gbps == plain.avg_busbw_gbps
    assert report.problems == ()


@pytest.mark.parametrize("glue", ["", " "])
def test_log_lines_inside_rows(glue: str) -> None:
    log = "node-b:12:34 [1] NCCL INFO Channel 02/0 : 0[0] -> 1[1] via P2P/direct pointer"
    text = re.sub(r" -1 +(?=\d)", f" -1{glue}{log}\n   ", simulated())
    assert parse_nccl(text).rows == parse_nccl(simulated()).rows
    between = re.sub(r"(?m)^( +\d+ .*float.*)$", rf"\1\n{log}", simulated())
    assert parse_nccl(between).rows == parse_nccl(simulated()).rows


def test_half_a_row_without_its_head_is_no_row() -> None:
    orphan = "    579.3    0.00    0.00      0    137.0    0.00    0.00      0\n"
    lines = simulated("2.13.10").splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if "float" in line)
    for place in (first, first + 3):
        text = "".join([*lines[:place], orphan, *lines[place:]])
        assert parse_nccl(text).rows == parse_nccl(simulated("2.13.10")).rows


def test_trimmed_columns() -> None:
    text = re.sub(r"(?m)^( +\d+ .*-1 +\S+ +\S+ +\S+) .*$", r"\1", simulated())
    text = re.sub(r"(?m)^# +size.*$", "#  size  count  type  redop  root  time  algbw  busbw", text)
    report = parse_nccl(text)
    assert len(report.rows) == 7
    assert top(report) == (24.0, None)
    assert report.outcome is NcclOutcome.OK_UNVALIDATED
    assert "half of the table is missing" in report.problems


def test_rows_alone_are_read_without_their_header() -> None:
    rows = "\n".join(line for line in simulated("2.13.10").splitlines() if "float" in line)
    report = parse_nccl(rows)
    assert report.outcome is NcclOutcome.TRUNCATED
    assert top(report) == (24.0, 24.0)
    old = "\n".join(line for line in BEFORE_2_13.splitlines() if "float" in line)
    assert top(parse_nccl(old)) == (1.03, 1.03)


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
    assert any("average" in p for p in changed(text, r"(?m)^    33554432 .*\n", ""))
    assert any("algbw" in p for p in changed(text, r" 15\.72 ", " 17.72 "))
    assert any("busbw" in p for p in changed(text, r" 24\.00 ", " 34.00 "))
    assert any("rank lines" in p for p in changed(text, r"(?m)^#  Rank  2.*\n", ""))
    assert any("hosts" in p for p in changed(text, r"(Rank  2 .*) node-a", r"\1 node-b"))
    assert any("share" in p for p in changed(text, r"0000:44:00", "0000:43:00"))
    assert any("last row" in p for p in changed(text, r"maxBytes 536870912", "maxBytes 1073741824"))
    assert any("footer" in p for p in changed(text, r"(?m)^# Avg.*\n", ""))
    assert any("repeat" in p for p in changed(text, r"(?m)^(    33554432 .*\n)", r"\1\1"))
    assert any("reduction" in p for p in changed(text, r"    sum ", "   prod "))
    assert any("not checked" in p for p in changed(text, r"  0   2134", "N/A   2134"))


def test_reduced_maximum_is_what_runs() -> None:
    text = simulated().replace("maxBytes 536870912", "maxBytes 17179869184")
    assert parse_nccl(text).problems
    note = "# Reducing maxBytes to 600000000 due to memory limitation\n#\n# Using devices"
    assert parse_nccl(text.replace("#\n# Using devices", note)).problems == ()


def test_cpu_time_is_no_bandwidth_measurement() -> None:
    text = simulated().replace("    time ", " cputime ")
    text = re.sub(r"( -1 +)\S+", r"\1   1.18", text)
    report = parse_nccl(text)
    assert report.outcome is NcclOutcome.OK
    assert top(report) == (24.0, 24.0)
    assert "the time column is CPU time (-C)" in report.problems


def test_binary_input_is_refused() -> None:
    with pytest.raises(ParseError):
        parse_nccl("\x7fELF\0\0")


def test_document_is_flat() -> None:
    document = parse_nccl_document(simulated())
    assert document.ranks == 4
    assert document.rows == 7
    assert document.max_size_bytes == 512 << 20
    assert document.busbw_out_of_place_gbps == 24.0
    assert document.busbw_in_place_gbps == 24.0
    assert document.out_of_bounds == 0
    assert parse_nccl_document("nothing").max_size_bytes is None
