from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import UsageError
from nodeprep.memory.gpus import find_gpu, gpu_models
from nodeprep.memory.versions import newest_version, parse_version, rules_for


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("NVIDIA L40", "NVIDIA L40"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB"),
        ("A100-80", "NVIDIA A100 80GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("H100NVL", "NVIDIA H100 NVL"),
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("RTX4090", "NVIDIA GeForce RTX 4090"),
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA RTX A6000", "NVIDIA RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA RTX PRO 6000 Blackwell"),
        ("Tesla T4", "Tesla T4"),
        ("Tesla V100-SXM2-16GB", "Tesla V100 16GB"),
        ("NVIDIA A10G", "NVIDIA A10"),
        ("nvidia b200", "NVIDIA B200"),
        ("NVIDIA GB200", "NVIDIA GB200"),
        ("NVIDIA H20-3e", "NVIDIA H20 141GB"),
        ("H200 SXM 141GB", "NVIDIA H200"),
        ("RTX 6000 Pro", "NVIDIA RTX PRO 6000 Blackwell"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "NVIDIA GeForce RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 2080", "NVIDIA GeForce RTX 2080"),
        ("DGX Spark", "NVIDIA GB10"),
    ],
)
def test_names_as_nvidia_smi_prints_them(name: str, found: str) -> None:
    assert find_gpu(name).name == found


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("RTX 4090 48GB", 46.5, 48),
        ("RTX 3080 12GB", 11.6, 12),
        ("NVIDIA A40-8Q", 7.7, 8),
        ("A100 MIG 1g.10gb", 9.4, 10),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 39, 40),
    ],
)
def test_a_size_in_the_name_counts(name: str, least: float, most: float) -> None:
    assert least <= find_gpu(name).total_gib <= most


@pytest.mark.parametrize(
    "name", ["NVIDIA GH200 480GB", "NVIDIA L40S-48Q", "NVIDIA H100 80GB HBM3", "A100 80GB PCIe"]
)
def test_the_size_that_the_table_has_is_no_news(name: str) -> None:
    assert not find_gpu(name).guessed_total


def test_every_row_finds_itself() -> None:
    for row in gpu_models():
        assert find_gpu(row.name).name == row.name
        assert row.source


def test_cuda_reports_less_than_the_nominal_size() -> None:
    assert find_gpu("NVIDIA L40S").total_gib < 44.71 < 48


@pytest.mark.parametrize("name", ["2x L40S", "2xL40S", "8 H100", "L40S x2", "L40S*2", "4 x A100"])
def test_a_number_of_gpus_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="number of GPUs"):
        find_gpu(name)


def test_an_unknown_gpu_needs_its_memory() -> None:
    with pytest.raises(UsageError) as raised:
        find_gpu("NVIDIA L40X")
    assert "NVIDIA L40" in raised.value.hint
    assert find_gpu("NVIDIA L40X", 47.37).total_gib == 47.37
    assert find_gpu("NVIDIA RTX A1000", 7.6).capability == ""


@pytest.mark.parametrize("size", [0.0, -1.0, 1e9, float("nan")])
def test_implausible_memory_is_refused(size: float) -> None:
    with pytest.raises(UsageError):
        find_gpu("NVIDIA L40S", size)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.7.2", (0, 7, 2)),
        ("0.10.1.1", (0, 10, 1)),
        ("0.10.1.1+cu128", (0, 10, 1)),
        ("v0.8.5.post1", (0, 8, 5)),
        ("0.11.0.post2", (0, 11, 0)),
        ("0.11.1rc3", (0, 11, 1)),
        ("0.26.1rc1.dev156+g0eec856cc.d20260731", (0, 26, 1)),
        ("0.6.5.dev12+gabc", (0, 6, 4)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("0.10", (0, 10, 0)),
    ],
)
def test_suffixes_map_to_their_release(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


@given(st.text(max_size=40))
def test_any_text_is_a_version_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_version(text) >= (0, 0, 0)


def test_rules_change_where_the_sources_do() -> None:
    at = {v: rules_for(parse_version(v)) for v in ("0.6.3", "0.10.2", "0.11.0", "0.19.1", "0.20.0")}
    assert at["0.6.3"].budget_v0 == "freed"
    assert at["0.10.2"].budget_v1 == "baseline"
    assert at["0.11.0"].budget_v1 == "snapshot"
    assert (at["0.19.1"].utilization, at["0.20.0"].utilization) == (0.90, 0.92)
    assert (at["0.19.1"].graphs, at["0.20.0"].graphs) == ("none", "v1")
    assert rules_for(parse_version("0.99.0")).v2 == rules_for(parse_version(newest_version())).v2
    with pytest.raises(UsageError):
        rules_for((0, 2, 5))
