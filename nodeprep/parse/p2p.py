"""`nvidia-smi topo -p2p r|w|n|a|p` (or several letters): what the driver grants each pair.

The text does not say which letter was asked.  None of the words is a verdict on ACS, and OK is a
grant, not a proof that data arrive.
"""

from __future__ import annotations

from nodeprep.model.topology import LevelMatrix
from nodeprep.parse.matrix import Kind, read_matrices
from nodeprep.parse.matrix_header import P2P_CELL

P2P = Kind(
    program="nvidia-smi topo -p2p",
    cell=P2P_CELL,
    has_affinity=False,
    foreign_legend=frozenset({"PIX", "PXB", "PHB", "NODE", "SYS", "SOC"}),
    other_program="nvidia-smi topo -m (kind topo)",
)


def parse_p2p(text: str) -> tuple[LevelMatrix, ...]:
    """Every `topo -p2p` matrix of a text, in order; cells are those of `P2pStatus`, and X.

    A matrix whose rows or columns are cut comes back with `complete=False`.
    Raises ParseError when there is no matrix of this sort.
    """
    return read_matrices(text, P2P)


def parse_p2p_document(text: str) -> dict[str, tuple[LevelMatrix, ...]]:
    """`{"matrices": [...]}`, for `nodeprep parse p2p`."""
    return {"matrices": parse_p2p(text)}
