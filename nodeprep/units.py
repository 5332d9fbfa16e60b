"""Units, exact and explicit: the only place that knows 1000 from 1024.

Memory is counted in bytes and shown in GiB (2**30); bandwidth is GB/s (10**9 bytes a second),
as nccl-tests prints it.
"""

from __future__ import annotations

import re

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
GB = 10**9

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def gib(size_bytes: float) -> float:
    """Bytes as GiB."""
    return size_bytes / GIB


def mib(size_bytes: float) -> float:
    """Bytes as MiB."""
    return size_bytes / MIB


def bytes_from_gib(size_gib: float) -> int:
    """GiB as whole bytes, rounded to the nearest."""
    return round(size_gib * GIB)


def parse_size_bytes(text: str) -> int:
    """Bytes of a size as people write it: `8M` and `8MiB` are 8 * 2**20, `8` is 8 bytes.

    nccl-tests reads K, M and G as powers of 1024 (src/common.cu, parsesize), and so does this.
    Raises ValueError.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return int(float(match[1]) * 1024 ** _POWER[match[2].upper()])


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 warning`, `2 warnings`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def show_bytes(size_bytes: float) -> str:
    """A size for a person, in binary units: `44.39 GiB`, `512 MiB`, `300 B`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size_bytes) >= unit:
            value = size_bytes / unit
            return f"{value:.0f} {name}" if value == int(value) else f"{value:.2f} {name}"
    return f"{size_bytes:.0f} B"
