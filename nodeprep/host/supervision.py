"""Reading a running program's output, and ending it with everything it started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO

MAX_OUTPUT_BYTES = 16 << 20
MAX_LINE_BYTES = 64 << 10
"""A line longer than this comes in parts."""
_TERM_GRACE_S = 5.0
_KILL_GRACE_S = 10.0
_POLL_S = 0.05


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


def end_group(group: int, reap: Callable[[], object]) -> tuple[str, ...]:
    """TERM, then KILL to a whole process group; what outlives both, as `4711 (state D)`.

    `reap`: collects the status of the group's leader, a child of ours.
    """
    for number, grace_s in ((signal.SIGTERM, _TERM_GRACE_S), (signal.SIGKILL, _KILL_GRACE_S)):
        if _gone(group, reap):
            return ()
        _send(group, number)
        end = time.monotonic() + grace_s
        while time.monotonic() < end:
            if _gone(group, reap):
                return ()
            time.sleep(_POLL_S)
    return members(group)


def _gone(group: int, reap: Callable[[], object]) -> bool:
    reap()
    return not _exists(group) or not members(group)


def members(group: int) -> tuple[str, ...]:
    """The living processes of a group, `4711 (state S)`; one that is only not yet reaped is dead.

    proc(5): the name of field 2 of /proc/PID/stat may hold anything, so fields count from its end.
    """
    alive = []
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdecimal():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        state, process_group = fields[0].decode(), int(fields[2])
        if process_group == group and state not in ("Z", "X"):
            alive.append(f"{entry} (state {state})")
    return tuple(alive)


def _exists(group: int) -> bool:
    """Whether any process, a dead one that is not reaped included, belongs to the group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _send(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return
