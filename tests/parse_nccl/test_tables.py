"""Tables as versions print them and as people paste them."""

from __future__ import annotations

import re

import pytest

from nodeprep.errors import ParseError
from nodeprep.model.gate import NcclOutcome
from nodeprep.parse.nccl_tests import parse_nccl, parse_nccl_document
from tests.parse_nccl.tables import FOUR, NAMES, simulated, top
from tests.simulator.nccl import VERSIONS, simulate_all_reduce

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
        "markdown table": [
            re.sub(r" {2,}", " | ", line) if "float" in line else line for line in lines
        ],
        "remarks": [line + "   <-- look" if "float" in line else line for line in lines],
        "tags in rows": [
            re.sub(r"( -1 )", r" -1[1,0]<stdout>: ", line) if "float" in line else line
            for line in lines
        ],
        "wrapped": [
            part
            for line in lines
            for part in (re.findall(r"(?: +\S+){1,9}", line) if "float" in line else (line,))
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


def test_endless_input_is_refused() -> None:
    with pytest.raises(ParseError):
        parse_nccl("8 2 float sum -1\n" * 60_000)
    with pytest.raises(ParseError):
        parse_nccl("x" * (64 << 20))


def test_document_is_flat() -> None:
    document = parse_nccl_document(simulated())
    assert document.ranks == 4
    assert document.rows == 7
    assert document.max_size_bytes == 512 << 20
    assert document.busbw_out_of_place_gbps == 24.0
    assert document.busbw_in_place_gbps == 24.0
    assert document.out_of_bounds == 0
    assert parse_nccl_document("nothing").max_size_bytes is None
