"""`nvidia-smi topo -m` (and `-mp`): levels between GPUs, and between GPUs and NICs.

The level is made of PCIe bridges and NUMA nodes; ACS does not show in it.  The legend's wording has
changed over the years (`switch`, `bridge`) and is not read.
"""

from __future__ import annotations

from nodeprep.model.topology import LevelMatrix
from nodeprep.parse.matrix import Kind, read_matrices
from nodeprep.parse.matrix_header import LEVEL_CELL

TOPO = Kind(
    program="nvidia-smi topo -m",
    cell=LEVEL_CELL,
    has_affinity=True,
    foreign_legend=frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}),
    other_program="nvidia-smi topo -p2p (kind p2p)",
)


def parse_topo(text: str) -> tuple[LevelMatrix, ...]:
    """Every `topo -m` matrix of a text, in order.

    A matrix whose GPU rows or columns are cut comes back with `complete=False`.
    Raises ParseError when there is no matrix of levels.
    """
    return read_matrices(text, TOPO)


def parse_topo_document(text: str) -> dict[str, tuple[LevelMatrix, ...]]:
    """`{"matrices": [...]}`, for `nodeprep parse topo`."""
    return {"matrices": parse_topo(text)}
