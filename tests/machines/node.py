"""A node put together function by function, and a host in memory that answers for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from nodeprep.errors import HostError, NotFound
from nodeprep.host.base import ReadAt
from nodeprep.model.facts import Origin
from nodeprep.model.pci import Bdf, PortType, bus_of, parse_bdf
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading
from tests.pci_bytes import config_space
from tests.watching import WatchesByRunning

DEVICES = "/sys/bus/pci/devices"
ACS_CAP = 0x5F
"""SV TB RR CR UF DT, as Broadcom and AMD ports have it."""


@dataclass(frozen=True)
class Part:
    """What a function is: ids, class and the name that lspci prints."""

    vendor: int
    device: int
    class_code: int
    name: str
    class_name: str
    port_type: PortType | None = PortType.ENDPOINT


@dataclass
class Node:
    """A machine under construction."""

    name: str
    notes: tuple[str, ...]
    boot_id: str
    files: dict[str, bytes] = field(default_factory=dict)
    directories: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    commands: dict[tuple[str, ...], CommandResult] = field(default_factory=dict)
    programs: set[str] = field(default_factory=lambda: {"lspci", "setpci", "systemd-detect-virt"})
    nvml: NvmlReading | None = None
    resources: ResourcesReading | None = None
    lspci_lines: dict[Bdf, str] = field(default_factory=dict)
    places: dict[Bdf, str] = field(default_factory=dict)
    roots: dict[str, int] = field(default_factory=dict)
    """Root bus -> NUMA node."""
    iommu: bool = False
    """Every function that names no IOMMU group gets one of its own."""
    groups: dict[Bdf, int] = field(default_factory=dict)
    """IOMMU group of each function that has one."""

    def text(self, path: str, content: str) -> None:
        self.files[path] = content.encode()

    def answer(self, argv: Sequence[str], stdout: str, status: int = 0) -> None:
        key = tuple(argv)
        self.programs.add(key[0])
        self.commands[key] = CommandResult(argv=key, status=status, stdout=stdout, stderr="")

    def function(
        self,
        bdf: str,
        part: Part,
        *,
        parent: str | None = None,
        bus: int | None = None,
        last_bus: int | None = None,
        acs: int | None = None,
        acs_cap: int = ACS_CAP,
        speed_gts: float = 16.0,
        width: int = 16,
        max_speed_gts: float | None = None,
        max_width: int | None = None,
        driver: str | None = None,
        group: int | None = None,
        group_type: str = "identity",
        vfs: int | None = None,
        multifunction: bool = False,
    ) -> str:
        """Adds one function and returns its address, for the children below it."""
        address = parse_bdf(bdf)
        if group is None and self.iommu:
            group = max(self.groups.values(), default=-1) + 1
        above = self.places[parse_bdf(parent)] if parent else f"pci{bus_of(address)}"
        self.places[address] = f"{above}/{address}"
        primary = int(bus_of(address)[-2:], 16)
        self._sysfs(address, driver, group, group_type, vfs)
        self.files[f"{DEVICES}/{address}/config"] = config_space(
            vendor=part.vendor,
            device=part.device,
            class_code=part.class_code,
            port_type=part.port_type,
            multifunction=multifunction,
            buses=None if bus is None else (primary, bus, bus if last_bus is None else last_bus),
            speed_gts=speed_gts,
            width=width,
            max_speed_gts=max_speed_gts,
            max_width=max_width,
            acs_cap=None if acs is None else acs_cap,
            acs_ctrl=acs or 0,
        )
        ids = f"{part.vendor:04x}:{part.device:04x}"
        code = f"{part.class_code >> 8:04x}"
        self.lspci_lines[address] = f"{address} {part.class_name} [{code}]: {part.name} [{ids}]"
        return bdf

    def group(self, bdf: str) -> int | None:
        """The IOMMU group of a function, for those that share it."""
        return self.groups.get(parse_bdf(bdf))

    def host(self) -> BuiltHost:
        self.directories[DEVICES] = sorted(self.places)
        self.answer(
            ("lspci", "-D", "-nn"),
            "".join(f"{self.lspci_lines[bdf]}\n" for bdf in sorted(self.lspci_lines)),
        )
        return BuiltHost(self)

    def _sysfs(
        self, address: Bdf, driver: str | None, group: int | None, group_type: str, vfs: int | None
    ) -> None:
        place = f"{DEVICES}/{address}"
        root = self.places[address].split("/")[0].removeprefix("pci")
        self.links[place] = f"../../../devices/{self.places[address]}"
        self.text(f"{place}/numa_node", f"{self.roots.get(root, -1)}\n")
        self.text(f"{place}/driver_override", "(null)\n")
        if driver is not None:
            self.links[f"{place}/driver"] = f"../../../../bus/pci/drivers/{driver}"
        if vfs is not None:
            self.text(f"{place}/sriov_numvfs", f"{vfs}\n")
        if group is not None:
            self.groups[address] = group
            groups = "/sys/kernel/iommu_groups"
            self.links[f"{place}/iommu_group"] = f"../../../../kernel/iommu_groups/{group}"
            self.text(f"{groups}/{group}/type", f"{group_type}\n")
            listed = self.directories.setdefault(groups, [])
            if str(group) not in listed:
                listed.append(str(group))


class BuiltHost(WatchesByRunning):
    """Answers like the node would; everything it was not given is not there."""

    origin = Origin.REPLAY
    constructed = True
    simulates = True
    is_root: bool | None = True

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def machine(self) -> str | None:
        return self._node.name

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        try:
            content = self._node.files[path]
        except KeyError:
            raise NotFound(f"no {path}") from None
        return content[offset:] if length is None else content[offset : offset + length]

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        return nullcontext(
            lambda offset, length: self.read_bytes(path, offset=offset, length=length)
        )

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        raise NotFound(path)

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode().rstrip("\n")

    def list_dir(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(self._node.directories[path]))
        except KeyError:
            raise NotFound(f"no {path}") from None

    def read_link(self, path: str) -> str:
        try:
            return self._node.links[path]
        except KeyError:
            raise NotFound(f"no {path}") from None

    def has_program(self, name: str) -> bool:
        return name in self._node.programs

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        try:
            return self._node.commands[tuple(argv)]
        except KeyError:
            raise NotFound(f"no answer to {' '.join(argv)}") from None

    def nvml(self) -> NvmlReading:
        if self._node.nvml is None:
            raise HostError("no NVML library (libnvidia-ml.so.1)")
        return self._node.nvml

    def resources(self) -> ResourcesReading:
        if self._node.resources is None:
            raise NotFound("no resources")
        return self._node.resources
