"""Bus bandwidth that nodes of each class reach: one row a class, with its evidence.

GB/s at the largest size, mean of out-of-place and in-place.  `expected` is NCCL's own planning
figure where no recording stands behind it.  PCIe is saturated at 32 MiB; NVLink is not at 512 MiB:
its figures depend on the largest size of a run.  A new class is a new row.
"""

from __future__ import annotations

from nodeprep.model.base import Record

LARGE_BYTES = 4 << 30
"""8x H100 reaches 431 GB/s at 512 MiB, 469 at 2 GiB, 475 at 4 GiB, 480 at 8 GiB."""
FULL_BYTES = 512 << 20
_SMALL_FRACTION = 0.8
"""At 128 MiB NVLink reaches 0.83 (2x A100), 0.87 (4x A100), 0.89 (8x H100) and 0.93 (2x H100) of
what it reaches at 512 MiB."""


class Figures(Record, frozen=True):
    """GB/s."""

    expected_gbps: float
    pass_gbps: float
    warn_below_gbps: float

    def scaled(self, by: float) -> Figures:
        return Figures(self.expected_gbps * by, self.pass_gbps * by, self.warn_below_gbps * by)


class ClassRow(Record, frozen=True):
    link_class: str
    """`pcie4-switch-p2p`."""
    words: str
    gpus_min: int
    gpus_max: int
    figures: Figures
    """For runs that end at 512 MiB, and larger ones where `large` is None."""
    transport: str | None
    """What NCCL must use: `P2P`, `SHM`, or None when either will do."""
    evidence: str
    verified: bool
    """Public recordings of this class stand behind the figures."""
    note: str | None = None
    large: Figures | None = None
    """For runs whose largest size is `LARGE_BYTES` or more."""

    @property
    def over_nvlink(self) -> bool:
        return self.link_class.startswith("nvlink-")

    def at(self, size_bytes: int | None) -> Figures:
        """The figures for a run that ends at this size; None: not known, those of 512 MiB."""
        if size_bytes is None or not self.over_nvlink:
            return self.figures
        if size_bytes < FULL_BYTES:
            return self.figures.scaled(_SMALL_FRACTION)
        return self.large if self.large is not None and size_bytes >= LARGE_BYTES else self.figures


def row_for(link_class: str, gpus: int) -> ClassRow | None:
    """The row of a class for a number of GPUs; None: no figure is known."""
    return next(
        (
            row
            for row in TABLE
            if row.link_class == link_class and row.gpus_min <= gpus <= row.gpus_max
        ),
        None,
    )


def _row(
    link_class: str,
    words: str,
    gpus: tuple[int, int],
    figures: tuple[float, float, float],
    evidence: str,
    *,
    transport: str | None,
    verified: bool = True,
    note: str | None = None,
    large: tuple[float, float, float] | None = None,
) -> ClassRow:
    """A row of the table; `figures` and `large` are expected, pass and warn-below in GB/s."""
    return ClassRow(
        link_class=link_class,
        words=words,
        gpus_min=gpus[0],
        gpus_max=gpus[1],
        figures=Figures(*figures),
        transport=transport,
        evidence=evidence,
        verified=verified,
        note=note,
        large=Figures(*large) if large else None,
    )


_HOPPER_RING = (
    "below about 380 GB/s NVLink SHARP (NVLS) is off and a plain ring runs; two nodes of 8x H20, "
    "whose links are those of an H100, read as much: 352 at 512 MiB, 361 at 2 GiB "
    "(NVIDIA/nccl-tests#306)"
)
_BLACKWELL_RING = "below about 690 GB/s at 8 GiB NVLink SHARP (NVLS) is off and a plain ring runs"

