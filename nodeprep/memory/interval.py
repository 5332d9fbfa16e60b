"""How sure the estimate is: the range that holds a real start nine times out of ten.

Two sources of doubt: the spread of each term in logs, and choices that a site can make without
saying so (the older engine, the older model runner).
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from nodeprep.memory.resolve import Resolved
from nodeprep.memory.terms import Terms, rank_terms
from nodeprep.model.memory import RankBudget
from nodeprep.units import MIB

_V0_IS_RARE = (0, 10, 0)
_NINE_OF_TEN = 1.65
"""Standard deviations."""


def rank_budget(run: Resolved, rank: int) -> RankBudget:
    """The rank's line: requested = non-KV + graphs + KV, whatever the sign of what is left."""
    terms = rank_terms(run, rank)
    left = left_bytes(run, terms)
    ends = [_ends(run, terms)]
    ends += [_ends(other, rank_terms(other, rank)) for other in alternatives(run)]
    return RankBudget(
        rank=rank,
        total_bytes=run.gpu.total_bytes,
        requested_bytes=requested_bytes(run),
        weights_bytes=terms.weights,
        activation_bytes=terms.activation,
        sampler_bytes=terms.sampler,
        logits_bytes=terms.logits,
        nccl_bytes=terms.nccl,
        other_bytes=terms.other,
        cuda_graph_bytes=terms.graphs,
        non_kv_bytes=terms.non_kv,
        kv_cache_bytes=left,
        kv_cache_bytes_low=min(low for low, _ in ends),
        kv_cache_bytes_high=max(high for _, high in ends),
    )


def requested_bytes(run: Resolved) -> int:
    """utilization x total, in bytes."""
    return int(run.gpu.total_bytes * run.utilization)


def left_bytes(run: Resolved, terms: Terms) -> int:
    """What is left for the KV cache; below zero when the rest alone is too much."""
    return requested_bytes(run) - terms.non_kv - terms.graphs


def alternatives(run: Resolved) -> list[Resolved]:
    """The same request as a site may run it by an environment variable or a fallback.

    VLLM_USE_V1=0 where V1 is the default and V0 still usual, with V0's 256 sequences; and
    VLLM_USE_V2_MODEL_RUNNER=0, or a feature that V2 lacks, where V2 is the default; there also a
    start that need not compile.
    """
    found = []
    if run.v1 and run.rules.engine == "auto" and run.rules.version < _V0_IS_RARE:
        seqs = min(run.max_num_seqs, run.rules.seqs_v0)
        found.append(replace(run, v1=False, v2_runner=False, max_num_seqs=seqs))
    if run.v2_runner:
        found += [replace(run, v2_runner=False), replace(run, compiled=True)]
    return found


def _ends(run: Resolved, terms: Terms) -> tuple[int, int]:
    left, spread = left_bytes(run, terms), round(_NINE_OF_TEN * standard_error(run, terms))
    return left - spread, left + spread


def standard_error(run: Resolved, terms: Terms) -> int:
    """One standard deviation of the non-KV memory, in bytes.

    Per cent and MiB are fitted to the spread of whole groups of logs, not to a case: the budget
    0.3 % (drivers and allocator), weights 0.1 % (0.4 % for experts, MLA and quantized), sampler
    2 %, a forward peak 4 % (25 % for those and for vision towers), communication a third.
    """
    shape = run.shape
    intricate = shape.moe is not None or shape.mla is not None or shape.quant is not None
    unusual = intricate or shape.vision is not None or shape.linear is not None
    forward = 0.02
    if terms.forward_sets_peak:
        forward = 0.25 if unusual or run.budget == "freed" else 0.04
    fast_links = run.nvlink and run.tp > 2
    parts = [
        100 * MIB,
        requested_bytes(run) * 0.003,
        terms.weights * (0.004 if intricate and not shape.checkpoint else 0.001),
        terms.sampler * 0.02,
        terms.forward * forward,
        terms.nccl * 0.35,
        800 * MIB if fast_links else 0,
        terms.graphs * (1.0 if shape.linear is not None else 0.5),
        run.gpu.total_bytes * _total_doubt(run),
        250 * MIB if run.budget == "consumed" else 0,
        500 * MIB if shape.vision is not None else 0,
        1500 * MIB if run.gpu.unified else 0,
        150 * MIB if run.budget == "used" else 0,
        3000 * MIB if run.rules.mla_absorbed and shape.mla is not None else 0,
    ]
    return round(math.sqrt(sum(one * one for one in parts)))


def _total_doubt(run: Resolved) -> float:
    """Share of the total by which CUDA's figure may differ: by driver, or from a stated size."""
    if run.gpu.exact_total:
        return 0.0
    return 0.015 if run.gpu.guessed_total else 0.0015
