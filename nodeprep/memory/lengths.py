"""How long requests may be, and the batch sizes that graphs are captured for."""

from __future__ import annotations

from nodeprep.memory.kv_cache import LayerKind, concurrency, layer_kinds, layout
from nodeprep.memory.resolve import Resolved

_STEP = 1024


def longest_for(run: Resolved, blocks: int, wanted: float, longest: int) -> int:
    """The longest max_model_len, in steps of 1024, at which `wanted` requests fit at once; 0: none.

    `longest` itself when that fits.  The layout is worked out anew for every length, since a
    window bounds what a longer request adds.
    """

    def holds(length: int) -> bool:
        cache = layout(_kinds(run), run.block_tokens, length, min(run.tokens_in_flight, length))
        return concurrency(blocks, cache) >= wanted

    if holds(longest):
        return longest
    low, high = 0, longest // _STEP
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle * _STEP):
            low = middle
        else:
            high = middle - 1
    return low * _STEP


def _kinds(run: Resolved) -> tuple[LayerKind, ...]:
    return layer_kinds(
        run.shape, run.tp, run.kv_value_bytes, run.dtype_bytes, run.rules, run.kv_dtype
    )


def captured_size(requests: int) -> int:
    """The next batch size that CUDA graphs are captured for: 1, 2, 4, by 8 to 256, by 16 beyond.

    Source: vllm/config/vllm.py _set_cudagraph_sizes.
    """
    step = 1 if requests <= 2 else 4 if requests <= 4 else 8 if requests <= 256 else 16
    return -(-requests // step) * step
