"""Everything known about one node, with what is not known and why."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from nodeprep.model.acs import AcsState
from nodeprep.model.base import Record
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import Bdf, PciFunction
from nodeprep.model.topology import GpuPair
from nodeprep.model.tree import PciTree


class Origin(Enum):
    """Where facts come from."""

    LIVE = "live"
    FABRICATED = "fabricated"
    """A sysfs look-alike given with --sysfs-root."""
    REPLAY = "replay"
    """A snapshot or a recorded machine."""


class CollectorStatus(Record, frozen=True):
    name: str
    ok: bool
    duration_s: float
    error: str | None = None
    hint: str | None = None


class IommuGroup(Record, frozen=True):
    number: int
    type: str | None
    """`identity` (passthrough), `DMA` or `DMA-FQ` (translated), `unmanaged` (VFIO), `blocked`."""
    members: tuple[Bdf, ...]


class Platform(Record, frozen=True):
    kernel_release: str | None = None
    cmdline: str | None = None
    virtualization: str | None = None
    """`none` on bare metal; else what systemd-detect-virt calls it."""
    lockdown: str | None = None
    """`none`, `integrity` or `confidentiality`."""
    cpu_vendor: str | None = None
    """`AuthenticAMD`, `GenuineIntel`, an Arm implementer..."""
    cpu_model: str | None = None
    sockets: int | None = None
    numa_nodes: int | None = None
    driver_version: str | None = None
    """NVIDIA kernel module."""
    iommu_enabled: bool | None = None
    """Whether the kernel has any IOMMU group."""


class HostResources(Record, frozen=True):
    """What psutil and the file system know; for limits, placement and disk room."""

    logical_cpus: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    shm_total_bytes: int | None = None


class NodeFacts(Record, frozen=True, dict=True):
    origin: Origin
    functions: dict[Bdf, PciFunction]
    gpus: tuple[Gpu, ...]
    pairs: tuple[GpuPair, ...]
    machine: str | None = None
    """Name of the recorded machine, if one is replayed."""
    constructed: bool = False
    """The recording was built, not recorded on a node."""
    is_root: bool | None = None
    boot_id: str | None = None
    iommu_groups: dict[int, IommuGroup] = {}
    platform: Platform = Platform()
    resources: HostResources = HostResources()
    statuses: tuple[CollectorStatus, ...] = ()
    acs_saved: AcsState | None = None
    """What `acs apply` saved in this boot; None: nothing, or nobody looked."""

    @cached_property
    def tree(self) -> PciTree:
        """The functions by their places, made when first asked for."""
        return PciTree(self.functions)

    def status(self, name: str) -> CollectorStatus | None:
        """The status of one collector."""
        return next((status for status in self.statuses if status.name == name), None)

    def pair(self, a: int, b: int) -> GpuPair | None:
        """The pair of two GPU indices, in either order."""
        return self._pairs.get((min(a, b), max(a, b)))

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], GpuPair]:
        return {(pair.a, pair.b): pair for pair in self.pairs}
