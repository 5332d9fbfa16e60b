"""Which GPUs work together: tensor-parallel groups of one node."""

from __future__ import annotations

from itertools import combinations

from nodeprep.errors import UsageError


def tensor_parallel_groups(gpu_count: int, size: int | None) -> tuple[tuple[int, ...], ...]:
    """Groups of consecutive GPUs: vLLM gives rank r of replica k the GPU k * size + r.

    size None: all GPUs are one group.  GPUs left over at the end form no group, and one GPU alone
    is none either.  Raises UsageError for a group larger than the node.
    """
    width = gpu_count if size is None else size
    if size is not None and gpu_count and size > gpu_count:
        raise UsageError(
            f"a tensor-parallel group of {size} GPUs, on a node of {gpu_count}",
            hint="set serving.tensor_parallel to what the node has",
        )
    if width < 2:
        return ()
    firsts = range(0, gpu_count - width + 1, width)
    return tuple(tuple(range(first, first + width)) for first in firsts)


def group_pairs(gpu_count: int, size: int | None) -> tuple[tuple[int, int], ...]:
    """Every pair inside a group, the lower index first, each once."""
    return tuple(
        pair for group in tensor_parallel_groups(gpu_count, size) for pair in combinations(group, 2)
    )
