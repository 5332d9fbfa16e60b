"""What follows from the numbers: knobs, assumptions, warnings."""

from __future__ import annotations

from typing import Any

import msgspec

from nodeprep.memory import budget, kv_cache
from nodeprep.memory.cuda_graphs import graph_bytes
from nodeprep.memory.kv_cache import KvLayout
from nodeprep.memory.lengths import captured_size, longest_for
from nodeprep.memory.resolve import Resolved
from nodeprep.memory.terms import rank_terms
from nodeprep.model.memory import RankBudget
from nodeprep.units import MIB, show_bytes

_MARGIN = 150 * MIB
"""What vLLM itself leaves out when it suggests --kv-cache-memory (gpu_worker.py)."""
_HIGHEST_UTILIZATION = 0.95
_BYTES_FLAG_SINCE = (0, 10, 2)


def recommend(run: Resolved, rank: RankBudget, cache: KvLayout, blocks: int) -> dict[str, Any]:
    """The knobs that these numbers support, by their vLLM names: a set that starts as it stands.

    The length and the sequences fit into kv_cache_memory_bytes, where the release has it.  Where
    not even a short request fits, only what must change is named.
    """
    exact = kv_cache_memory_bytes(run, rank)
    sure = kv_cache.blocks_in(exact, cache) if exact else blocks
    length = longest(run, sure)
    knobs: dict[str, Any] = {
        "gpu_memory_utilization": safe_utilization(run),
        "max_model_len": length,
        "max_num_seqs": sequences(run, cache, sure),
        "max_num_batched_tokens": run.max_num_batched_tokens,
    }
    if exact and length:
        knobs["kv_cache_memory_bytes"] = exact
    if not length:
        knobs["kv_cache_dtype"] = "fp8" if run.kv_value_bytes > 1 else run.kv_dtype
    return knobs


def kv_cache_memory_bytes(run: Resolved, rank: RankBudget) -> int:
    """A safe --kv-cache-memory-bytes: the low end less vLLM's own margin; 0: no flag or no room."""
    if run.rules.version < _BYTES_FLAG_SINCE:
        return 0
    return max(0, rank.kv_cache_bytes_low - _MARGIN)


def safe_utilization(run: Resolved) -> float:
    """The share of the total that leaves room for what the budget does not count, in hundredths."""
    outside = outside_budget(run) + 256 * MIB
    room = 1 - outside / run.gpu.total_bytes
    return max(0.1, min(_HIGHEST_UTILIZATION, int(room * 100) / 100))


def outside_budget(run: Resolved) -> int:
    """Bytes that will live outside utilization x total: context, NCCL, graphs not estimated."""
    graphs = 0
    if not run.eager and not run.graphs_estimated:
        graphs = graph_bytes(
            run.shape, run.max_num_seqs, run.tp, run.dtype_bytes, nvlink=run.nvlink
        )
    present = run.context_size + run.busy_bytes
    return budget.outside_bytes(run.budget, run.gpu, run.tp, present, graphs, nvlink=run.nvlink)


def longest(run: Resolved, blocks: int) -> int:
    """The longest max_model_len at which the wanted requests fit at once, at most as asked."""
    return longest_for(run, blocks, run.concurrency or 1, run.max_model_len)


def sequences(run: Resolved, cache: KvLayout, blocks: int) -> int:
    """Requests that fit, or are wanted, as a captured batch size, at most as asked."""
    wanted = run.concurrency or max(1, int(kv_cache.concurrency(blocks, cache)))
    return min(run.max_num_seqs, captured_size(wanted))


def assumptions_of(run: Resolved) -> tuple[str, ...]:
    """What the plan takes for granted, and why the limiting rank limits."""
    notes = list(run.assumptions)
    if run.v2_runner:
        notes.append("model runner V2, the default of that version for this architecture")
    if run.tp > 1:
        notes.append(_why_that_rank(run))
    if run.v1 and run.rules.flashinfer == "installed" and not run.flashinfer:
        notes.append(_without_flashinfer(run))
    if run.shape.checkpoint:
        notes.append("weights counted from the headers of the safetensors files")
    elif run.shape.weight_file_bytes is not None:
        notes.append("weights scaled to the sum in the safetensors index")
    elif run.shape.params_billion is None and run.params_billion is None:
        notes.append("weights counted from the shape in config.json")
    if run.busy_bytes:
        notes.append(f"{show_bytes(run.busy_bytes)} of the GPU are in use by other processes")
    else:
        notes.append("the GPU is otherwise idle: no display, no other process")
    return tuple(notes)


def _why_that_rank(run: Resolved) -> str:
    if run.v1:
        return "all ranks alike: V1 gathers the logits and samples on every rank"
    if rank_terms(run, 0).peak > rank_terms(run, 1).peak:
        return "rank 0 limits: the V0 engine gathers the logits and samples there alone"
    return "all ranks alike: the forward pass needs more than what V0 gathers on rank 0"


def _without_flashinfer(run: Resolved) -> str:
    """Where it is installed, 0.9.0 to 0.11.0 sample with it, and need less."""
    saved = (
        rank_terms(run, 0).peak - rank_terms(msgspec.structs.replace(run, flashinfer=True), 0).peak
    )
    return (
        "FlashInfer is not installed (pip does not bring it, vLLM's images do): with it, "
        f"--flashinfer, sampling needs {show_bytes(saved)} less"
    )


def warnings_of(run: Resolved, rank: RankBudget, cache: KvLayout, blocks: int) -> tuple[str, ...]:
    """What may go wrong although the plan fits, or makes it less sure."""
    found = list(run.warnings)
    reserve = budget.reserve_bytes(rank.total_bytes, rank.requested_bytes)
    outside = outside_budget(run)
    if outside > reserve:
        found.append(
            f"outside the budget {show_bytes(reserve)} remain, about {show_bytes(outside)} will "
            "live there (CUDA context, NCCL, graphs): out of memory at graph capture or later; "
            f"gpu_memory_utilization {safe_utilization(run)} leaves room"
        )
    if rank.kv_cache_bytes_low <= 0 < rank.kv_cache_bytes:
        found.append("the start may fail: the low end of the estimate leaves no KV cache")
    if blocks >= cache.blocks_per_request and rank.kv_cache_bytes_low > 0:
        lowest = kv_cache.blocks_in(rank.kv_cache_bytes_low, cache)
        if lowest < cache.blocks_per_request:
            found.append("one request of max_model_len may not fit at the low end of the estimate")
    if run.shape.vision is not None:
        found.append("multimodal profiling depends on the processor's limits: a wider interval")
    if run.kv_dtype.startswith("fp8") and 0 < run.gpu.major < 9 and run.gpu.capability != "8.9":
        found.append(f"fp8 KV on compute capability {run.gpu.capability} needs FlashInfer")
    if run.kv_dtype.startswith("fp8") and run.gpu.capability == "8.9" and not run.v1:
        found.append("fp8 KV with V0 on this GPU: set VLLM_ATTENTION_BACKEND=FLASHINFER; "
                     "XFORMERS, the fallback, was reported inaccurate")  # fmt: skip
    if 0 < run.gpu.major < 8 and run.shape.dtype == "bfloat16":
        found.append("bfloat16 needs compute capability 8.0: use --dtype float16")
    return tuple(found)
