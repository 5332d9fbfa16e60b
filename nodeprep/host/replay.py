"""A recorded machine: answers from one file, and a model of its ACS registers to write to."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from nodeprep.errors import Denied, HostError, NotFound, NotRecorded, StateError, TimedOut
from nodeprep.host.base import OnLine, ReadAt
from nodeprep.host.registers import Registers
from nodeprep.model.facts import Origin
from nodeprep.model.pci import Bdf
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading
from nodeprep.model.snapshot import (
    SNAPSHOT_SCHEMA,
    Missing,
    RecordedCommand,
    RecordedFile,
    Snapshot,
    decisive,
)

MAX_SNAPSHOT_BYTES = 64 << 20
PCI_DEVICES = "/sys/bus/pci/devices/"


def load_snapshot(path: Path) -> Snapshot:
    """A snapshot from its file. Raises StateError when it is not one, or not of this schema."""
    hint = "make one with: nodeprep snapshot -o FILE"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
            content = file.read(MAX_SNAPSHOT_BYTES + 1) if plain else b""
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}", hint=hint) from None
    if not plain:
        raise StateError(f"{path} is no plain file", hint=hint)
    if len(content) > MAX_SNAPSHOT_BYTES:
        raise StateError(f"{path} is over {MAX_SNAPSHOT_BYTES >> 20} MiB", hint=hint)
    try:
        _check_schema(content, path)
        return msgspec.json.decode(content, type=Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(f"{path} is not a snapshot: {error}", hint=hint) from None


class _Head(msgspec.Struct):
    schema: str = ""


def _check_schema(content: bytes, path: Path) -> None:
    schema = msgspec.json.decode(content, type=_Head).schema
    if schema != SNAPSHOT_SCHEMA:
        raise StateError(
            f"{path} has schema {schema[:60]!r}, this nodeprep reads {SNAPSHOT_SCHEMA}",
            hint="record the node again with this version of nodeprep",
        )


class ReplayHost:
    """Answers as the recorded machine did; setpci writes to the register model."""

    origin = Origin.REPLAY
    simulates = True

    def __init__(self, snapshot: Snapshot, register_file: Path | None = None) -> None:
        self._snapshot = snapshot
        self._registers = Registers(self._recorded_config, snapshot, register_file)

    @property
    def machine(self) -> str | None:
        return self._snapshot.machine

    @property
    def constructed(self) -> bool:
        return self._snapshot.constructed

    @property
    def is_root(self) -> bool | None:
        return self._snapshot.is_root

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        bdf = _config_of(path)
        if bdf is not None:
            return self._registers.read(bdf, offset, 4096 if length is None else length)
        return self._recorded_bytes(path, offset, length)

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        return nullcontext(
            lambda offset, length: self.read_bytes(path, offset=offset, length=length)
        )

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        bdf = _config_of(path)
        if bdf is None:
            raise Denied(f"{path} of a recorded machine cannot be written")
        self._registers.write(bdf, offset, data)

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "replace").rstrip("\n\0")

    def list_dir(self, path: str) -> tuple[str, ...]:
        try:
            return self._snapshot.directories[path]
        except KeyError:
            raise NotFound(f"no directory {path} in the recording") from None

    def read_link(self, path: str) -> str:
        try:
            return self._snapshot.links[path]
        except KeyError:
            raise NotFound(f"no {path} in the recording") from None

    def has_program(self, name: str) -> bool:
        return name in self._snapshot.programs

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,  # noqa: ARG002
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        if not self.has_program(argv[0]):
            raise NotFound(f"the recorded machine has no program {argv[0]}")
        if argv[0] == "setpci":
            return self._registers.setpci(tuple(argv))
        settings = decisive(env)
        for command in self._snapshot.commands:
            asked = command.argv == tuple(argv) and command.env == settings
            if asked and self._holds(command):
                return _answer(command)
        raise NotRecorded(f"the recording has no answer to: {' '.join(argv)}")

    def watch(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        silence_s: float | None = None,  # noqa: ARG002
        on_line: OnLine | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        result = self.run(argv, deadline_s=deadline_s, env=env)
        if on_line is not None:
            for line in result.stdout.splitlines():
                on_line(line)
        return result

    def holding(self, descriptor: int) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def nvml(self) -> NvmlReading:
        if self._snapshot.nvml is None:
            raise HostError(self._snapshot.nvml_error or "the recording has no NVML reading")
        return self._snapshot.nvml

    def resources(self) -> ResourcesReading:
        if self._snapshot.resources is None:
            raise NotRecorded("the recording says nothing of CPUs and memory")
        return self._snapshot.resources

    def _holds(self, command: RecordedCommand) -> bool:
        return all(
            self._registers.control_word(bdf) == word
            for bdf, word in command.while_registers.items()
        )

    def _recorded_config(self, bdf: Bdf, offset: int, length: int) -> bytes:
        return self._recorded_bytes(f"{PCI_DEVICES}{bdf}/config", offset, length)

    def _recorded_bytes(self, path: str, offset: int, length: int | None) -> bytes:
        file = self._snapshot.files.get(path)
        if file is None:
            raise NotFound(f"no {path} in the recording")
        _raise_missing(file.error, path)
        if file.text is not None:
            text = file.text.encode()
            return text[offset:] if length is None else text[offset : offset + length]
        return _segment(file, path, offset, file.size or 0 if length is None else length)


def _config_of(path: str) -> Bdf | None:
    """The function whose configuration space this path is."""
    if path.startswith(PCI_DEVICES) and path.endswith("/config"):
        return Bdf(path[len(PCI_DEVICES) : -len("/config")])
    return None


def _segment(file: RecordedFile, path: str, offset: int, length: int) -> bytes:
    """Bytes from the recorded stretches; what was never read is not made up."""
    wanted = length if file.size is None else max(0, min(length, file.size - offset))
    if wanted == 0:
        return b""
    for start, text in file.segments.items():
        try:
            begin, stretch = int(start), bytes.fromhex(text)
        except ValueError:
            raise StateError(f"the recording of {path} is damaged at {start[:20]!r}") from None
        if begin <= offset and offset + wanted <= begin + len(stretch):
            return stretch[offset - begin : offset - begin + wanted]
    raise NotRecorded(f"bytes {offset}..{offset + wanted} of {path} were not recorded")


def _raise_missing(missing: Missing | None, what: str) -> None:
    if missing is Missing.NOT_FOUND:
        raise NotFound(f"no {what}")
    if missing is Missing.DENIED:
        raise Denied(f"{what}: permission denied when it was recorded", hint="record as root")
    if missing is Missing.TIMED_OUT:
        raise TimedOut(f"{what} gave no answer when it was recorded")


def _answer(command: RecordedCommand) -> CommandResult:
    _raise_missing(command.error, " ".join(command.argv))
    return CommandResult(
        argv=command.argv,
        status=command.status,
        stdout=command.stdout,
        stderr=command.stderr,
        simulated=command.simulated,
    )
