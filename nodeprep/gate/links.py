"""What each link on the way between GPUs can carry, in NCCL's own figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from nodeprep.model.base import Record
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import Bdf, LinkStatus, PciFunction, PortType
from nodeprep.model.tree import PciTree

_LANE_GBPS = {
    2.5: 15 / 80, 5.0: 30 / 80, 8.0: 60 / 80, 16.0: 120 / 80, 32.0: 240 / 80, 64.0: 480 / 80,
}  # fmt: skip
"""GT/s -> GB/s a lane after protocol, by which NCCL plans (src/graph/topo.cc, kvDictPciGen over
80): x16 carries 3, 6, 12, 24, 48, 96 GB/s in Gen 1 to 6."""
GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
FULL_WIDTH = 16


class Hop(Record, frozen=True):
    """One PCIe link: the port above and the function below it."""

    above: Bdf | None
    """None: the function sits on a root bus, as in a guest; only its own end is known."""
    below: Bdf
    speed_gts: float
    width: int

    @property
    def generation(self) -> int:
        return GENERATION[self.speed_gts]

    @property
    def gbps(self) -> float:
        """GB/s in one direction."""
        return _LANE_GBPS[self.speed_gts] * self.width

    @property
    def full_gbps(self) -> float:
        """GB/s the same generation carries over 16 lanes."""
        return _LANE_GBPS[self.speed_gts] * FULL_WIDTH

    def __str__(self) -> str:
        return (
            f"{self.above or 'root bus'} to {self.below}, Gen{self.generation} x{self.width}: "
            f"{self.gbps:g} GB/s a direction"
        )


def hops_below(tree: PciTree, gpu: Gpu, turn: Bdf | None) -> tuple[Hop | None, ...]:
    """The links from a GPU up to the bridge where the way turns; None: up to the root complex.

    A link lies between a function and the root or downstream port right above it; from a
    downstream to an upstream port the way runs inside the switch.  None stands for a link whose
    speed or width nobody could read.
    """
    function = tree.functions.get(gpu.bdf)
    if function is None:
        return (None,)
    steps = [function]
    for bridge in tree.chain(gpu.bdf):
        steps.append(bridge)
        if bridge.bdf == turn:
            break
    if len(steps) == 1:
        return (_hop(None, function, gpu),)
    hops = [
        _hop(above, below, gpu)
        for below, above in pairwise(steps)
        if not _inside_switch(above, below)
    ]
    return tuple(hops)


def slowest(hops: Iterable[Hop]) -> Hop:
    """The link that limits the way; the first of equals."""
    return min(hops, key=lambda hop: hop.gbps)


def _inside_switch(above: PciFunction, below: PciFunction) -> bool:
    return above.port_type is PortType.UPSTREAM or below.port_type is PortType.DOWNSTREAM


def _hop(above: PciFunction | None, below: PciFunction, gpu: Gpu) -> Hop | None:
    """The link as it will run under load, from what its ends say.

    An idle GPU drops its link to Gen1, so for its link the speed both ends can do counts, unless it
    was seen at full performance; the width, and the speed of every other link, are as negotiated.
    """
    idle_saves = below.bdf == gpu.bdf and gpu.performance_state != 0
    ends = [one.link for one in (above, below) if one is not None and one.link is not None]
    speeds = [end.speed_gts for end in ends if end.speed_gts is not None]
    limits = [end.max_speed_gts for end in ends if end.max_speed_gts is not None]
    speed = min(limits, default=None) if idle_saves and limits else min(speeds, default=None)
    if speed is None:
        speed = min(limits, default=None)
    width = min(_widths(ends), default=None)
    if speed not in GENERATION or speed is None or not width:
        return None
    return Hop(above=above.bdf if above else None, below=below.bdf, speed_gts=speed, width=width)


def _widths(ends: Iterable[LinkStatus]) -> Iterator[int]:
    """Negotiated widths; what the ends could do only where nothing was negotiated."""
    known = list(ends)
    negotiated = [end.width for end in known if end.width]
    yield from negotiated or [end.max_width for end in known if end.max_width]