TABLE: tuple[ClassRow, ...] = (
    # One PCIe switch tree (PIX, PXB), peer-to-peer.
    _row(
        "pcie4-switch-p2p", "PCIe Gen4 x16, one switch tree, P2P", (2, 8), (24.0, 22.0, 24.0),
        "NCCL plans 24; 22.0 is the mark of the published bring-up recipe, claimed there and not "
        "verified by a public log of this class; Gen4 P2P without a switch is recorded at "
        "24.7-26.0",
        transport="P2P", verified=False,
    ),
    _row(
        "pcie5-switch-p2p", "PCIe Gen5 x16, one switch tree, P2P", (2, 8), (48.0, 40.0, 45.0),
        "NCCL plans 48; no public log", transport="P2P", verified=False,
    ),
    _row(
        "pcie3-switch-p2p", "PCIe Gen3 x16, one switch tree, P2P", (2, 8), (12.0, 8.5, 9.0),
        "NCCL plans 12; one node, 4x V100 PCIe at 128 MiB: 11.2 with NCCL 2.4.2, 9.4 with 2.8.3 "
        "(Sheffield Bessemer)", transport="P2P",
    ),
    # No common switch, peer-to-peer through the root complex.
    _row(
        "pcie4-root-p2p", "PCIe Gen4 x16, no switch, one socket, P2P", (2, 6), (22.5, 18.0, 21.0),
        "4x RTX 4090 25.3, 5x RTX 4090 24.7, 6x RTX 4090 24.5 at 32 MiB "
        "(tinygrad/open-gpu-kernel-modules), NVIDIA/nccl#1603 reports 22", transport="P2P",
    ),
    _row(
        "pcie4-sockets-p2p", "PCIe Gen4 x16, two sockets, P2P", (8, 8), (20.0, 16.0, 19.0),
        "8x RTX 4090 on two sockets 20.6", transport="P2P",
    ),
    _row(
        "pcie4-sockets-p2p", "PCIe Gen4 x16, two sockets, P2P", (2, 7), (20.0, 16.0, 19.0),
        "figures of 8 GPUs; no public log of fewer", transport="P2P", verified=False,
    ),
    _row(
        "pcie5-root-p2p", "PCIe Gen5 x16, no switch, one socket, P2P", (2, 4), (40.0, 20.0, 25.0),
        "no public log: the pass mark is that of host memory in the same generation",
        transport="P2P", verified=False,
    ),
    _row(
        "pcie5-sockets-p2p", "PCIe Gen5 x16, two sockets, P2P", (8, 8), (44.0, 35.0, 41.0),
        "a single log: 8x RTX 5090 on two EPYC 9575F 44.0 at 128 MiB (README of the patched driver "
        "610.43.03); host memory reached 28 between two Xeon 8480+", transport="P2P",
    ),
    _row(
        "pcie5-sockets-p2p", "PCIe Gen5 x16, two sockets, P2P", (2, 7), (44.0, 35.0, 41.0),
        "figures of 8 GPUs; no public log of fewer", transport="P2P", verified=False,
    ),
    # Through host memory.
    _row(
        "pcie4-root-shm", "PCIe Gen4 x16, one socket, host memory", (2, 4), (16.0, 12.0, 15.0),
        "NVIDIA/nccl#1603 reports 18 on 4x RTX 4090", transport="SHM",
    ),
    _row(
        "pcie4-root-shm", "PCIe Gen4 x16, one socket, host memory", (5, 8), (13.0, 9.0, 13.0),
        "figures of two sockets; no public log", transport="SHM", verified=False,
    ),
    _row(
        "pcie4-sockets-shm", "PCIe Gen4 x16, two sockets, host memory", (4, 8), (13.0, 9.0, 13.0),
        "8x RTX 4090 14.5; NCCL plans 16 between AMD sockets, 10 between Skylake sockets",
        transport="SHM",
    ),
    _row(
        "pcie4-sockets-shm", "PCIe Gen4 x16, two sockets, host memory", (2, 3), (13.0, 9.0, 13.0),
        "figures of 4 GPUs and more; no public log of fewer", transport="SHM", verified=False,
    ),
    _row(
        "pcie5-root-shm", "PCIe Gen5 x16, one socket, host memory", (4, 4), (27.0, 20.0, 25.0),
        "4x RTX 5090 27.3 (NVIDIA/nccl-tests#287)", transport="SHM",
    ),
    _row(
        "pcie5-root-shm", "PCIe Gen5 x16, one socket, host memory", (2, 3), (27.0, 20.0, 25.0),
        "figures of 4 GPUs; no public log of fewer", transport="SHM", verified=False,
    ),
    _row(
        "pcie5-sockets-shm", "PCIe Gen5 x16, two sockets, host memory", (8, 8), (28.0, 14.0, 20.0),
        "a single report: 8x RTX 5090 on two Xeon 8480+ 28 at 8 GiB (NVIDIA/nccl#1639); NCCL plans "
        "16 between AMD sockets, and the pass mark is what Gen4 reaches there", transport="SHM",
    ),
    _row(
        "pcie5-sockets-shm", "PCIe Gen5 x16, two sockets, host memory", (2, 7), (28.0, 14.0, 20.0),
        "figures of 8 GPUs; no public log of fewer", transport="SHM", verified=False,
    ),
    _row(
        "pcie3-root-shm", "PCIe Gen3 x16, host memory or guest", (2, 2), (5.5, 3.5, 6.0),
        "2x RTX 2080 Ti 4.0, 2x V100 in a guest 6.7-6.9", transport=None,
    ),
    # NVLink.
    _row(
        "nvlink-bridge-ga10x", "NVLink bridge, 4 links (A6000, RTX 3090, A40)", (2, 2),
        (47.5, 40.0, 45.0), "one pair 47.5; NCCL plans 4 x 12", transport="P2P",
    ),
    _row(
        "nvlink-bridge-a100", "A100 PCIe pair, 12 NVLinks", (2, 2), (192.0, 170.0, 180.0),
        "NVIDIA/nccl-tests#178 reports 208 at 12 GiB; at 512 MiB the figure of two A100 SXM, which "
        "as many links join", transport="P2P", large=(208.0, 170.0, 195.0),
    ),
    _row(
        "nvlink-a100", "A100 SXM", (5, 8), (220.0, 180.0, 210.0),
        "8x 221.6 and 226.6 at 512 MiB, 231.6 and 235.3 at 8 GiB; NCCL plans 12 x 20",
        transport="P2P", large=(232.0, 190.0, 220.0),
    ),
    _row(
        "nvlink-a100", "A100 SXM", (4, 4), (205.0, 170.0, 195.0),
        "4x 205.5 at 512 MiB (a single log), 209 at 128 MiB in place, 234.7 at 8 GiB",
        transport="P2P", large=(232.0, 190.0, 220.0),
    ),
    _row(
        "nvlink-a100", "A100 SXM", (3, 3), (192.0, 160.0, 180.0),
        "figures of 2 GPUs, at 8 GiB those of 4; no public log", transport="P2P", verified=False,
        large=(232.0, 190.0, 220.0),
    ),
    _row(
        "nvlink-a100", "A100 SXM", (2, 2), (192.0, 160.0, 180.0),
        "a single log: 2x 192.3 at 512 MiB", transport="P2P",
    ),
    _row(
        "nvlink-hopper", "H100, H200 or H20 SXM", (5, 8), (440.0, 335.0, 420.0),
        "8x 431-443 at 512 MiB, 473-480 at 4 and 8 GiB, 5x 414 at 8 GiB; ring alone 352 at "
        "512 MiB, 366 at 8 GiB", transport="P2P", note=_HOPPER_RING, large=(475.0, 360.0, 405.0),
    ),
    _row(
        "nvlink-hopper", "H100, H200 or H20 SXM", (2, 4), (350.0, 300.0, 335.0),
        "2x 348 at 512 MiB (a single log), 358 at 1 GiB; 4x 356 at 1 GiB, 363 at 8 GiB",
        transport="P2P", large=(360.0, 300.0, 345.0),
    ),
    _row(
        "nvlink-blackwell", "B200 SXM", (6, 8), (695.0, 590.0, 660.0),
        "8x 689 and 703 at 512 MiB, 838 at 8 GiB; ring alone 682 at 8 GiB", transport="P2P",
        note=_BLACKWELL_RING, large=(838.0, 650.0, 780.0),
    ),
    _row(
        "nvlink-blackwell", "B200 SXM", (2, 5), (670.0, 540.0, 600.0),
        "4x 673 at 8 GiB", transport="P2P",
    ),
    _row(
        "nvlink-volta", "V100 SXM3, NVSwitch", (8, 16), (123.0, 100.0, 115.0),
        "12x on a DGX-2 123.6", transport="P2P",
    ),
)  # fmt: skip
