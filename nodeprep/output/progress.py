"""What a person sees on standard error while stages run; elsewhere nothing.

One line, written anew every second and wiped when the stage ends: the report on standard output
says how it went.  Own code rather than rich's: it costs no import, hides no cursor that a killed
program would leave hidden, and takes no stream away from anybody.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from shutil import get_terminal_size
from threading import Event, Lock, Thread
from time import monotonic
from typing import TextIO

from nodeprep.output.escape import safe

_WIPE = "\r\x1b[K"
_EVERY_S = 1.0


class Step:
    """A stage under way."""

    def __init__(self, name: str, stream: TextIO | None, width: int) -> None:
        self._name, self._stream, self._width = name, stream, width
        self._note = ""
        self._began = monotonic()
        self._lock = Lock()

    def note(self, text: str) -> None:
        """What the stage is at: `all_reduce_perf on 4 GPUs`."""
        self._note = text
        self.show()

    def show(self) -> None:
        """Write the line anew."""
        took = f"{int(monotonic() - self._began)} s"
        text = "  ".join(part for part in (self._name, self._note) if part)
        room = self._width - len(took) - 3
        self.write(f"{_WIPE}{safe(text, room)}  {took}")

    def write(self, text: str) -> None:
        if self._stream is not None:
            with self._lock:
                self._stream.write(text)
                self._stream.flush()


class Progress:
    """Use as `with progress(sys.stderr) as shown, shown.stage("gate") as step: ...`."""

    def __init__(self, stream: TextIO | None, width: int) -> None:
        """`stream` None is silent."""
        self._stream, self._width = stream, width

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *failure: object) -> None:
        """Every stage cleans up behind itself."""

    @contextmanager
    def stage(self, name: str) -> Iterator[Step]:
        """Shows the stage, and how long it has run, until the block ends, however it ends."""
        step = Step(name, self._stream, self._width)
        if self._stream is None:
            yield step
            return
        over = Event()
        ticker = Thread(target=_tick, args=(step, over), daemon=True)
        step.show()
        ticker.start()
        try:
            yield step
        finally:
            over.set()
            ticker.join()
            step.write(_WIPE)


def progress(
    stream: TextIO, env: Mapping[str, str] = os.environ, *, width: int | None = None
) -> Progress:
    """Progress on a stream, silent unless it is a terminal that can rewrite a line."""
    shown = stream.isatty() and env.get("TERM", "dumb") != "dumb"
    return Progress(stream if shown else None, width or get_terminal_size().columns)


def _tick(step: Step, over: Event) -> None:
    while not over.wait(_EVERY_S):
        step.show()
