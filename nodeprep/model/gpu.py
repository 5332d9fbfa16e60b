"""A GPU as driver and bus describe it."""

from __future__ import annotations

from nodeprep.model.base import Record
from nodeprep.model.pci import Bdf


class GpuProcess(Record, frozen=True):
    pid: int
    memory_bytes: int | None
    name: str | None = None
    """Untrusted text."""


class Gpu(Record, frozen=True):
    index: int
    """Position in PCI bus order, which is nvidia-smi's."""
    bdf: Bdf
    name: str | None = None
    """Product name, untrusted text: `NVIDIA L40S`."""
    uuid: str | None = None
    memory_total_bytes: int | None = None
    """As NVML reports it, which is a little above what CUDA reports."""
    memory_used_bytes: int | None = None
    bar1_total_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    """(8, 9) is sm89."""
    mig_enabled: bool | None = None
    driver_grade: str | None = None
    """Who speaks for this GPU: `nvml`, `nvidia-smi` or `pci` (the bus alone)."""
    performance_state: int | None = None
    """0 is full speed, 8 and above idle."""
    processes: tuple[GpuProcess, ...] | None = None
    fabric_state: int | None = None
    """nvmlGpuFabricState_t: 0 not supported, 1 not started, 2 in progress, 3 completed."""
