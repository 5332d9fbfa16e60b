"""The stages of a run: how long each took, how it ended, and what speaks against the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, runtime_checkable

from msgspec.structs import replace

from nodeprep.errors import Exit, NodeprepError
from nodeprep.model.report import Stage, StageStatus

T = TypeVar("T")
Progress = Callable[[str], AbstractContextManager[object]]


@runtime_checkable
class Notes(Protocol):
    """A stage as it is shown, if it can say what it is at."""

    def note(self, text: str) -> None: ...


_PRECEDENCE = (
    Exit.REFUSED,
    Exit.UNVERIFIED,
    Exit.GATE_FAILED,
    Exit.FINDINGS,
    Exit.ERROR,
    Exit.USAGE,
    Exit.NEEDS_ROOT,
)
"""The exit status of a run is the first of these that any stage asked for."""


class StageLog:
    """Every stage leaves its mark here, and its reasons against the result."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.stages: list[Stage] = []
        self.statuses: set[Exit] = set()
        self.reasons: list[str] = []
        self._shown: object = None

    @property
    def exit_status(self) -> Exit:
        return next((one for one in _PRECEDENCE if one in self.statuses), Exit.OK)

    def stage(self, name: str, work: Callable[[], T], otherwise: T, told: Callable[[T], str]) -> T:
        """Runs one stage; an error it raises ends the stage, not the run, and gives `otherwise`.

        `told` puts the result in a few words.
        """
        started = time.monotonic()
        try:
            with self.progress(name) as self._shown:
                value = work()
        except NodeprepError as error:
            self.mark(name, StageStatus.FAILED, started, error.message)
            self.fail(name, error.status, error.message)
            return otherwise
        self.mark(name, StageStatus.OK, started, told(value))
        return value

    def note(self, text: str) -> None:
        """A few words on what the stage under way is at."""
        if isinstance(self._shown, Notes):
            self._shown.note(text)

    def mark(self, name: str, status: StageStatus, started: float, detail: str = "") -> None:
        """A stage that began at `started` (monotonic seconds) is over."""
        spent = round(time.monotonic() - started, 3)
        self.stages.append(Stage(name=name, status=status, duration_s=spent, detail=detail))

    def skip(self, name: str, why: str) -> None:
        self.stages.append(Stage(name=name, status=StageStatus.SKIPPED, duration_s=0.0, detail=why))

    def against(self, status: Exit, reason: str) -> None:
        """Keeps a reason against the result."""
        self.statuses.add(status)
        self.reasons.append(reason)

    def fail(
        self, name: str, status: Exit, reason: str, mark: StageStatus = StageStatus.FAILED
    ) -> None:
        """Keeps a reason against the result, and shows it at the stage."""
        self.against(status, f"{name}: {reason}")
        self.stages = [
            replace(stage, status=mark, detail=reason) if stage.name == name else stage
            for stage in self.stages
        ]
