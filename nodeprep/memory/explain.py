"""`plan --explain`: each formula of the plan, the numbers in it, and where vLLM does it."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.memory import activation, budget, kv_cache
from nodeprep.memory.communication import communication_bytes, lazy_bytes
from nodeprep.memory.cuda_graphs import capture_sizes
from nodeprep.memory.interval import requested_bytes
from nodeprep.memory.outcome import Outcome, outcome
from nodeprep.memory.resolve import Resolved, resolve
from nodeprep.memory.terms import Terms, cached_tokens, profiled, rank_terms
from nodeprep.memory.weights import rank_tensors
from nodeprep.model.memory import ModelShape, PlanRequest, PlanStep
from nodeprep.units import gib, show_bytes

_BUDGETS = {
    "freed": "free before the model - free after profiling (worker.py, to 0.6.3)",
    "used": "torch's peak + everything else on the device (0.6.4; V1 to 0.9.0)",
    "baseline": "increase since a snapshot before the process group (0.6.5 to 0.10.2)",
    "snapshot": "increase since a snapshot after the process group (0.11.0 to 0.26)",
    "consumed": "free at the snapshot - free after + transient peak (0.27 on)",
}


def explain(shape: ModelShape, request: PlanRequest) -> tuple[PlanStep, ...]:
    """The steps of the limiting rank, in the order in which the plan takes them.

    Raises UsageError, as the plan does.
    """
    run = resolve(shape, request)
    out = outcome(run)
    terms = rank_terms(run, out.tightest.rank)
    return (*_memory(run, terms), *_left(run, terms, out), *_cache(run, out))


def _memory(run: Resolved, terms: Terms) -> Iterator[PlanStep]:
    total = run.gpu.total_bytes
    yield _bytes(
        "requested", "gpu_memory_utilization x total",
        f"{run.utilization:g} x {show_bytes(total)}", requested_bytes(run),
        f"worker: total of cudaMemGetInfo; {run.gpu.source}",
    )  # fmt: skip
    yield from _weights(run, terms)
    yield from _peak(run, terms)
    yield _communication(run, terms)
    yield _bytes(
        "other", f"modules and buffers beside torch; counted as: {_BUDGETS[run.budget]}",
        f"context and others present: {show_bytes(run.context_size + run.busy_bytes)}", terms.other,
        "nodeprep memory/budget.py", fitted=True,
    )  # fmt: skip


def _weights(run: Resolved, terms: Terms) -> Iterator[PlanStep]:
    if run.shape.checkpoint:
        parts = ", ".join(
            f"{one.part} {show_bytes(one.stored_bytes + one.float_elements * run.dtype_bytes)}"
            for one in run.shape.checkpoint
        )
        formula = f"tensors of the files, split over {run.tp}"
        yield _bytes("weights", formula, parts, terms.weights, "headers of the safetensors files")
        return
    tensors = rank_tensors(run.shape, run.tp, run.dtype_bytes, absorbed=run.rules.mla_absorbed)
    for one in tensors:
        yield _bytes(
            f"weights: {one.part}", "tensors x bytes on this rank",
            f"{one.copies} x {show_bytes(one.size_bytes)}", round(one.copies * one.size_bytes),
            "model_executor/layers/linear.py, vocab_parallel_embedding.py",
        )  # fmt: skip
    counted = round(sum(one.copies * one.size_bytes for one in tensors))
    yield _bytes(
        "weights", "sum + rotary table + parameters beyond the shape + rounding of the allocator",
        f"{show_bytes(counted)} + {show_bytes(terms.weights - counted)}", terms.weights,
        "`Model loading took`; c10/cuda/CUDACachingAllocator.cpp",
    )  # fmt: skip


def _peak(run: Resolved, terms: Terms) -> Iterator[PlanStep]:
    shape, tokens = run.shape, run.max_num_batched_tokens
    width = run.dtype_bytes
    rows = profiled(run)[0]
    if terms.logits:
        yield _bytes(
            "logits", "sequences x vocabulary x bytes", f"{rows} x {shape.vocab_size} x {width}",
            terms.logits, "model_runner _dummy_sampler_run",
        )  # fmt: skip
        yield _bytes(
            "sampler", f"{run.sampler}: sequences x vocabulary x bytes of its buffers",
            f"{rows} x {shape.vocab_size} x {terms.sampler / rows / shape.vocab_size:.1f}",
            terms.sampler, "v1/sample/ops/topk_topp_sampler.py; aten/native/cuda/SortStable.cu",
        )  # fmt: skip
    wide = "experts x width" if shape.moe else "3 x intermediate"
    yield _bytes(
        "forward", f"tokens x bytes x ({wide} / tp + 3 x hidden), the widest layer",
        f"{tokens} tokens, intermediate {shape.intermediate_size}, hidden {shape.hidden_size}, "
        f"{width} bytes, tp {run.tp}",
        terms.forward, "the model file's MLP; fused_moe.py; mla/common.py",
        fitted=shape.quant is not None and shape.quant.method.startswith("awq"),
    )  # fmt: skip
    if run.v1 and shape.vision is not None:
        yield _bytes(
            "encoder outputs", "encoder tokens x hidden x levels x bytes",
            f"{cached_tokens(run)} x {shape.hidden_size} x {shape.vision.output_levels} x {width}",
            activation.encoder_cache_bytes(shape, cached_tokens(run), width),
            "v1/worker/gpu_model_runner.py profile_run",
        )  # fmt: skip
    larger = "the forward pass" if terms.forward_sets_peak else "sampling"
    cublas = budget.cublas_bytes(run.gpu.major)
    yield _bytes(
        "activation", "max(forward, hidden states + logits + sampler) + cuBLAS + what is kept",
        f"{larger} sets the peak; cuBLAS {show_bytes(cublas)}", terms.peak,
        "torch's peak; aten/src/ATen/cuda/CublasHandlePool.cpp",
    )  # fmt: skip


def _communication(run: Resolved, terms: Terms) -> PlanStep:
    whole = communication_bytes(run.tp, nvlink=run.nvlink, major=run.gpu.major)
    late = lazy_bytes(run.tp, nvlink=run.nvlink, major=run.gpu.major)
    links = "NVLink" if run.nvlink else "PCIe"
    later = ""
    if run.budget in ("snapshot", "consumed"):
        later = f", {show_bytes(late)} of it after the snapshot"
    return _bytes(
        "NCCL", "2 communicators x channels x 2 x (4 + 0.5 + 4.69 MiB) + kernels, where counted",
        f"tp {run.tp} over {links}: {show_bytes(whole)} in all{later}",
        terms.nccl, "NCCL src/init.cc computeBuffSizes; distributed/parallel_state.py",
        fitted=run.tp > 1,
    )  # fmt: skip


def _left(run: Resolved, terms: Terms, out: Outcome) -> Iterator[PlanStep]:
    if run.graphs_estimated:
        yield _bytes(
            "CUDA graphs", "first capture + further graphs x 3 MiB",
            f"{capture_sizes(run.max_num_seqs)} piecewise and "
            f"{capture_sizes(max(1, run.max_num_seqs // 2))} full graphs",
            terms.graphs, "profile_cudagraph_memory", fitted=True,
        )  # fmt: skip
    rank = out.tightest
    yield _bytes(
        "KV cache", "requested - weights - activation - NCCL - other - graphs",
        " - ".join(
            f"{gib(one):.2f}"
            for one in (rank.requested_bytes, terms.weights, terms.peak, terms.nccl, terms.other,
                        terms.graphs)
        ) + f" GiB; between {gib(rank.kv_cache_bytes_low):.2f} and "
        f"{gib(rank.kv_cache_bytes_high):.2f}",
        rank.kv_cache_bytes, "determine_available_memory; the range: memory/interval.py",
    )  # fmt: skip


def _cache(run: Resolved, out: Outcome) -> Iterator[PlanStep]:
    cache = out.cache
    for one in cache.kinds:
        formula = "2 x max(1, KV heads / tp) x head size x bytes, a layer and token"
        if one.kind == "linear":
            formula = "convolution and recurrent state, a layer and sequence"
        elif run.shape.mla is not None:
            formula = "(latent rank + rope) x bytes, on every rank alike"
        yield _bytes(
            f"KV: {one.kind} layers", formula, f"{one.layers} layers", round(one.token_bytes),
            "v1/kv_cache_interface.py page_size_bytes",
        )  # fmt: skip
    yield PlanStep(
        term="blocks", formula="floor(KV cache / (page x layers of a group))",
        numbers=f"{show_bytes(out.tightest.kv_cache_bytes)} / ({show_bytes(cache.page_bytes)} x "
        f"{cache.group_layers})",
        value=out.blocks, unit="blocks", source="v1/core/kv_cache_utils.py; the least of all ranks",
    )  # fmt: skip
    yield PlanStep(
        term="requests at once", formula="blocks / blocks of one request of max_model_len",
        numbers=f"{out.blocks} / {cache.blocks_per_request}",
        value=round(kv_cache.concurrency(out.blocks, cache), 2), unit="requests",
        source="get_max_concurrency_for_kv_cache_config",
    )  # fmt: skip
    yield PlanStep(
        term="reported tokens", formula=_REPORTED[run.rules.reported],
        numbers=f"{out.blocks} blocks of {cache.block_tokens}, {cache.groups} groups",
        value=kv_cache.reported_tokens(out.blocks, cache, run.max_model_len, run.rules.reported),
        unit="tokens", source="`GPU KV cache size` of that release",
    )  # fmt: skip


_REPORTED = {
    "blocks": "blocks x block size",
    "groups": "blocks / groups x block size",
    "concurrency": "requests at once x max_model_len",
}


def _bytes(
    term: str, formula: str, numbers: str, value: int, source: str, *, fitted: bool = False
) -> PlanStep:
    return PlanStep(
        term=term, formula=formula, numbers=numbers, value=value, unit="bytes", source=source,
        fitted=fitted,
    )  # fmt: skip
