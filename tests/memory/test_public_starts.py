"""Public logs with stated conditions: how near the plan comes, and how often its range holds."""

from __future__ import annotations

import statistics

from nodeprep.units import gib
from tests.memory.public_starts import planned, starts

FAR_OFF = {"kimi-linear-48b-awq-3090-tp2-0.11.1"}
"""64000 tokens a step through delta attention: what its kernels need is not modelled."""


def test_half_are_within_two_per_cent_and_the_range_holds_most() -> None:
    errors, inside = [], []
    for start in starts():
        rank = min(planned(start).ranks, key=lambda one: one.kv_cache_bytes)
        low, high = gib(rank.kv_cache_bytes_low), gib(rank.kv_cache_bytes_high)
        errors.append(abs(gib(rank.kv_cache_bytes) - start["kv_gib"]) / start["kv_gib"])
        inside.append(low - 0.01 <= start["kv_gib"] <= high + 0.01)
    assert statistics.median(errors) <= 0.02
    assert sum(inside) >= 0.7 * len(inside)


def test_all_but_the_known_one_are_within_five_per_cent() -> None:
    for start in starts():
        rank = min(planned(start).ranks, key=lambda one: one.kv_cache_bytes)
        off = abs(gib(rank.kv_cache_bytes) - start["kv_gib"]) / start["kv_gib"]
        assert off <= 0.05 or start["id"] in FAR_OFF, start["id"]
