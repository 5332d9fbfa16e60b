"""A node as NCCL sees it with NCCL_P2P_DISABLE=1; pure."""

from __future__ import annotations

from msgspec.structs import replace

from nodeprep.model.facts import NodeFacts
from nodeprep.model.topology import P2pStatus, PathLevel


def without_p2p(facts: NodeFacts) -> NodeFacts:
    """The same facts with peer access denied to every pair, so that its host-memory class counts.

    NVLink is peer-to-peer too: NCCL_P2P_DISABLE=1 leaves it out.
    """
    return replace(
        facts,
        pairs=tuple(
            replace(
                pair,
                nvlinks=None if pair.nvlinks is None else 0,
                driver_level=None if pair.driver_level is PathLevel.NVLINK else pair.driver_level,
                p2p_read=P2pStatus.DR,
                p2p_write=P2pStatus.DR,
            )
            for pair in facts.pairs
        ),
    )
