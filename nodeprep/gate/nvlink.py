"""Which NVLink class a group of GPUs is, from link counts and GPU generation."""

from __future__ import annotations

from collections.abc import Sequence

from nodeprep.model.base import Record
from nodeprep.model.gpu import Gpu
from nodeprep.model.topology import GpuPair, PathLevel

LINK_GBPS: dict[tuple[int, int], float] = {
    (7, 0): 20.0, (8, 0): 20.0, (8, 6): 12.0, (9, 0): 20.6, (10, 0): 40.1,
}  # fmt: skip
"""Compute capability -> GB/s of one NVLink in one direction (NCCL src/graph/topo.h)."""

_CAPABILITY_OF_NAME = {
    "V100": (7, 0), "A100": (8, 0), "A800": (8, 0), "A30": (8, 0), "A40": (8, 6), "A6000": (8, 6),
    "A5000": (8, 6), "3090": (8, 6), "H100": (9, 0), "H200": (9, 0), "H800": (9, 0), "H20": (9, 0),
    "GH200": (9, 0), "B200": (10, 0), "B100": (10, 0), "GB200": (10, 0),
}  # fmt: skip
_SWITCH_LINKS = {(8, 0): 12, (9, 0): 18, (10, 0): 18, (7, 0): 6}
_SWITCH_CLASS = {
    (8, 0): "nvlink-a100", (9, 0): "nvlink-hopper", (10, 0): "nvlink-blackwell",
    (7, 0): "nvlink-volta",
}  # fmt: skip


class NvlinkClass(Record, frozen=True):
    link_class: str | None
    """None: NVLink joins all, and no figure is known for this layout."""
    hop: str


def nvlink_class(gpus: Sequence[Gpu], pairs: Sequence[GpuPair]) -> NvlinkClass | None:
    """The class when NVLink joins every pair of the group; None when it does not.

    With one pair unjoined the ring leaves NVLink, and PCIe decides.
    """
    if not pairs or not all(has_nvlink(pair) for pair in pairs):
        return None
    capability = _capability(gpus)
    counts = {pair.nvlinks for pair in pairs}
    links = counts.pop() if len(counts) == 1 else None
    return NvlinkClass(
        link_class=None if links is None else _known_class(gpus, capability, links),
        hop=_hop_words(links, capability),
    )


def has_nvlink(pair: GpuPair) -> bool:
    """Whether NVLink joins a pair, by link count or by the driver's matrix."""
    if pair.nvlinks is not None:
        return pair.nvlinks > 0
    return pair.driver_level is PathLevel.NVLINK


def _known_class(gpus: Sequence[Gpu], capability: tuple[int, int] | None, links: int) -> str | None:
    if capability is None:
        return None
    if len(gpus) == 2 and capability == (8, 6) and links == 4:
        return "nvlink-bridge-ga10x"
    if _on_pcie_board(gpus):
        pair_of_a100 = len(gpus) == 2 and capability == (8, 0) and links == 12
        return "nvlink-bridge-a100" if pair_of_a100 else None
    if links == _SWITCH_LINKS.get(capability) or _is_a100_mesh(gpus, capability, links):
        return _SWITCH_CLASS[capability]
    return None


def _is_a100_mesh(gpus: Sequence[Gpu], capability: tuple[int, int], links: int) -> bool:
    """The 4-GPU A100 board without NVSwitch: four links to each of the three others."""
    return capability == (8, 0) and len(gpus) == 4 and links == 4


def _on_pcie_board(gpus: Sequence[Gpu]) -> bool:
    """H100 PCIe, H100 NVL, A30...: NVLink by bridges between cards."""
    words = ("PCIE", " NVL", "A30", "RTX", "GEFORCE")
    return any(word in (gpu.name or "").upper() for gpu in gpus for word in words)


def _capability(gpus: Sequence[Gpu]) -> tuple[int, int] | None:
    """The one compute capability of the group; None when unlike or unknown."""
    known = {gpu.compute_capability or _by_name(gpu.name) for gpu in gpus}
    return known.pop() if len(known) == 1 else None


def _by_name(name: str | None) -> tuple[int, int] | None:
    """Product name to compute capability, longest name first: GH200 is not H200."""
    words = (name or "").upper().replace("-", " ").split()
    for word in words:
        if word in _CAPABILITY_OF_NAME:
            return _CAPABILITY_OF_NAME[word]
    return None


def _hop_words(links: int | None, capability: tuple[int, int] | None) -> str:
    if links is None:
        return "NVLink, link counts unknown or unlike"
    each = LINK_GBPS.get(capability) if capability else None
    if each is None:
        return f"NVLink, {links} links between two GPUs"
    return f"NVLink, {links} links x {each:g} GB/s = {links * each:.0f} GB/s a direction"
