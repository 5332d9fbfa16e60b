"""A look-alike of /sys/bus/pci in a folder, with real lspci and setpci."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from nodeprep.errors import NotFound, Refused
from nodeprep.host.base import OnLine, ReadAt, asking
from nodeprep.host.live import LiveHost
from nodeprep.model.facts import Origin
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading


class FabricatedHost(LiveHost):
    """A sysfs look-alike: `DIR/devices/...` stands for /sys/bus/pci/devices.

    It says nothing of the computer it runs on: virtualization, lockdown, user, processes and
    drivers are unknown, or stated in `DIR/host.json`.  lspci and setpci are pointed at the tree.
    """

    origin = Origin.FABRICATED
    constructed = True
    _PCI = "/sys/bus/pci/"
    _PCIUTILS = ("lspci", "setpci")

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = asking(str(root), lambda: root.resolve(strict=True))
        devices = self.root / "devices"
        if not asking(str(devices), devices.is_dir):
            raise NotFound(
                f"no directory {root / 'devices'}",
                hint="--sysfs-root wants a tree like /sys/bus/pci: DIR/devices/0000:00:01.0/config",
            )
        asking(str(devices), lambda: _refuse_hardware(devices, self.root))

    @property
    def is_root(self) -> bool | None:
        return None

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return super().read_bytes(self._place(path), offset=offset, length=length)

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        return super().opened(self._place(path))

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        super().write_bytes(self._place(path), data, offset=offset)

    def list_dir(self, path: str) -> tuple[str, ...]:
        return super().list_dir(self._place(path))

    def read_link(self, path: str) -> str:
        return super().read_link(self._place(path))

    def has_program(self, name: str) -> bool:
        known = name in self._PCIUTILS or name.startswith("/")
        return known and super().has_program(name)

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        program, *arguments = argv
        if program in self._PCIUTILS:
            pointed = ("-A", "linux-sysfs", "-O", f"sysfs.path={self.root}")
            return super().run((program, *pointed, *arguments), deadline_s=deadline_s, env=env)
        if program.startswith("/"):
            return super().run(argv, deadline_s=deadline_s, env=env)
        raise NotFound(f"a fabricated tree has no {program}")

    def watch(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        silence_s: float | None = None,
        on_line: OnLine | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        if not argv[0].startswith("/"):
            raise NotFound(f"a fabricated tree has no {argv[0]}")
        return super().watch(
            argv, deadline_s=deadline_s, silence_s=silence_s, on_line=on_line, env=env
        )

    def nvml(self) -> NvmlReading:
        raise NotFound("a fabricated tree has no NVIDIA driver")

    def resources(self) -> ResourcesReading:
        raise NotFound("a fabricated tree says nothing of CPUs and memory")

    def _place(self, path: str) -> str:
        if path == "/host.json":
            return str(self.root / "host.json")
        if path.startswith(self._PCI) and ".." not in path:
            return f"{self.root}/{path[len(self._PCI) :]}"
        raise NotFound(f"a fabricated tree has no {path}")


def _refuse_hardware(devices: Path, root: Path) -> None:
    """A fabricated tree has no guardrails of a live host, so nothing real may be reached by it."""
    sysfs = Path("/sys").stat().st_dev if Path("/sys").is_dir() else None
    for entry in (devices, *devices.iterdir()):
        try:
            place = entry.resolve(strict=True)
            real = place.stat().st_dev == sysfs
        except (OSError, RuntimeError):
            continue
        if real or not place.is_relative_to(root):
            raise Refused(
                f"{entry} leads out of the fabricated tree, to {place}",
                hint="leave --sysfs-root out to work on this computer",
            )
