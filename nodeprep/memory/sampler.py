"""Memory of logits and sampling at the profiling run's largest batch.

The profiling run samples n = min(max_num_seqs, max_num_batched_tokens) rows of the whole
vocabulary with top-k and top-p, on every rank of a V1 engine, on the driver alone in V0.
"""

from __future__ import annotations

import math

_SORT_BYTES = 4 + 8 + 8 + 12
"""torch.sort of float32 rows, by row segments: sorted values 4, their indices 8, the initial
indices 8, and CUB's alternate buffers for keys and values 4 + 8.  Source: aten/src/ATen/native/
cuda/SortStable.cu segmented_sort_pairs."""
_FULL_SORT_BYTES = 4 + 8 + 8 + 8 + 4 + 12
"""Below 128 rows torch sorts all rows at once: values, indices, two int2 arrays, keys out, and
CUB's alternates.  Source: segmented_sort_pairs_by_full_sort."""
_FULL_SORT_ROWS = 128
_TRITON_ROWS = 8
_PROBABILITIES_BYTES = 4 + 4
"""softmax, and either the exponential noise (random_sample) or FlashInfer's masked logits."""


def rows(max_num_seqs: int, max_num_batched_tokens: int) -> int:
    """Sequences that the profiling run samples."""
    return min(max_num_seqs, max_num_batched_tokens)


def logits_bytes(n: int, vocab: int, dtype_bytes: int) -> int:
    """The logits themselves, in the model's type: n x vocab x bytes."""
    return n * vocab * dtype_bytes


def float32_copy_bytes(n: int, vocab: int, dtype_bytes: int) -> int:
    """`logits.to(torch.float32)`; a float32 model's logits are used as they are."""
    return 0 if dtype_bytes == 4 else n * vocab * 4


def sampler_bytes(path: str, n: int, vocab: int, dtype_bytes: int, sms: int) -> int:
    """What sampling adds to the logits at its peak.

    sort: float32 copy and torch.sort: 4 + 32 bytes a logit (4 + 44 under 128 rows).
    triton: float32 copy, probabilities and noise, and a buffer of float32 rows, one for each
    multiprocessor (rounded up to a power of two) that has a row (topk_topp_triton.py).
    flashinfer: float32 copy, masked logits, probabilities (top_k_top_p_sampling_from_logits).
    copy: model runner V2 to 0.25 skips top-k and top-p while profiling; the float32 copy.
    logits: V2 from 0.26 on; nothing beyond the logits.
    full: V2 from 0.33 on: float32 copy, masked logits, probabilities.
    """
    cells = n * vocab
    copy = float32_copy_bytes(n, vocab, dtype_bytes)
    if path == "logits":
        return 0
    if path == "copy":
        return copy
    if path in ("full", "flashinfer"):
        return copy + cells * _PROBABILITIES_BYTES
    if path == "triton" and n >= _TRITON_ROWS:
        programs = min(sms, n)
        buffer_rows = min(1 << (programs - 1).bit_length(), max(sms, 1))
        return copy + cells * _PROBABILITIES_BYTES + buffer_rows * vocab * 4
    return copy + cells * (_SORT_BYTES if n >= _FULL_SORT_ROWS else _FULL_SORT_BYTES)


def gather_extra_bytes(vocab: int, tp: int, batch: int, dtype_bytes: int = 4) -> float:
    """What rank 0 of a V0 engine holds beyond its own share of the logits.

    vocab x (1 - 1/tp) x batch x bytes; the source document's table is in float32 and MiB.
    """
    return vocab * (1 - 1 / tp) * batch * dtype_bytes


def blocks_lost(extra_bytes: float, block_tokens: int, token_bytes_on_rank: float) -> int:
    """KV blocks that the memory touches on one rank: extra / (block tokens x bytes), rounded up."""
    return math.ceil(extra_bytes / (block_tokens * token_bytes_on_rank))
