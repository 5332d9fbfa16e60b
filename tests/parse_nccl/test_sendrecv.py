"""sendrecv prints what all_reduce prints on two ranks, but for what it checks."""

from __future__ import annotations

import re

import pytest

from nodeprep.model.gate import NcclOutcome
from nodeprep.parse.nccl_tests import parse_nccl
from tests.simulator.nccl import VERSIONS, simulate_all_reduce

TWO = [(0, "0000:43:00.0"), (1, "0000:44:00.0")]
CUTS = ["whole", "no footer", "no ranks", "rows alone", "one row"]


def all_reduce(version: str = "2.13.10", ranks: int = 2, *, validation: int = 1) -> str:
    devices = [(index, f"0000:{0x43 + index:02x}:00.0") for index in range(ranks)]
    return simulate_all_reduce(
        version, devices, ["NVIDIA L40S"] * ranks, 24.0, simulated_line=False,
        validation=validation,
    )  # fmt: skip


def sendrecv(version: str = "2.13.10") -> str:
    """In place nothing is checked (src/sendrecv.cu); the bus bandwidth is the algorithm's."""
    text = re.sub(r"(?m)^( +\d+ .*float.* )0$", r"\1N/A", all_reduce(version))
    assert text.count("N/A") == 7
    return re.sub(r"(?m)^# Collective test .*\n", "", text)


def cut(text: str, how: str) -> str:
    rows = [line for line in text.splitlines() if "float" in line]
    return {
        "whole": text,
        "no footer": text[: text.index("# Out")],
        "no ranks": re.sub(r"(?m)^#  Rank .*\n", "", text),
        "rows alone": "\n".join(rows),
        "one row": rows[-1],
    }[how]


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_name_the_checked_half_tells(version: str, how: str) -> None:
    report = parse_nccl(cut(sendrecv(version), how))
    assert report.outcome is NcclOutcome.NOT_ALL_REDUCE
    assert "sendrecv" in report.reason


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("validation", [0, 1])
@pytest.mark.parametrize("version", VERSIONS)
def test_all_reduce_is_never_taken_for_it(
    version: str, validation: int, ranks: int, how: str
) -> None:
    text = all_reduce(version, ranks, validation=validation)
    assert parse_nccl(cut(text, how)).outcome is not NcclOutcome.NOT_ALL_REDUCE


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_reduce_without_its_last_columns_is_not_refused(ranks: int) -> None:
    text = all_reduce("2.13.10", ranks)
    for cells in (1, 2, 3, 4):
        shorter = re.sub(rf"(?m)^( +\d+ .*float.*?)(?: +\S+){{{cells}}}$", r"\1", text)
        assert parse_nccl(shorter).outcome is not NcclOutcome.NOT_ALL_REDUCE


def test_the_program_named_above_the_rows_counts_where_nothing_is_checked() -> None:
    unchecked = all_reduce(validation=0)
    named = parse_nccl(f"$ ./build/sendrecv_perf -b 8M -e 512M -g 2\n{unchecked}")
    assert named.outcome is NcclOutcome.NOT_ALL_REDUCE
    assert named.collective == "sendrecv"
    below = parse_nccl(f"$ ./build/all_reduce_perf\n{unchecked}\nAnd with sendrecv_perf?\n")
    assert below.outcome is NcclOutcome.OK_UNVALIDATED
    assert below.collective == "all_reduce"


def test_checked_in_place_proves_all_reduce_whatever_is_named() -> None:
    text = f"sendrecv_perf reaches 20 GB/s. And the other one:\n{all_reduce()}"
    assert parse_nccl(text).outcome is NcclOutcome.OK


def test_the_head_of_another_program_is_no_cut_all_reduce() -> None:
    head = all_reduce()[: all_reduce().index("     8388608")]
    assert parse_nccl(f"$ ./sendrecv_perf -g 2\n{head}").outcome is NcclOutcome.NOT_ALL_REDUCE
    assert parse_nccl(f"$ ./all_reduce_perf -g 2\n{head}").outcome is NcclOutcome.TRUNCATED


def test_programs_for_amd_gpus_print_a_negative_count_where_nothing_is_checked() -> None:
    unchecked = all_reduce(validation=0).replace("N/A", " -1")
    report = parse_nccl(unchecked.replace("validation: 0", "validation: 1"))
    assert report.outcome is NcclOutcome.OK_UNVALIDATED
