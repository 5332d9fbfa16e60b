"""How two GPUs reach each other: level, peer-to-peer status, pair."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from nodeprep.model.base import Record

_GPU_PAIR = re.compile(r"GPU(\d{1,4})-GPU(\d{1,4})")


class PathLevel(Enum):
    """The levels of `nvidia-smi topo -m`, nearest first."""

    SELF = "X"
    NVLINK = "NV"
    """A bonded set of NVLinks; the count stands beside it."""
    PIX = "PIX"
    """At most a single PCIe bridge between the two ports."""
    PXB = "PXB"
    """Several PCIe bridges, no host bridge."""
    PHB = "PHB"
    """A PCIe host bridge: the same root bus, no common switch."""
    NODE = "NODE"
    """Several host bridges inside one NUMA node."""
    SYS = "SYS"
    """The interconnect between NUMA nodes."""


class P2pStatus(Enum):
    """The letters of `nvidia-smi topo -p2p` (NVML nvmlGpuP2PStatus_t). None is a verdict on ACS."""

    OK = "OK"
    CNS = "CNS"
    """Chipset not supported: no common allow-listed switch, and CPU or chipset not accepted."""
    GNS = "GNS"
    """GPU not supported: product or driver policy on the GPU side."""
    TNS = "TNS"
    """Topology not supported: root ports of different I/O hubs of old Intel Xeons."""
    NS = "NS"
    """Not supported for another reason: MIG, unlike GPUs, fabric fault."""
    DR = "DR"
    """Disabled by a registry key of the driver."""
    U = "U"
    """Unknown to the driver."""


class LevelMatrix(Record, frozen=True):
    """One matrix of `topo -m` or `topo -p2p` as printed."""

    devices: tuple[str, ...]
    """Column names, GPUs first: GPU0, GPU1, NIC0, mlx5_0..."""
    cells: dict[str, dict[str, str]]
    """row -> column -> cell text (`PIX`, `NV18`, `OK`, `X`)."""
    complete: bool
    """Every GPU row holds a cell for every GPU column."""
    nic_rows_complete: bool
    affinity: dict[str, dict[str, str]] = {}
    """row -> `CPU Affinity` | `NUMA Affinity` | `GPU NUMA ID` -> text as printed."""
    nic_names: dict[str, str] = {}
    """The NIC legend: NIC0 -> mlx5_0."""
    asymmetric: tuple[str, ...] = ()
    """Pairs of GPUs whose two cells differ, `GPU0-GPU1`: a text edited by hand, or one-way P2P."""


class GpuPair(Record, frozen=True):
    """What the driver says of two GPUs; `a` and `b` are GPU indices, a < b."""

    a: int
    b: int
    driver_level: PathLevel | None = None
    nvlinks: int | None = None
    """Bonded NVLinks between the two; 0 when known to have none."""
    p2p_read: P2pStatus | None = None
    p2p_write: P2pStatus | None = None

    @property
    def p2p_granted(self) -> bool | None:
        """Whether the driver grants peer access both ways; NCCL needs read and write."""
        told = (self.p2p_read, self.p2p_write)
        if any(status not in (None, P2pStatus.OK) for status in told):
            return False
        return None if None in told else True


def pairs_text(pairs: Iterable[str]) -> str:
    """`GPU0-GPU1, GPU0-GPU2`; `every pair of GPU0-GPU3` when it is just that.

    A name of another form than `GPU0-GPU1` is kept as it stands, and so are all with it.
    """
    every = list(dict.fromkeys(pairs))
    ends = [_GPU_PAIR.fullmatch(pair) for pair in every]
    found = {frozenset((int(end[1]), int(end[2]))) for end in ends if end}
    gpus = {index for pair in found for index in pair}
    complete = len(found) == len(every) == len(gpus) * (len(gpus) - 1) // 2
    if len(gpus) > 2 and complete and all(len(pair) == 2 for pair in found):
        return f"every pair of {ranges(gpus, 'GPU')}"
    return ", ".join(every)


def ranges(numbers: Iterable[int], name: str = "") -> str:
    """`20-23, 30`; with a name `GPU0-GPU3, GPU6`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{name}{run[0]}" if len(run) == 1 else f"{name}{run[0]}-{name}{run[-1]}"
                     for run in runs)  # fmt: skip


def level_label(level: PathLevel | None, nvlinks: int | None = None) -> str:
    """A level as the matrix prints it: `PIX`, `NV18`, `?` when unknown."""
    if level is None:
        return "?"
    return f"NV{nvlinks}" if level is PathLevel.NVLINK and nvlinks else level.value
