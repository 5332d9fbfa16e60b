"""One supervised run: started in its own process group, followed row by row, read to the end."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nodeprep.errors import HostError
from nodeprep.gate.command import Command, Container, started
from nodeprep.host.base import Host
from nodeprep.model.base import Record
from nodeprep.model.readings import CommandResult
from nodeprep.state import RUN_DIR
from nodeprep.units import show_bytes

MAX_LOG_BYTES = 8 << 20
_MAX_LOG_FILES = 64
_CONTAINER_DEADLINE_S = 15.0
_ROW = re.compile(r"\s*(\d{1,15})\s+\d{1,15}\s+[a-z]\w*\s+[a-z]\w*\s+(.{1,200})")

OnRow = Callable[[int], None]
"""Gets the size of each row, bytes, as it comes."""


class Limits(Record, frozen=True):
    deadline_s: float
    silence_s: float
    """Longest time without a row."""


class Attempt(Record, frozen=True):
    """What one run left."""

    answer: CommandResult
    text: str
    """Everything it printed, then NCCL's log."""


def attempt(
    host: Host,
    command: Command,
    limits: Limits,
    *,
    tell: Callable[[str], None],
    on_row: OnRow = lambda _: None,
) -> Attempt:
    """Runs a command and leaves nothing of it behind: no process, no container, no file.

    Raises HostError when it could not be started.
    """

    def look(line: str) -> bool:
        row = row_of(line)
        if row is None:
            return False
        size_bytes, figure = row
        tell(f"{show_bytes(size_bytes)}: {figure}")
        on_row(size_bytes)
        return True

    with private_folder(host, shared=command.container is not None) as folder:
        argv, env = started(command, folder)
        answer: CommandResult | None = None
        try:
            answer = host.watch(
                argv,
                deadline_s=limits.deadline_s,
                silence_s=limits.silence_s,
                on_line=look,
                env=env,
            )
        finally:
            if command.container and (answer is None or answer.stopped):
                _kill_container(host, command.container)
        log = read_logs(Path(folder)) if folder else ""
    return Attempt(answer=answer, text=f"{answer.stdout}\n{answer.stderr}\n{log}")


@contextmanager
def private_folder(host: Host, *, shared: bool = False) -> Iterator[str | None]:
    """A folder of this user alone (0700), gone afterwards; None where nothing really runs.

    `shared`: a container engine has to find it, which a unit's private /tmp would hide.
    """
    if host.simulates:
        yield None
        return
    base = str(RUN_DIR) if shared and os.access(RUN_DIR, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="nodeprep-gate-", dir=base)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_logs(folder: Path) -> str:
    """The text of NCCL's log files, one for each process, bounded; links are not followed."""
    texts: list[str] = []
    room = MAX_LOG_BYTES
    for path in sorted(folder.glob("nccl.*"))[:_MAX_LOG_FILES]:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                content = file.read(room)
            room -= len(content)
            texts.append(content.decode("utf-8", "replace"))
    return "\n".join(texts)


def row_of(line: str) -> tuple[int, str] | None:
    """Size and bus bandwidth of a row, for a person to follow; None: the line is no row."""
    match = _ROW.match(line)
    if match is None:
        return None
    cells = match[2].split()
    if cells and cells[0] == "-1":
        cells = cells[1:]
    return int(match[1]), f"{cells[2]} GB/s" if len(cells) > 2 else "?"


def _kill_container(host: Host, container: Container) -> None:
    """The engine's own process is gone; what it started is ended by name."""
    with suppress(HostError):
        host.run((container.engine, "rm", "--force", container.name),
                 deadline_s=_CONTAINER_DEADLINE_S)  # fmt: skip
