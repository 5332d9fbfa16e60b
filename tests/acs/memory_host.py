"""A machine in memory: configuration spaces that setpci writes to, and the ways that can go wrong.

The failures are those seen on hardware: a write without effect that exits 0, a capability that is
not found, a program that hangs before or after its write, a register that changes more than asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum

from nodeprep.errors import Denied, NotFound, TimedOut
from nodeprep.host.base import ReadAt
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.pci import Bdf, PciFunction, PortType
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading
from nodeprep.model.tree import PciTree
from tests.pci_bytes import ACS_OFFSET, config_space, control_word
from tests.watching import WatchesByRunning

DEVICES = "/sys/bus/pci/devices/"


class Fault(Enum):
    """What one call of setpci does instead of its work."""

    NO_EFFECT = "exits 0, writes nothing"
    SILENT_DENIAL = "exits 0, says that the write failed"
    NO_CAPABILITY = "exits 1, writes nothing"
    HANGS_BEFORE = "hangs before its write"
    HANGS_AFTER = "hangs after its write"
    CLEARS_ALL = "clears the whole word"
    LOSES_PORT = "writes, and the port falls off the bus"
    OLD_PROGRAM = "does not know -r"


class Killed(BaseException):
    """The process ends here: nothing of it runs any more."""


class MemoryHost(WatchesByRunning):
    """The Host door of a machine made from facts."""

    machine: str | None = None
    constructed = True
    simulates = True

    def __init__(self, facts: NodeFacts, *, is_root: bool | None = True) -> None:
        self.origin: Origin = facts.origin
        self._is_root = is_root
        tree = PciTree(facts.functions)
        self.spaces = {bdf: bytearray(_space(one)) for bdf, one in facts.functions.items()}
        self.links: dict[str, str] = {bdf: _link(tree, one) for bdf, one in facts.functions.items()}
        self.texts: dict[str, str] = {}
        """Small files by path."""
        self.gpus: NvmlReading | None = None
        self.faults: dict[int, Fault] = {}
        """Number of the setpci call, from 0 -> what goes wrong in it."""
        self.calls: list[tuple[str, ...]] = []
        self.programs = {"setpci"}
        self.killed = False
        self.killed_after: int | None = None
        """Number of setpci calls after which the process ends."""

    @property
    def is_root(self) -> bool | None:
        return self._is_root

    def control(self, bdf: str) -> int:
        return control_word(self.spaces[Bdf(bdf)])

    def set_control(self, bdf: str, control: int) -> None:
        self.spaces[Bdf(bdf)][ACS_OFFSET + 6 : ACS_OFFSET + 8] = control.to_bytes(2, "little")

    def controls(self) -> dict[Bdf, int]:
        return {bdf: control_word(space) for bdf, space in self.spaces.items()}

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self._live()
        space = self.spaces.get(Bdf(path.removeprefix(DEVICES).removesuffix("/config")))
        if space is None:
            raise NotFound(f"no {path}")
        return bytes(space[offset:] if length is None else space[offset : offset + length])

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        return nullcontext(
            lambda offset, length: self.read_bytes(path, offset=offset, length=length)
        )

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        self._live()
        bdf = Bdf(path.removeprefix(DEVICES).removesuffix("/config"))
        fault = self.faults.get(len(self.calls))
        assert offset == ACS_OFFSET + 6
        self.calls.append(("pwrite", bdf, data.hex()))
        if fault is Fault.SILENT_DENIAL:
            raise Denied(f"{path}: Operation not permitted")
        if fault is not Fault.NO_EFFECT:
            self.set_control(bdf, int.from_bytes(data, "little"))
        if fault is Fault.LOSES_PORT:
            self.spaces[bdf][:] = b"\xff" * len(self.spaces[bdf])

    def read_text(self, path: str) -> str:
        try:
            return self.texts[path]
        except KeyError:
            raise NotFound(f"no {path}") from None

    def list_dir(self, path: str) -> tuple[str, ...]:
        if path.rstrip("/") != DEVICES.rstrip("/"):
            raise NotFound(f"no {path}")
        return tuple(sorted(self.spaces))

    def read_link(self, path: str) -> str:
        self._live()
        try:
            return self.links[path.removeprefix(DEVICES)]
        except KeyError:
            raise NotFound(f"no {path}") from None

    def has_program(self, name: str) -> bool:
        return name in self.programs

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        self._live()
        fault = self.faults.get(len(self.calls))
        self.calls.append(tuple(argv))
        assert deadline_s > 0
        if fault is Fault.OLD_PROGRAM and "-r" in argv:
            return _result(argv, 1, "setpci: invalid option -- 'r'\n")
        if fault is Fault.NO_CAPABILITY:
            return _result(argv, 1, "setpci: Instance #0 of Extended capability 000d not found\n")
        if fault is Fault.HANGS_BEFORE:
            raise TimedOut("setpci gave no answer within 10 s")
        if fault is Fault.SILENT_DENIAL:
            return _result(argv, 0, "pcilib: sysfs_write: write failed: Operation not permitted\n")
        if fault is not Fault.NO_EFFECT:
            self._write(argv, fault)
        if fault is Fault.HANGS_AFTER:
            raise TimedOut("setpci gave no answer within 10 s")
        return _result(argv, 0, "")

    def nvml(self) -> NvmlReading:
        if self.gpus is None:
            raise NotFound("no NVML")
        return self.gpus

    def resources(self) -> ResourcesReading:
        raise Denied("no resources")

    def _write(self, argv: Sequence[str], fault: Fault | None) -> None:
        """`setpci ... -s BDF ECAP_ACS+6.w=VALUE:MASK`."""
        bdf, operation = argv[-2:]
        register, change = operation.split("=")
        assert register == "ECAP_ACS+6.w"
        value, mask = (int(word, 16) for word in change.split(":"))
        old = self.control(bdf)
        self.set_control(bdf, 0 if fault is Fault.CLEARS_ALL else (old & ~mask) | (value & mask))
        if fault is Fault.LOSES_PORT:
            self.spaces[Bdf(bdf)][:] = b"\xff" * len(self.spaces[Bdf(bdf)])

    def _live(self) -> None:
        if self.killed or len(self.calls) == self.killed_after:
            raise Killed


def _space(function: PciFunction) -> bytes:
    secondary = function.secondary_bus or 0
    return config_space(
        vendor=function.vendor_id,
        device=function.device_id,
        class_code=function.class_code,
        port_type=function.port_type or PortType.ENDPOINT,
        buses=(0, secondary, secondary),
        acs_cap=None if function.acs is None else int(function.acs.capabilities),
        acs_ctrl=0 if function.acs is None else int(function.acs.control),
    )


def _link(tree: PciTree, function: PciFunction) -> str:
    path = "/".join(tree.path(function.bdf))
    return f"../../../devices/pci{function.root_bus}/{path}"


def _result(argv: Sequence[str], status: int, stderr: str) -> CommandResult:
    return CommandResult(argv=tuple(argv), status=status, stdout="", stderr=stderr)
