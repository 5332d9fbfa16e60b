"""The plan: ranks, the limiting one, tokens, blocks, concurrency, what does not fit and why."""

from __future__ import annotations

from nodeprep.memory import budget, kv_cache
from nodeprep.memory.advice import assumptions_of, recommend, warnings_of
from nodeprep.memory.interval import rank_budget
from nodeprep.memory.kv_cache import KvLayout
from nodeprep.memory.resolve import Resolved, resolve
from nodeprep.model.memory import MemoryPlan, ModelShape, PlanRequest, RankBudget
from nodeprep.units import show_bytes


def plan(shape: ModelShape, request: PlanRequest) -> MemoryPlan:
    """What a start of that vLLM version will have left on each GPU.  Raises UsageError."""
    run = resolve(shape, request)
    ranks = tuple(rank_budget(run, rank) for rank in range(run.tp))
    tightest = min(ranks, key=lambda one: one.kv_cache_bytes)
    cache = cache_layout(run)
    blocks = kv_cache.blocks_in(tightest.kv_cache_bytes, cache)
    limit = first_limit(run, tightest, cache, blocks)
    tokens = kv_cache.reported_tokens(blocks, cache, run.max_model_len, run.rules.reported)
    return MemoryPlan(
        fits=limit is None,
        model=shape.name,
        gpu=run.gpu.name,
        tensor_parallel=run.tp,
        vllm_version=request.vllm_version,
        engine="V1" if run.v1 else "V0",
        kv_bytes_per_token=kv_cache.token_bytes(cache.kinds),
        block_size_tokens=cache.block_tokens,
        ranks=ranks,
        limiting_rank=tightest.rank,
        limit=limit,
        kv_cache_tokens=tokens,
        num_blocks=blocks,
        max_concurrency=round(kv_cache.concurrency(blocks, cache), 2),
        max_model_len=run.max_model_len,
        max_num_seqs=run.max_num_seqs,
        max_num_batched_tokens=run.max_num_batched_tokens,
        gpu_memory_utilization=run.utilization,
        assumptions=assumptions_of(run),
        warnings=warnings_of(run, tightest, cache, blocks),
        recommended=recommend(run, tightest, cache, blocks),
    )


def cache_layout(run: Resolved) -> KvLayout:
    """The KV cache's layout of that run."""
    kinds = kv_cache.layer_kinds(
        run.shape, run.tp, run.kv_value_bytes, run.dtype_bytes, run.rules, run.kv_dtype
    )
    return kv_cache.layout(kinds, run.block_tokens, run.max_model_len, run.max_num_batched_tokens)


def sessions(result: MemoryPlan, tokens: int) -> float:
    """Requests of that many tokens at once, for models whose layers all keep every token."""
    return result.num_blocks / -(-tokens // result.block_size_tokens)


def first_limit(run: Resolved, rank: RankBudget, cache: KvLayout, blocks: int) -> str | None:
    """The first check of a start that fails, in the order in which vLLM makes them."""
    free = rank.total_bytes - budget.before_bytes(run.gpu, run.tp, run.budget, nvlink=run.nvlink)
    if (
        run.budget in ("baseline", "snapshot", "consumed")
        and run.v1
        and rank.requested_bytes > free
    ):
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
