"""What a machine can be asked, whoever answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from nodeprep.model.facts import Origin
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading

ReadAt = Callable[[int, int], bytes]


class Host(Protocol):
    """The door.  Paths are those of the machine (`/sys/...`), wherever its files really lie.

    Every method raises a HostError (NotFound, Denied, NotRecorded, TimedOut) when the machine does
    not answer; none of them guesses.
    """

    @property
    def origin(self) -> Origin: ...

    @property
    def machine(self) -> str | None:
        """Name of the recorded machine; None for a real one."""

    @property
    def constructed(self) -> bool:
        """The recording was built by hand or program, not recorded on a node."""

    @property
    def simulates(self) -> bool:
        """What this host runs or writes is a model, not hardware."""

    @property
    def is_root(self) -> bool | None:
        """Whether the reader is root; None when that says nothing (a fabricated tree)."""

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """At most `length` bytes from `offset`; fewer at the end of the file."""

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        """One file for many small reads: `read(offset, length)`, fewer bytes at its end."""

    def read_text(self, path: str) -> str:
        """A small text file without its final line end; undecodable bytes are replaced."""

    def list_dir(self, path: str) -> tuple[str, ...]:
        """Sorted names."""

    def read_link(self, path: str) -> str:
        """Where a symbolic link points, as written in it."""

    def has_program(self, name: str) -> bool:
        """Whether a program can be run: by name, or an absolute path."""

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        """Run one program: no shell, stdin closed, small environment, bounded output.

        `lspci` and `setpci` get the extra arguments that a fabricated tree needs.
        """

    def nvml(self) -> NvmlReading:
        """Everything NVML says, in one reading."""

    def resources(self) -> ResourcesReading:
        """Everything psutil says, in one reading."""
