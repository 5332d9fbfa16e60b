"""The table that plain `nvidia-smi` prints."""

from __future__ import annotations

from nodeprep.model.base import Record
from nodeprep.model.pci import Bdf


class SmiGpu(Record, frozen=True):
    """One GPU of the table; None: the cell is cut or says N/A."""

    index: int
    name: str | None
    bdf: Bdf | None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilization_percent: int | None = None
    performance_state: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None


class SmiProcess(Record, frozen=True):
    gpu_index: int
    pid: int
    kind: str
    """`C` compute, `G` graphics, `C+G`."""
    name: str
    """Untrusted text; often cut by nvidia-smi itself."""
    memory_bytes: int | None


class SmiTable(Record, frozen=True):
    driver_version: str | None
    cuda_version: str | None
    gpus: tuple[SmiGpu, ...]
    processes: tuple[SmiProcess, ...]
    error: str | None = None
    """What nvidia-smi said instead of a table."""
