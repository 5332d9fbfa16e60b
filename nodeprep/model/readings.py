"""Raw readings that cross the host door, before anybody makes facts of them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from nodeprep.model.base import Record


class Stopped(Enum):
    """Why a watched program was stopped."""

    DEADLINE = "deadline"
    SILENCE = "silence"
    """No line that counts as a sign of life for too long."""


class CommandResult(Record, frozen=True):
    argv: tuple[str, ...]
    status: int
    """Exit status; negative: the signal that ended it."""
    stdout: str
    stderr: str
    truncated: bool = False
    """The output was longer than what is kept."""
    duration_s: float = 0.0
    simulated: bool = False
    stopped: Stopped | None = None
    """None: it ended by itself."""
    survivors: tuple[str, ...] = ()
    """Processes of its group that outlived TERM and KILL, `4711 (state D)`."""


Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
Index = Annotated[int, msgspec.Meta(ge=0, le=1 << 16)]


class NvmlProcess(Record, frozen=True):
    pid: int
    memory_bytes: Bytes | None


class NvmlGpu(Record, frozen=True):
    """One device handle as NVML describes it; None: NVML would not say."""

    bus_id: str
    """As printed by NVML: an 8-digit domain."""
    name: str | None = None
    uuid: str | None = None
    memory_total_bytes: Bytes | None = None
    memory_used_bytes: Bytes | None = None
    bar1_total_bytes: Bytes | None = None
    compute_capability: tuple[int, int] | None = None
    mig_current: int | None = None
    performance_state: int | None = None
    nvlinks_active: int | None = None
    """NVLinks in state enabled; None where the query is not supported."""
    processes: tuple[NvmlProcess, ...] | None = None
    fabric_state: int | None = None
    """nvmlGpuFabricState_t: 0 not supported, 1 not started, 2 in progress, 3 completed."""
    throttle_reasons: int | None = None
    """nvmlClocksEventReasons, a mask."""
    sm_clock_mhz: int | None = None
    pcie_replays: int | None = None


class NvmlPair(Record, frozen=True):
    """Indices are positions in `NvmlReading.gpus`."""

    a: Index
    b: Index
    common_ancestor: int | None = None
    """nvmlGpuTopologyLevel_t: 0 internal, 10 single, 20 multiple, 30 hostbridge, 40 node,
    50 system."""
    p2p_read: int | None = None
    """nvmlGpuP2PStatus_t: 0 OK, 1 CNS, 2 GNS, 3 TNS, 4 DR, 5 NS, 6 U."""
    p2p_write: int | None = None
    nvlinks: int | None = None
    """Links whose remote end is the other GPU, or an NVSwitch both are connected to."""


class NvmlReading(Record, frozen=True):
    driver_version: str | None
    gpus: tuple[NvmlGpu, ...]
    pairs: tuple[NvmlPair, ...]


class ResourcesReading(Record, frozen=True):
    logical_cpus: int | None = None
    memory_total_bytes: Bytes | None = None
    memory_available_bytes: Bytes | None = None
    swap_total_bytes: Bytes | None = None
    shm_total_bytes: Bytes | None = None
