"""The CSV queries of nvidia-smi, and its list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.nvidia_smi import GpuListing, MigListing
from nodeprep.parse.nvidia_smi import parse_gpu_list, parse_query_csv
from tests.parse.attempt import value_of

CSV = """\
index, name, memory.total [MiB], pcie.link.width.current, mig.mode.current
0, NVIDIA L40S, 46068 MiB, 16, [N/A]
1, NVIDIA L40S, 46068 MiB, 8, Disabled
"""


def test_names_lose_their_unit_and_values_keep_theirs() -> None:
    first, second = parse_query_csv(CSV)
    assert first == {
        "index": "0",
        "name": "NVIDIA L40S",
        "memory.total": "46068 MiB",
        "pcie.link.width.current": "16",
        "mig.mode.current": None,
    }
    assert second["mig.mode.current"] == "Disabled"


def test_nounits() -> None:
    assert parse_query_csv(CSV.replace(" MiB,", ","))[0]["memory.total"] == "46068"


@pytest.mark.parametrize(
    "cell",
    ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "Unknown", "",
     "[Insufficient Permissions]"],
)  # fmt: skip
def test_no_answers_are_none(cell: str) -> None:
    assert parse_query_csv(f"index, name\n0, {cell}\n")[0]["name"] is None


def test_noheader_needs_the_names() -> None:
    rows = "0, NVIDIA L4\n1, NVIDIA L4\n"
    assert parse_query_csv(rows, ("index", "name"))[1] == {"index": "1", "name": "NVIDIA L4"}
    assert parse_query_csv("index, name\n" + rows, ("index", "name"))[0]["index"] == "0"
    with pytest.raises(ParseError):
        parse_query_csv(rows)


@pytest.mark.parametrize(
    "text",
    [
        "$ nvidia-smi --query-gpu=index,name --format=csv\n" + CSV,
        "```\n" + CSV + "```\n",
        CSV + "root@gpu1:~# \n",
        CSV.replace("\n", "\r\n"),
        "> " + CSV.replace("\n", "\n> "),
        CSV.rstrip("\n"),
    ],
)
def test_pastes(text: str) -> None:
    assert parse_query_csv(text) == parse_query_csv(CSV)


def test_a_cut_row_is_no_smaller_machine() -> None:
    with pytest.raises(ParseError, match="fields below"):
        parse_query_csv(CSV[: CSV.rindex(", 8")])
    with pytest.raises(ParseError, match="fields below"):
        parse_query_csv(CSV + "0, 1, 2, 3, 4, 5\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", "nvidia-smi failed"),
        ("No devices were found\n", "nvidia-smi failed"),
        ("hello, world\n", "no output"),
        ("", "no output"),
    ],
)
def test_failures(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_query_csv(text)
    assert caught.value.hint


def test_a_header_alone_is_an_empty_table() -> None:
    assert parse_query_csv("name\n") == ()


LIST = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5b2c4c1e-0000-1111-2222-333333333333)
  MIG 3g.40gb     Device  0: (UUID: MIG-6f3e-01)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-GPU-5b2c/3/0)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-9)
"""


def test_list() -> None:
    assert parse_gpu_list(LIST) == (
        GpuListing(
            index=0,
            name="NVIDIA H100 80GB HBM3",
            uuid="GPU-5b2c4c1e-0000-1111-2222-333333333333",
            mig=(
                MigListing(profile="3g.40gb", index=0, uuid="MIG-6f3e-01"),
                MigListing(profile="1g.10gb+me", index=1, uuid="MIG-GPU-5b2c/3/0"),
            ),
        ),
        GpuListing(index=1, name="NVIDIA H100 80GB HBM3", uuid="GPU-9"),
    )


def test_no_list() -> None:
    with pytest.raises(ParseError, match="no output"):
        parse_gpu_list("|   0  NVIDIA L4      Off |\n")


WORDS = st.sampled_from(
    ["index", "name", "memory.total [MiB]", "0", "NVIDIA L4", "[N/A]", ",", ", ", "\n", '"',
     "GPU 0:", "(UUID: GPU-1)", "MIG 1g.10gb Device 0: (UUID: MIG-1)"]
)  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(max_size=6)), max_size=50).map("".join))
def test_any_text(text: str) -> None:
    value_of(parse_query_csv, text)
    value_of(parse_gpu_list, text)
