"""GPU generations: the compute capability that decides which kernels an engine has."""

from __future__ import annotations

import re

from nodeprep.model.gpu import Gpu

Capability = tuple[int, int]

# Product -> compute capability, from NVIDIA's "CUDA GPU Compute Capability" table.  The first
# match counts: longer names stand before the shorter ones they contain.
_PRODUCTS: tuple[tuple[str, Capability], ...] = (
    (r"GB300|B300", (10, 3)),
    (r"GB200|B200|B100", (10, 0)),
    (r"GB10", (12, 1)),
    (r"RTX PRO \d+|RTX 50[5-9]0|50[5-9]0", (12, 0)),
    (r"GH200|H200|H100|H800|H20", (9, 0)),
    (r"L40S|L40|L20|L4|L2", (8, 9)),
    (r"RTX \d+(?: SFF)? Ada|40[5-9]0", (8, 9)),
    (r"A100|A800|A30", (8, 0)),
    (r"A40|A10G?|A16|A2|RTX A\d+|30[5-9]0", (8, 6)),
    (r"T4|Quadro RTX \d+|TITAN RTX|20[6-8]0", (7, 5)),
    (r"V100|TITAN V", (7, 0)),
)
_COMPILED = tuple((re.compile(rf"\b(?:{words})\b", re.I), cc) for words, cc in _PRODUCTS)

_NAMES: tuple[tuple[Capability, str], ...] = (
    ((10, 0), "Blackwell"),
    ((9, 0), "Hopper"),
    ((8, 9), "Ada"),
    ((8, 0), "Ampere"),
    ((7, 5), "Turing"),
    ((7, 0), "Volta"),
)


def capability(gpu: Gpu) -> Capability | None:
    """Compute capability as the driver reports it, by product name otherwise; None: not known."""
    if gpu.compute_capability is not None:
        return gpu.compute_capability
    return capability_of(gpu.name or "")


def capability_of(product: str) -> Capability | None:
    """Compute capability of a product by its name; None: not in the table."""
    name = product[:128].replace("_", " ")
    return next((cc for pattern, cc in _COMPILED if pattern.search(name)), None)


def generation(cc: Capability | None) -> str:
    """`Ada` for (8, 9); a sentence fragment for a reason."""
    if cc is None:
        return "an unknown GPU generation"
    return next((name for first, name in _NAMES if cc >= first), "a GPU older than Volta")
