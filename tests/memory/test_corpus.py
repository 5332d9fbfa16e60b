"""The recorded start-up logs in the folder `shared` beside the checkout, where it is there."""

from __future__ import annotations

import statistics
from pathlib import Path

import msgspec
import pytest

from nodeprep.units import gib
from tests.memory.recorded import Case, fails_to_start, planned, usable

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "memory" / "corpus.jsonl"
LEAST_GIB = 0.5


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    if not CORPUS.exists():
        pytest.skip("the folder `shared` is not beside this checkout")
    found = [msgspec.json.decode(line) for line in CORPUS.read_text().splitlines()]
    return [one for one in found if usable(one)]


@pytest.mark.parametrize("strict", [False, True])
def test_recorded_starts_are_met(cases: list[Case], strict: bool) -> None:
    errors, inside, widths = [], [], []
    for case in cases:
        logged = case["measured"].get("available_kv_gib")
        if (strict and not case.get("strict")) or not logged or logged <= LEAST_GIB:
            continue
        rank = min(planned(case).ranks, key=lambda one: one.kv_cache_bytes)
        low, high = gib(rank.kv_cache_bytes_low), gib(rank.kv_cache_bytes_high)
        errors.append(abs(gib(rank.kv_cache_bytes) - logged) / logged)
        inside.append(low - 0.01 <= logged <= high + 0.01)
        widths.append((high - low) / logged)
    assert len(errors) >= 20
    assert statistics.median(errors) <= 0.015
    assert sorted(errors)[int(0.9 * len(errors))] <= 0.08
    assert sum(inside) >= 0.9 * len(inside)
    assert statistics.median(widths) <= 0.08


def test_starts_that_failed_are_called_so(cases: list[Case]) -> None:
    failed = [case for case in cases if fails_to_start(case)]
    assert failed
    assert not any(planned(case).fits for case in failed)
