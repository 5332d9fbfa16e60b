"""What a machine can be asked, whoever answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from nodeprep.errors import Denied, HostError, NotFound
from nodeprep.model.facts import Origin
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading

T = TypeVar("T")

ReadAt = Callable[[int, int], bytes]
OnLine = Callable[[str], bool]
"""Gets each line of standard output; whether it is a sign of life."""


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

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        """Writes into a file that is there, in one call; for configuration space.

        What a register made of it is not known before it is read back.
        """

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

    def watch(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        silence_s: float | None = None,
        on_line: OnLine | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        """Run one program as `run` does, and look at its output while it comes.

        It is stopped at the deadline, and after `silence_s` without a line that counts as a sign
        of life (without `on_line` every line does).  A stopped program is no error: what it printed
        is kept, and the result says why it was stopped and what could not be killed.
        """

    def holding(self, descriptor: int) -> AbstractContextManager[None]:
        """Programs run inside have this descriptor, too, until they end.

        A lock on it then outlives a killed caller whose program still writes.
        """

    def nvml(self) -> NvmlReading:
        """Everything NVML says, in one reading."""

    def resources(self) -> ResourcesReading:
        """Everything psutil says, in one reading."""


def asking(path: str, ask: Callable[[], T]) -> T:
    """Turns what the operating system says into the errors of the door."""
    try:
        return ask()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"no {path}") from error
    except PermissionError as error:
        raise Denied(f"{path}: {error.strerror}", hint="run as root") from error
    except (OSError, RuntimeError) as error:
        raise HostError(f"{path}: {error}") from error
