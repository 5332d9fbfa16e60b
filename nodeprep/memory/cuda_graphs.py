"""CUDA graphs: how many, and the estimate that vLLM subtracts from the KV cache since 0.20."""

from __future__ import annotations

from nodeprep.model.memory import ModelShape
from nodeprep.units import MIB

_LARGEST = 512
_PER_GRAPH = 3 * MIB
"""The source counts the second capture, and 1 MiB at the least.  Fitted, with the next, on logs of
0.20 to 0.30: 0.15 GiB for 12 graphs, 0.14 for 30, 0.28 for 54, 0.73 for 86 (vllm#39559)."""
_FULL_SHARE = 0.4
"""Fitted on logs of 0.29 and 0.30: 0.28 GiB at 128 sequences, 0.44 to 1.2 at 256."""
_PER_COLLECTIVE = 80 * 1024
"""What NCCL keeps for each collective that a graph holds.  Fitted on three logs without NVLink:
0.32 GiB (94 layers, 18 graphs), 0.6 (32, 86) and 2.7 (80, 86)."""
_FIRST_CAPTURE = 96 * MIB
"""Graph nodes and driver memory of the first capture."""


def capture_sizes(max_num_seqs: int) -> int:
    """Batch sizes captured: 1, 2, 4, by 8 to 256, by 16 beyond, up to min(2 x seqs, 512).

    Source: vllm/config/vllm.py _set_cudagraph_sizes.
    """
    largest = min(2 * max_num_seqs, _LARGEST)
    sizes = [1, 2, 4, *range(8, 257, 8), *range(272, _LARGEST + 1, 16)]
    return sum(1 for one in sizes if one <= largest)


def graph_bytes(
    shape: ModelShape,
    max_num_seqs: int,
    tp: int,
    dtype_bytes: int,
    *,
    nvlink: bool,
    extrapolated: bool = False,
) -> int:
    """Estimated memory of all graphs on one rank.

    max over modes of the first capture + (piecewise + full graphs - 2) x 3 MiB; the first capture
    holds the activations of the largest batch.  Source: gpu_model_runner.py
    profile_cudagraph_memory (V1).

    `extrapolated` (V2): the second largest full graph's memory, its activations, is taken for
    every full graph.  Source: gpu/cudagraph_utils.py _extrapolate_full_graph_memory.

    Without NVLink NCCL sums up after attention and MLP of every layer, in every graph.
    """
    piecewise, full = capture_sizes(max_num_seqs), capture_sizes(max(1, max_num_seqs // 2))
    tokens = min(2 * max_num_seqs, _LARGEST)
    width = shape.intermediate_size if shape.moe is None else (
        shape.moe.experts_per_token * shape.moe.intermediate_size
    )  # fmt: skip
    token = (3 * width / tp + 3 * shape.hidden_size) * dtype_bytes
    every = _FULL_SHARE * min(max_num_seqs, _LARGEST) * token * full if extrapolated else 0
    if tp > 1 and not nvlink:
        every += 2 * shape.layers * (piecewise + full) * _PER_COLLECTIVE
    return int(_FIRST_CAPTURE + tokens * token + max(0, piecewise + full - 2) * _PER_GRAPH + every)
