"""The plan: ranks, the limiting one, tokens, blocks, concurrency, what does not fit and why."""

from __future__ import annotations

from nodeprep.memory import kv_cache
from nodeprep.memory.advice import assumptions_of, recommend, warnings_of
from nodeprep.memory.choices import advice_for
from nodeprep.memory.outcome import cache_layout as cache_layout
from nodeprep.memory.outcome import outcome
from nodeprep.memory.resolve import resolve
from nodeprep.model.memory import MemoryPlan, ModelShape, PlanRequest


def plan(shape: ModelShape, request: PlanRequest) -> MemoryPlan:
    """What a start of that vLLM version will have left on each GPU.  Raises UsageError."""
    run = resolve(shape, request)
    out = outcome(run)
    advice = advice_for(shape, request, run, out)
    knobs = recommend(run, out.tightest, out.cache, out.blocks)
    size = next((one.value for one in advice if one.option == "tensor-parallel-size"), None)
    if size is not None and not knobs["max_model_len"]:
        knobs["tensor_parallel_size"] = int(size)
    return MemoryPlan(
        fits=out.limit is None,
        model=shape.name,
        gpu=run.gpu.name,
        tensor_parallel=run.tp,
        vllm_version=request.vllm_version,
        engine="V1" if run.v1 else "V0",
        kv_bytes_per_token=kv_cache.token_bytes(out.cache.kinds),
        block_size_tokens=out.cache.block_tokens,
        ranks=out.ranks,
        limiting_rank=out.tightest.rank,
        limit=out.limit,
        kv_cache_tokens=kv_cache.reported_tokens(
            out.blocks, out.cache, run.max_model_len, run.rules.reported
        ),
        num_blocks=out.blocks,
        max_concurrency=round(kv_cache.concurrency(out.blocks, out.cache), 2),
        max_model_len=run.max_model_len,
        max_num_seqs=run.max_num_seqs,
        max_num_batched_tokens=run.max_num_batched_tokens,
        gpu_memory_utilization=run.utilization,
        assumptions=assumptions_of(run),
        warnings=warnings_of(run, out.tightest, out.cache, out.blocks),
        recommended=knobs,
        advice=advice,
    )


def sessions(result: MemoryPlan, tokens: int) -> float:
    """Requests of that many tokens at once, for models whose layers all keep every token."""
    return result.num_blocks / -(-tokens // result.block_size_tokens)
