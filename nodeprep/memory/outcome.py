"""What a resolved run comes to: ranks, the limiting one, blocks, the first limit hit."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from nodeprep.memory import budget, kv_cache
from nodeprep.memory.interval import alternatives, rank_budget
from nodeprep.memory.kv_cache import KvLayout
from nodeprep.memory.resolve import Resolved
from nodeprep.model.memory import RankBudget
from nodeprep.units import show_bytes

_CHECKED_AT_START = ("baseline", "snapshot", "consumed")
"""V1 from 0.9.1 on refuses to start when less is free than it asks for (v1/worker/utils.py)."""


class Outcome(NamedTuple):
    ranks: tuple[RankBudget, ...]
    tightest: RankBudget
    cache: KvLayout
    blocks: int
    """The least over the ranks; every rank takes this number."""
    limit: str | None
    """The first check of a start that fails, in vLLM's order; None: it starts."""


def outcome(run: Resolved) -> Outcome:
    """All ranks of the run, and whether it starts."""
    ranks = _ranks(run)
    tightest = min(ranks, key=lambda one: one.kv_cache_bytes)
    cache = cache_layout(run)
    blocks = kv_cache.blocks_in(tightest.kv_cache_bytes, cache)
    return Outcome(ranks, tightest, cache, blocks, _first_limit(run, tightest, cache, blocks))


def _ranks(run: Resolved) -> tuple[RankBudget, ...]:
    """The driver's rank is worked out, and one of the others, which are all alike."""
    first = rank_budget(run, 0)
    if run.tp == 1:
        return (first,)
    other = first if run.v1 and not alternatives(run) else rank_budget(run, 1)
    return (first, *(replace(other, rank=rank) for rank in range(1, run.tp)))


def cache_layout(run: Resolved) -> KvLayout:
    """The KV cache's layout of that run."""
    kinds = kv_cache.layer_kinds(
        run.shape, run.tp, run.kv_value_bytes, run.dtype_bytes, run.rules, run.kv_dtype
    )
    return kv_cache.layout(kinds, run.block_tokens, run.max_model_len, run.tokens_in_flight)


def free_at_start(run: Resolved) -> int:
    """Free memory of a GPU when vLLM looks: all but what was there, and NCCL where it is first."""
    present = run.context_size + run.busy_bytes
    before = budget.before_bytes(run.gpu, run.tp, run.budget, present, nvlink=run.nvlink)
    return run.gpu.total_bytes - before


def _first_limit(run: Resolved, rank: RankBudget, cache: KvLayout, blocks: int) -> str | None:
    free = free_at_start(run)
    if run.v1 and run.budget in _CHECKED_AT_START and rank.requested_bytes > free:
        return (
            f"free memory at start: {show_bytes(free)} free, {show_bytes(rank.requested_bytes)} "
            "requested (gpu_memory_utilization x total)"
        )
    if rank.weights_bytes > rank.total_bytes:
        return f"weights: {show_bytes(rank.weights_bytes)} a GPU of {show_bytes(rank.total_bytes)}"
    if rank.kv_cache_bytes <= 0 or blocks < 1:
        return (
            f"no memory left for the KV cache: weights {show_bytes(rank.weights_bytes)} and "
            f"{show_bytes(rank.non_kv_bytes - rank.weights_bytes + rank.cuda_graph_bytes)} of "
            f"activations and buffers in a budget of {show_bytes(rank.requested_bytes)}"
        )
    if blocks < cache.blocks_per_request:
        return (
            f"KV cache for one request of {run.max_model_len} tokens: "
            f"{show_bytes(kv_cache.request_tokens_bytes(cache))} needed, "
            f"{show_bytes(rank.kv_cache_bytes)} left"
        )
    return None
