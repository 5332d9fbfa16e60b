"""Weight bytes of one rank from the headers of the safetensors files.

The same split as weights.py, on the sizes that the files state instead of sizes from the shape.
Source: vllm/model_executor/layers/{linear,vocab_parallel_embedding}.py.
"""

from __future__ import annotations

from nodeprep.model.memory import CheckpointPart, ModelShape


def rank_share(
    shape: ModelShape, part: str, tp: int, *, padded_vocab: int, expert_padding: float
) -> float:
    """Share of a part that one rank holds.

    Vocabularies padded, then 1 / tp; K and V projections by heads, replicated when there are fewer
    than ranks; norms and routers whole; experts padded by their kernel; the rest 1 / tp.
    """
    if part in ("embedding", "lm_head"):
        return padded_vocab / shape.vocab_size / tp
    if part == "kv":
        return max(1, shape.kv_heads // tp) / shape.kv_heads
    if part == "experts":
        return expert_padding / tp
    return 1.0 if part == "replicated" else 1 / tp


def part_bytes(part: CheckpointPart, dtype_bytes: int) -> int:
    """Bytes once loaded: floats in the run's type, everything else as stored."""
    return part.stored_bytes + part.float_elements * dtype_bytes
