"""A host that writes down every question and answer: the making of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from msgspec.structs import replace

from nodeprep.errors import Denied, HostError, NotFound, TimedOut
from nodeprep.host.base import Host, OnLine, ReadAt
from nodeprep.model.facts import Origin
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading
from nodeprep.model.snapshot import (
    SNAPSHOT_SCHEMA,
    Missing,
    RecordedCommand,
    RecordedFile,
    Snapshot,
    decisive,
)

T = TypeVar("T")


class RecordingHost:
    """Passes every question on to another host, and keeps what came back."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._files: dict[str, RecordedFile] = {}
        self._directories: dict[str, tuple[str, ...]] = {}
        self._links: dict[str, str] = {}
        self._programs: set[str] = set()
        self._commands: dict[object, RecordedCommand] = {}
        self._nvml: NvmlReading | None = None
        self._nvml_error: str | None = None
        self._resources: ResourcesReading | None = None

    @property
    def origin(self) -> Origin:
        return self._host.origin

    @property
    def machine(self) -> str | None:
        return self._host.machine

    @property
    def constructed(self) -> bool:
        return self._host.constructed

    @property
    def simulates(self) -> bool:
        return self._host.simulates

    @property
    def is_root(self) -> bool | None:
        return self._host.is_root

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        content = self._keeping(
            path, lambda: self._host.read_bytes(path, offset=offset, length=length)
        )
        known = self._files.get(path) or RecordedFile()
        ended = length is None or len(content) < length
        self._files[path] = RecordedFile(
            size=offset + len(content) if ended else known.size,
            segments=known.segments | ({str(offset): content.hex()} if content else {}),
        )
        return content

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        return nullcontext(
            lambda offset, length: self.read_bytes(path, offset=offset, length=length)
        )

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        self._host.write_bytes(path, data, offset=offset)

    def read_text(self, path: str) -> str:
        text = self._keeping(path, lambda: self._host.read_text(path))
        self._files[path] = RecordedFile(text=text)
        return text

    def list_dir(self, path: str) -> tuple[str, ...]:
        names = self._host.list_dir(path)
        self._directories[path] = names
        return names

    def read_link(self, path: str) -> str:
        target = self._host.read_link(path)
        self._links[path] = target
        return target

    def has_program(self, name: str) -> bool:
        there = self._host.has_program(name)
        if there:
            self._programs.add(name)
        return there

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        return self._recorded(
            argv, env, lambda: self._host.run(argv, deadline_s=deadline_s, env=env)
        )

    def watch(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        silence_s: float | None = None,
        on_line: OnLine | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        def ask() -> CommandResult:
            return self._host.watch(
                argv, deadline_s=deadline_s, silence_s=silence_s, on_line=on_line, env=env
            )

        return self._recorded(argv, env, ask)

    def _recorded(
        self,
        argv: Sequence[str],
        env: dict[str, str] | None,
        ask: Callable[[], CommandResult],
    ) -> CommandResult:
        asked = RecordedCommand(argv=tuple(argv), env=decisive(env))
        key = asked.argv, tuple(asked.env.items())
        try:
            result = ask()
        except HostError as error:
            self._commands[key] = replace(asked, error=_missing(error))
            raise
        self._programs.add(argv[0])
        self._commands[key] = replace(
            asked,
            status=result.status,
            stdout=result.stdout,
            stderr=result.stderr,
            error=None if result.stopped is None else Missing.TIMED_OUT,
            simulated=result.simulated,
        )
        return result

    def holding(self, descriptor: int) -> AbstractContextManager[None]:
        return self._host.holding(descriptor)

    def nvml(self) -> NvmlReading:
        try:
            self._nvml = self._host.nvml()
        except HostError as error:
            self._nvml_error = error.message
            raise
        return self._nvml

    def resources(self) -> ResourcesReading:
        self._resources = self._host.resources()
        return self._resources

    def snapshot(
        self, *, tool_version: str, collected_at: str, boot_id: str | None, notes: tuple[str, ...]
    ) -> Snapshot:
        """Everything asked so far as one document, not redacted."""
        return Snapshot(
            schema=SNAPSHOT_SCHEMA,
            tool_version=tool_version,
            boot_id=boot_id,
            collected_at=collected_at,
            machine=self.machine,
            constructed=self.constructed,
            redacted=False,
            notes=notes,
            is_root=bool(self.is_root),
            files=self._files,
            directories=self._directories,
            links=self._links,
            programs=tuple(sorted(self._programs)),
            commands=tuple(self._commands.values()),
            nvml=self._nvml,
            nvml_error=self._nvml_error,
            resources=self._resources,
        )

    def _keeping(self, path: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except HostError as error:
            self._files.setdefault(path, RecordedFile(error=_missing(error)))
            raise


def _missing(error: HostError) -> Missing:
    kinds = {NotFound: Missing.NOT_FOUND, Denied: Missing.DENIED, TimedOut: Missing.TIMED_OUT}
    return kinds.get(type(error), Missing.NOT_FOUND)
