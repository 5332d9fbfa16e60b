"""Which GPU holds more than its peers, and the process that holds it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodeprep.audit.checks.memory_skew import memory_skew
from nodeprep.audit.view import View
from nodeprep.model.finding import Finding
from nodeprep.model.gpu import Gpu, GpuProcess
from nodeprep.model.skew import skews
from nodeprep.settings import Settings
from nodeprep.units import GIB, MIB
from tests.build import facts, switch_of

WORKER = 40 * GIB


def gpu(
    index: int, used: int | None, *processes: tuple[int, int | None], total: int = 46068 * MIB
) -> Gpu:
    node = facts(switch_of(4))
    return replace(
        node.gpus[index],
        memory_total_bytes=total,
        memory_used_bytes=used,
        processes=tuple(GpuProcess(pid=pid, memory_bytes=size) for pid, size in processes),
    )


def group(first: Gpu, *, count: int = 4) -> tuple[Gpu, ...]:
    """`first`, and peers that hold a worker each and 500 MiB of the driver."""
    peers = [gpu(i, WORKER + 500 * MIB, (100 + i, WORKER)) for i in range(1, count)]
    return (first, *peers)


def found(*gpus: Gpu) -> list[Finding]:
    node = replace(facts(switch_of(4)), gpus=gpus, pairs=())
    return list(memory_skew(View(node, Settings())))


def parts(*gpus: Gpu) -> dict[str, int]:
    (skew,) = skews(gpus)
    assert sum(one.bytes for one in skew.parts) == skew.difference_bytes
    return {one.kind: one.bytes for one in skew.parts}


def test_equal_ranks_are_no_finding() -> None:
    assert found(*group(gpu(0, WORKER + 500 * MIB, (100, WORKER)))) == []


def test_stray_contexts_of_the_other_ranks() -> None:
    stray = [(100 + i, 450 * MIB) for i in (1, 2, 3)]
    first = gpu(0, WORKER + 500 * MIB + 3 * 450 * MIB, (100, WORKER), *stray)
    (finding,) = found(*group(first))
    assert finding.id == "gpu0-memory-skew"
    assert finding.subject == "GPU0"
    assert "context" in finding.cause
    assert "101, 102, 103" in finding.evidence[1].text
    assert parts(*group(first)) == {"stray": 3 * 450 * MIB}


def test_a_display_and_another_user() -> None:
    first = gpu(0, WORKER + 3 * GIB + 500 * MIB, (100, WORKER), (7, GIB), (8, 2 * GIB))
    assert parts(*group(first)) == {"others": 3 * GIB}
    (finding,) = found(*group(first))
    assert "further processes" in finding.cause
    assert "(pid 7, 8)" in finding.evidence[1].text


def test_a_worker_that_gathers_and_samples() -> None:
    first = gpu(0, WORKER + GIB + 500 * MIB, (100, WORKER + GIB))
    assert parts(*group(first)) == {"worker": GIB}
    assert "V0" in found(*group(first))[0].cause


def test_memory_of_no_listed_process() -> None:
    first = gpu(0, WORKER + 500 * MIB + 2 * GIB, (100, WORKER))
    assert parts(*group(first)) == {"unlisted": 2 * GIB}


def test_the_largest_part_names_the_cause() -> None:
    first = gpu(0, WORKER + 500 * MIB + 3 * GIB, (100, WORKER), (9, GIB))
    (finding,) = found(*group(first))
    assert "no listed process" in finding.cause
    assert list(parts(*group(first))) == ["unlisted", "others"]


def test_only_use_is_known() -> None:
    """In a container NVML gives no process; the difference is still seen, and not explained."""
    gpus = [gpu(i, WORKER + (2 * GIB if i == 0 else 0)) for i in range(4)]
    assert parts(*gpus) == {"unlisted": 2 * GIB}


@pytest.mark.parametrize(
    "gpus",
    [
        (gpu(0, None), gpu(1, None)),
        (gpu(0, 3 * GIB, (1, 2 * GIB)), gpu(1, 4 * MIB)),  # one job, an idle peer
        (gpu(0, 30 * GIB, (1, 30 * GIB)), gpu(1, 8 * GIB, (2, 8 * GIB))),  # two jobs
        (gpu(0, WORKER, total=80 * GIB), gpu(1, WORKER - GIB)),  # two models of GPU
        (gpu(0, 400 * MIB), gpu(1, 4 * MIB)),  # a display on an idle node
        (gpu(0, WORKER),),
    ],
)
def test_what_is_no_group_or_not_known_is_no_finding(gpus: tuple[Gpu, ...]) -> None:
    assert found(*gpus) == []


def test_a_process_listed_twice_counts_once() -> None:
    first = gpu(0, WORKER + 500 * MIB, (100, WORKER), (100, WORKER))
    assert found(*group(first)) == []


def test_unknown_sizes_of_processes_are_no_figure() -> None:
    first = gpu(0, WORKER + 500 * MIB + GIB, (100, WORKER), (9, None))
    assert parts(*group(first)) == {"unlisted": GIB}


SIZES = st.integers(0, 80 * GIB)
PROCESSES = st.lists(st.tuples(st.integers(1, 6), st.none() | SIZES), max_size=6)


@given(st.lists(st.tuples(st.none() | SIZES, PROCESSES), max_size=4))
def test_the_parts_always_sum_to_the_difference(cards: list[tuple[Any, Any]]) -> None:
    gpus = [gpu(i, used, *processes) for i, (used, processes) in enumerate(cards)]
    for skew in skews(gpus):
        assert sum(one.bytes for one in skew.parts) == skew.difference_bytes > 0
        assert skew.parts[0].bytes > 0
