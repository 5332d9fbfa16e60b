"""How PyTorch's caching allocator rounds a request, hence what `model loading took` counts."""

from __future__ import annotations

from nodeprep.units import MIB

_ALIGN = 512
_SPLIT = MIB
_LARGE_REQUEST = 10 * MIB
_ROUND_LARGE = 2 * MIB


def allocated_bytes(size_bytes: float) -> int:
    """Bytes that one tensor takes in `allocated_bytes`.

    A request of 10 MiB and more gets a segment rounded up to 2 MiB, and the rest of the segment is
    split off only when it is larger than 1 MiB; smaller requests are rounded to 512 bytes.
    Source: c10/cuda/CUDACachingAllocator.cpp, kRoundLarge, kMinLargeAlloc, should_split.
    """
    size = -(-int(size_bytes) // _ALIGN) * _ALIGN
    if size < _LARGE_REQUEST:
        return size
    segment = -(-size // _ROUND_LARGE) * _ROUND_LARGE
    return size if segment - size > _SPLIT else segment
