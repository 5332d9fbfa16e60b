"""The memory of one rank, term by term."""

from __future__ import annotations

from typing import NamedTuple

from nodeprep.memory import activation, budget, sampler, weights
from nodeprep.memory.cuda_graphs import graph_bytes
from nodeprep.memory.resolve import Resolved
from nodeprep.units import MIB

_TUNING = 256 * MIB
"""What clears the cache between two timings of a kernel (triton/testing.py do_bench); the profiling
run is the first to compile."""


class Terms(NamedTuple):
    """Bytes of one rank; activation, sampler and logits together are torch's peak."""

    weights: int
    activation: int
    sampler: int
    logits: int
    nccl: int
    other: int
    graphs: int
    forward: int
    """The forward pass' own peak, for the report of what limits."""
    forward_sets_peak: bool

    @property
    def peak(self) -> int:
        return self.activation + self.sampler + self.logits

    @property
    def non_kv(self) -> int:
        return self.weights + self.peak + self.nccl + self.other


def rank_terms(run: Resolved, rank: int) -> Terms:
    """All terms of a rank.

    The peak is the larger of the forward pass and sampling.  `sampler` and `logits` are what
    sampling needs; `activation` is the rest of the peak, so that the three add up to it.
    """
    shape, width, tp = run.shape, run.dtype_bytes, run.tp
    loaded = weights.weight_bytes(
        shape, tp, width, run.params_billion, absorbed=run.rules.mla_absorbed
    )
    logits, sampling = _sampling(run, rank)
    cublas = budget.cublas_bytes(run.gpu.major)
    rows, images = profiled(run)
    encoder = activation.encoder_bytes(shape, images, width)
    kept = 0
    if run.v1:
        kept = activation.encoder_cache_bytes(shape, cached_tokens(run), width)
    if run.rules.moe_workspace:
        kept += activation.workspace_bytes(shape, run.max_num_batched_tokens, tp, width)
    hidden = activation.hidden_states_bytes(shape, run.max_num_batched_tokens, width)
    forward = activation.forward_bytes(
        shape,
        run.max_num_batched_tokens,
        tp,
        width,
        max_model_len=run.max_model_len,
        v1=run.v1,
        moe_workspace=run.rules.moe_workspace,
    )
    forward = max(forward, encoder)
    chosen = 2 * rows * shape.hidden_size * width
    at_sampling = hidden + chosen + logits + sampling
    tuned = _tuning(run, loaded)
    peak = max(forward, at_sampling, tuned) + cublas + kept
    peak = budget.counted_peak(run.budget, peak, forward > at_sampling)
    nccl = budget.nccl_bytes(run.budget, tp, run.gpu, nvlink=run.nvlink)
    other = _other(run) + budget.fragment_bytes(
        run.budget, loaded, quantized=shape.quant is not None
    )
    graphs = 0
    if run.graphs_estimated:
        graphs = graph_bytes(
            shape, run.max_num_seqs, tp, width, nvlink=run.nvlink, extrapolated=run.v2_runner
        )
    return Terms(
        weights=loaded, activation=peak - sampling - logits, sampler=sampling, logits=logits,
        nccl=nccl, other=other, graphs=graphs, forward=forward,
        forward_sets_peak=forward > at_sampling,
    )  # fmt: skip


def profiled(run: Resolved) -> tuple[int, int]:
    """Rows that the profiling run samples, and tokens of the images in it."""
    tokens = run.max_num_batched_tokens
    if run.v1:
        images = activation.encoder_tokens(run.shape, tokens) if run.shape.vision else 0
        return sampler.rows(run.max_num_seqs, tokens), images
    rows = activation.profiled_rows(run.shape, run.max_num_seqs, tokens)
    return rows, activation.profiled_images(run.shape, rows, tokens)


def _tuning(run: Resolved, loaded: int) -> int:
    """What timing kernels takes while a cold start compiles: the inputs of a combined kernel anew.

    The largest input is the embedding of a text model: vocabulary / tp x hidden x bytes, never more
    than the weights.  A start that finds compiled code needs none of it, but the first one does.
    Source: torch/_inductor benchmark_combo_kernel, rand_strided; vllm/config/compilation.py.  Only
    runner V2's logs show it: 1.18 GiB cold and 0.19 warm of Qwen3 8B on 0.27.1; V1's peak is as
    large as sampling needs.
    """
    if not run.v1 or run.eager:
        return 0
    shape = run.shape
    if not run.v2_runner or run.compiled or shape.vision is not None:
        return _TUNING
    embedding = weights.ceil_div(shape.vocab_size, run.tp) * shape.hidden_size * run.dtype_bytes
    return max(_TUNING, min(embedding, loaded))


def cached_tokens(run: Resolved) -> int:
    """Tokens whose encoder outputs are kept while V1 profiles."""
    return activation.encoder_cache_tokens(
        run.shape, run.max_num_batched_tokens, run.rules.deepstack_tokens
    )


def _sampling(run: Resolved, rank: int) -> tuple[int, int]:
    """Logits and sampler bytes on that rank: all of it in V1, on the driver only in V0."""
    if run.shape.pooling:
        return 0, 0
    rows, _ = profiled(run)
    vocab = run.shape.vocab_size
    if not run.v1 and rank > 0:
        return sampler.logits_bytes(rows, weights.ceil_div(vocab, run.tp), run.dtype_bytes), 0
    return (
        sampler.logits_bytes(rows, vocab, run.dtype_bytes),
        sampler.sampler_bytes(run.sampler, rows, vocab, run.dtype_bytes, run.gpu.sms),
    )


def _other(run: Resolved) -> int:
    """V2's penalty counters (int32, sequences x vocabulary) are persistent and never freed.

    Source: v1/worker/gpu/sample/penalties.py output_bin_counts.
    """
    counters = run.max_num_seqs * run.shape.vocab_size * 4 if run.v2_runner else 0
    return budget.other_bytes(
        run.budget,
        run.context_size + run.busy_bytes,
        v1=run.v1,
        graph_trial=run.rules.graph_trial and not run.eager and not run.v2_runner,
        unified=run.gpu.unified,
        persistent_bytes=counters,
    )
