"""Ratios in one run: the things compared take turns, so that a busy machine slows both."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Timing(NamedTuple):
    """Median seconds of one contender."""

    wall_s: float
    cpu_s: float
    """User and system time of the process and its children."""


def command(argv: Sequence[str], *, cwd: Path | None = None) -> Callable[[], int]:
    """A contender that is a program; its output goes nowhere."""

    def run() -> int:
        return subprocess.run(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd, check=False
        ).returncode

    return run


def compare(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Runs every contender once in each round, and one round more that does not count."""
    taken: dict[str, list[Timing]] = {name: [] for name in contenders}
    for round_number in range(rounds + 1):
        for name, work in contenders.items():
            timing = _once(work)
            if round_number:
                taken[name].append(timing)
    return {
        name: Timing(
            statistics.median(one.wall_s for one in timings),
            statistics.median(one.cpu_s for one in timings),
        )
        for name, timings in taken.items()
    }


def _once(work: Callable[[], object]) -> Timing:
    before, started = os.times(), time.perf_counter()
    work()
    wall_s, after = time.perf_counter() - started, os.times()
    cpu_s = sum(after[:4]) - sum(before[:4])
    return Timing(wall_s, cpu_s)
