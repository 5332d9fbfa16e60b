"""What NCCL's own log says: version, the way between each pair of ranks, settings, warnings."""

from __future__ import annotations

from nodeprep.model.base import Record


class NcclLink(Record, frozen=True):
    """All channels from one rank to another."""

    source: int
    target: int
    transports: tuple[str, ...]
    """Distinct, slowest kind first: `NET/Socket`, `SHM/direct/direct`, `P2P/direct pointer`."""
    channels: int
    """Number of channel connections that the log names."""

    @property
    def name(self) -> str:
        """`0->1`."""
        return f"{self.source}->{self.target}"


class NcclLog(Record, frozen=True):
    nccl_version: str | None
    """`2.27.7`, without the CUDA suffix."""
    cuda_driver_version: int | None
    """12080 is CUDA 12.8."""
    ranks: int | None
    links: tuple[NcclLink, ...]
    transports: tuple[str, ...]
    """Distinct transports of the whole log, in order of appearance."""
    networks: tuple[str, ...]
    """`Using network Socket`: what NCCL would use between nodes."""
    p2p_disabled: tuple[tuple[int, int], ...]
    """Device pairs for which NVML denies peer access, as NCCL numbers them; low first."""
    all_direct_p2p: bool | None
    """NCCL's own summary: every pair of this node can reach each other directly."""
    nvls: bool | None
    """Whether NVLink SHARP multicast is available."""
    environment: dict[str, str]
    """NCCL_* settings that NCCL says it took from the environment or its configuration file."""
    algorithms: dict[str, str]
    """`AllReduce 8388608` -> `RING SIMPLE`, where TUNING was logged."""
    warnings: tuple[str, ...]
    """Text of WARN lines, each once."""
    complete: bool
    """Initialisation ended (`Init COMPLETE`)."""

    @property
    def by_pair(self) -> dict[str, str]:
        """`0->1` -> its slowest transport."""
        return {link.name: link.transports[0] for link in self.links}
