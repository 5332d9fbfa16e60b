"""Changes that the numbers support: what each option frees, worked out by the same formulas."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from nodeprep.errors import UsageError
from nodeprep.memory.advice import (
    kv_cache_memory_bytes,
    longest,
    outside_budget,
    safe_utilization,
)
from nodeprep.memory.interval import left_bytes, requested_bytes
from nodeprep.memory.kv_cache import concurrency
from nodeprep.memory.lengths import captured_size
from nodeprep.memory.outcome import Outcome, cache_layout, free_at_start, outcome
from nodeprep.memory.resolve import Resolved, resolve
from nodeprep.memory.terms import rank_terms
from nodeprep.model.memory import Advice, ModelShape, PlanRequest
from nodeprep.units import MIB, show_bytes

_WORTH = 64 * MIB
"""Less is not worth a change."""
_SIZES = (1, 2, 4, 8, 16)
_LEAST_STEP = 2048
_USUAL_SEQUENCES, _FEW_SEQUENCES = 256, 64


def advice_for(
    shape: ModelShape, request: PlanRequest, run: Resolved, out: Outcome
) -> tuple[Advice, ...]:
    """What to change, best first: what makes it start, then what gains room."""
    return (
        *_tensor_parallel(shape, request, run, out),
        *_utilization(run),
        *_length(run, out),
        *_sequences(run, out),
        *_batched_tokens(run, out),
        *_kv_dtype(run, out),
        *_graphs(run),
        *_exact_bytes(run, out),
    )


def smallest_size(shape: ModelShape, request: PlanRequest) -> int | None:
    """The smallest tensor-parallel size that starts; None: none up to 16 does."""
    for size in _SIZES:
        asked = replace(request, tensor_parallel=size, gpu_count=max(size, request.gpu_count))
        try:
            if outcome(resolve(shape, asked)).limit is None:
                return size
        except UsageError:
            continue
    return None


def _tensor_parallel(
    shape: ModelShape, request: PlanRequest, run: Resolved, out: Outcome
) -> Iterator[Advice]:
    if out.limit is None and run.tp == 1:
        return
    size = smallest_size(shape, request)
    if out.limit is not None and size is not None and size > run.tp:
        yield Advice(
            option="tensor-parallel-size", value=str(size), frees_bytes=None,
            reason=f"the smallest that starts: {size} GPUs share weights and KV cache",
        )  # fmt: skip
    smaller = out.limit is None and size is not None and size < run.tp
    if size is not None and smaller and _as_many(shape, request, size, out):
        yield Advice(
            option="tensor-parallel-size", value=str(size), frees_bytes=None,
            reason=f"starts on {size} as well: {run.tp // size} replicas instead of one group "
            "serve more, unless one request must be fast",
        )  # fmt: skip


def _as_many(shape: ModelShape, request: PlanRequest, size: int, whole: Outcome) -> bool:
    """Whether replicas of that size hold as many requests at once as one group holds."""
    part = outcome(resolve(shape, replace(request, tensor_parallel=size)))
    replicas = request.tensor_parallel // size
    return replicas * concurrency(part.blocks, part.cache) >= concurrency(whole.blocks, whole.cache)


def _utilization(run: Resolved) -> Iterator[Advice]:
    """Up when what is outside the budget leaves room, down when it does not."""
    safe = safe_utilization(run)
    change = round((safe - run.utilization) * run.gpu.total_bytes)
    outside = show_bytes(outside_budget(run))
    if change < 0:
        reserve = show_bytes(run.gpu.total_bytes - requested_bytes(run))
        yield Advice(
            option="gpu-memory-utilization", value=f"{safe:.2f}", frees_bytes=change,
            reason=f"about {outside} will live outside the budget, {reserve} are left there",
        )  # fmt: skip
    elif change > _WORTH and requested_bytes(run) + change <= free_at_start(run):
        yield Advice(
            option="gpu-memory-utilization", value=f"{safe:.2f}", frees_bytes=change,
            reason=f"about {outside} will live outside the budget; a GPU that serves nothing else",
        )  # fmt: skip


def _length(run: Resolved, out: Outcome) -> Iterator[Advice]:
    length = longest(run, out.blocks)
    if 0 < length < run.max_model_len:
        wanted = run.concurrency or 1
        yield Advice(
            option="max-model-len", value=str(length), frees_bytes=None,
            reason=f"the longest at which {wanted} request{'s' if wanted > 1 else ''} fit at once",
        )  # fmt: skip


def _sequences(run: Resolved, out: Outcome) -> Iterator[Advice]:
    """Fewer sequences shrink logits and sampler; more than are wanted only cost memory."""
    fewer = captured_size(run.concurrency) if run.concurrency else _USUAL_SEQUENCES
    if run.concurrency is None and out.limit is not None:
        fewer = _FEW_SEQUENCES
    if fewer >= run.max_num_seqs:
        return
    freed = _gain(run, replace(run, max_num_seqs=fewer), out)
    if freed > _WORTH:
        yield Advice(
            option="max-num-seqs", value=str(fewer), frees_bytes=freed,
            reason="the profiling run samples that many rows of the vocabulary at once",
        )  # fmt: skip


def _batched_tokens(run: Resolved, out: Outcome) -> Iterator[Advice]:
    fewer = max(_LEAST_STEP, run.max_num_seqs)
    if run.max_num_batched_tokens <= fewer:
        return
    freed = _gain(run, replace(run, max_num_batched_tokens=fewer), out)
    if freed > _WORTH:
        yield Advice(
            option="max-num-batched-tokens", value=str(fewer), frees_bytes=freed,
            reason="the forward pass of the largest step sets the peak; long prompts take more "
            "steps, other requests wait less for them",
        )  # fmt: skip


def _kv_dtype(run: Resolved, out: Outcome) -> Iterator[Advice]:
    if run.kv_value_bytes <= 1 or run.shape.mla is not None or 0 < run.gpu.major < 8:
        return
    half = replace(run, kv_dtype="fp8", kv_value_bytes=1.0)
    blocks = int(out.tightest.kv_cache_bytes // cache_layout(half).block_bytes)
    if blocks > out.blocks >= 0:
        yield Advice(
            option="kv-cache-dtype", value="fp8", frees_bytes=None,
            reason="half the bytes a token; check the answers of your own model with it",
        )  # fmt: skip


def _graphs(run: Resolved) -> Iterator[Advice]:
    graphs = rank_terms(run, 0).graphs
    if graphs > _WORTH:
        yield Advice(
            option="enforce-eager", value="true", frees_bytes=graphs,
            reason="no CUDA graphs; every step gets slower, so only as a last resort",
        )  # fmt: skip


def _exact_bytes(run: Resolved, out: Outcome) -> Iterator[Advice]:
    size = kv_cache_memory_bytes(run, out.tightest)
    if size:
        yield Advice(
            option="kv-cache-memory-bytes", value=str(size), frees_bytes=None,
            reason=f"{show_bytes(size)}: the low end of the estimate less 150 MiB; the same on "
            "every start, and gpu-memory-utilization no longer counts",
        )  # fmt: skip


def _gain(run: Resolved, other: Resolved, out: Outcome) -> int:
    rank = out.tightest.rank
    return left_bytes(other, rank_terms(other, rank)) - left_bytes(run, rank_terms(run, rank))
