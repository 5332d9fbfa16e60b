"""Which transport NCCL picks between two GPUs of one node, by its own default rules."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.topology import GpuPair, PathLevel

_ORDER = (
    PathLevel.SELF,
    PathLevel.NVLINK,
    PathLevel.PIX,
    PathLevel.PXB,
    PathLevel.PHB,
    PathLevel.NODE,
    PathLevel.SYS,
)


class Transport(Enum):
    NVLINK = "P2P over NVLink"
    P2P = "P2P over PCIe"
    SHM = "SHM, through host memory"


def p2p_limit(
    cpu_vendor: str | None, gpu_count: int, nccl_version: tuple[int, int] | None = None
) -> PathLevel:
    """The farthest level at which NCCL uses PCIe P2P unless NCCL_P2P_LEVEL says otherwise.

    NCCL src/graph/paths.cc: from 2.23 on PXB, but SYS on AMD with at most two GPUs; up to 2.22 SYS
    on any AMD x86 and PXB elsewhere.  None takes the newer rule.
    """
    amd = cpu_vendor == "AuthenticAMD"
    if nccl_version is not None and nccl_version < (2, 23):
        return PathLevel.SYS if amd else PathLevel.PXB
    return PathLevel.SYS if amd and gpu_count <= 2 else PathLevel.PXB


def within(level: PathLevel, limit: PathLevel) -> bool:
    """Whether a level is at most as far as the limit."""
    return _ORDER.index(level) <= _ORDER.index(limit)


def transport(pair: GpuPair, level: PathLevel | None, limit: PathLevel) -> Transport | None:
    """What NCCL will use for a pair; None when level or P2P status are not known.

    NCCL needs NVML's read and write P2P status to be OK, else it falls back to SHM in silence.
    """
    if pair.nvlinks:
        return Transport.NVLINK if pair.p2p_granted is not False else Transport.SHM
    if pair.p2p_granted is False:
        return Transport.SHM
    if level is None or pair.p2p_granted is None:
        return None
    return Transport.P2P if within(level, limit) else Transport.SHM
