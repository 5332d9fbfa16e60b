"""Reading a running program's output, and ending it with everything it started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import IO, NamedTuple

MAX_OUTPUT_BYTES = 16 << 20
MAX_LINE_BYTES = 64 << 10
"""A line longer than this comes in parts."""
_TERM_GRACE_S = 5.0
_KILL_GRACE_S = 10.0
_POLL_S = 0.05
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_held() -> Iterator[None]:
    """What would end us waits until the block is over, and is heard then.

    An interrupt inside of `Popen` loses a program that runs already: nobody could end it.  A mask
    would be inherited by the program, so the handlers wait instead; they run in the main thread
    only.
    """
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    before = {one: handler for one in _ENDING if callable(handler := signal.getsignal(one))}
    for one in before:
        signal.signal(one, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        if came:
            signal.raise_signal(came[0])


class Drain:
    """Reads a pipe to its end in a thread, and keeps a bounded part of it.

    `lines`: gets every whole line as it comes, and None at the end of the pipe.
    """

    def __init__(self, pipe: IO[bytes], lines: SimpleQueue[str | None] | None = None) -> None:
        self._pipe = pipe
        self._lines = lines
        self._kept = bytearray()
        self._rest = b""
        self.truncated = False
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe as pipe:
            while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
                room = MAX_OUTPUT_BYTES - len(self._kept)
                self._kept += chunk[:room]
                self.truncated = self.truncated or len(chunk) > room
                self._tell(chunk)
        if self._lines is not None:
            self._lines.put(None)

    def _tell(self, chunk: bytes) -> None:
        if self._lines is None:
            return
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            whole.append(self._rest)
            self._rest = b""
        for line in whole:
            self._lines.put(line.decode("utf-8", "replace"))

    def finish(self) -> str:
        """The text; a grandchild that still holds the pipe is not waited for."""
        self._thread.join(timeout=2.0)
        return bytes(self._kept).decode("utf-8", "replace")


class Process(NamedTuple):
    """One line of /proc/PID/stat; the start time tells a process from a later one of its number."""

    pid: int
    state: str
    parent: int
    group: int
    started: int

    @property
    def alive(self) -> bool:
        """One that is only not yet reaped is dead."""
        return self.state not in ("Z", "X")

    def __str__(self) -> str:
        return f"{self.pid} (state {self.state})"


def end_group(group: int, reap: Callable[[], object]) -> tuple[str, ...]:
    """TERM, then KILL to a process group and to what its members started, other sessions included
    (torchrun gives each worker one); what outlives both, as `4711 (state D)`.

    `reap`: collects the status of the group's leader, a child of ours.
    """
    reap()
    if not _exists(group):
        return ()
    family = {(one.pid, one.started) for one in _family(group)}
    interrupted = False
    for number, grace_s in ((signal.SIGTERM, _TERM_GRACE_S), (signal.SIGKILL, _KILL_GRACE_S)):
        end = time.monotonic() + grace_s
        alive = _alive(group, family)
        _send(group, alive if number is signal.SIGKILL else (), number)
        try:
            while alive and time.monotonic() < end:
                time.sleep(_POLL_S)
                reap()
                alive = _alive(group, family)
        except KeyboardInterrupt:
            # Whoever asks twice does not want to wait; what was started still has to end.
            interrupted = True
        if not alive:
            break
    if interrupted:
        raise KeyboardInterrupt
    return tuple(map(str, alive))


def processes() -> tuple[Process, ...]:
    """Everything in /proc at this moment.

    proc(5): the name of field 2 of /proc/PID/stat may hold anything, so fields count from its end.
    """
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdecimal():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        found.append(
            Process(
                pid=int(entry),
                state=fields[0].decode(),
                parent=int(fields[1]),
                group=int(fields[2]),
                started=int(fields[19]),
            )
        )
    return tuple(found)


def _family(group: int) -> tuple[Process, ...]:
    """The members of a group and all their descendants."""
    everything = processes()
    known = {one.pid for one in everything if one.group == group}
    grown = True
    while grown:
        children = {one.pid for one in everything if one.parent in known} - known
        known |= children
        grown = bool(children)
    return tuple(one for one in everything if one.pid in known)


def _alive(group: int, family: set[tuple[int, int]]) -> tuple[Process, ...]:
    """Who of the group, or of the family it had, still lives."""
    return tuple(
        one
        for one in processes()
        if one.alive and (one.group == group or (one.pid, one.started) in family)
    )


def _exists(group: int) -> bool:
    """Whether any process, a dead one that is not reaped included, belongs to the group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _send(group: int, others: Iterable[Process], number: int) -> None:
    """A signal to the group, and to processes that may be elsewhere."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for one in others:
        if one.group != group:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, number)
