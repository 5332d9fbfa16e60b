"""For hosts of tests that hold whole answers and start no processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from nodeprep.host.base import OnLine
from nodeprep.model.readings import CommandResult


class WatchesByRunning:
    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        raise NotImplementedError

    def holding(self, descriptor: int) -> AbstractContextManager[None]:
        return nullcontext()

    def watch(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        silence_s: float | None = None,
        on_line: OnLine | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        result = self.run(argv, deadline_s=deadline_s, env=env)
        if on_line is not None:
            for line in result.stdout.splitlines():
                on_line(line)
        return result
