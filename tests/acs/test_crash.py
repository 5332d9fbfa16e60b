"""The process dies at any instant; `restore`, run afterwards, mends the node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodeprep.state import StateStore
from tests.acs.bench import Bench, make_bench
from tests.acs.memory_host import Killed

WORDS = (0x1D, 0x5F, 0x2C, 0x11)


def dying(bench: Bench, at: int) -> Callable[[str], None]:
    """A follower of steps that ends the process at step number `at`: nothing runs after it."""
    left = iter(range(at, -1, -1))

    def follow(_: str) -> None:
        if next(left) == 0:
            bench.host.killed = True
            raise Killed

    return follow


def survive(bench: Bench) -> None:
    """What another process finds: the registers, and what is on disk."""
    bench.host.killed = False
    bench.host.killed_after = None
    bench.store = StateStore(bench.store.state_dir, bench.store.run_dir)


def steps_of_apply(folder: Path) -> list[str]:
    steps: list[str] = []
    make_bench(folder, WORDS).apply(on_step=steps.append)
    return steps


@pytest.mark.parametrize("all_bits", [False, True])
def test_restore_mends_a_kill_at_every_step_of_apply(tmp_path: Path, all_bits: bool) -> None:
    steps = steps_of_apply(tmp_path / "count")
    partial = 0
    for at, step in enumerate(steps):
        bench = make_bench(tmp_path / str(at), WORDS)
        with pytest.raises(Killed):
            bench.apply(bench.plan(all_bits=all_bits), on_step=dying(bench, at))
        survive(bench)
        partial += bench.words() != list(WORDS)
        bench.restore()
        assert bench.words() == list(WORDS), step
        assert bench.store.load_acs() is None, step
    assert partial == 6, "three ports, killed after each write: before and after its read-back"


def test_apply_after_a_kill_finishes_the_work_and_keeps_the_originals(tmp_path: Path) -> None:
    for at, step in enumerate(steps_of_apply(tmp_path / "count")):
        bench = make_bench(tmp_path / str(at), WORDS)
        with pytest.raises(Killed):
            bench.apply(on_step=dying(bench, at))
        survive(bench)
        bench.apply()
        assert bench.words() == [0x11, 0x53, 0x00, 0x11], step
        bench.restore()
        assert bench.words() == list(WORDS), step


def test_restore_mends_a_kill_at_every_step_of_restore(tmp_path: Path) -> None:
    steps: list[str] = []
    counted = make_bench(tmp_path / "count", WORDS)
    counted.apply()
    counted.restore(on_step=steps.append)
    assert len(steps) == 4
    for at, step in enumerate(steps):
        bench = make_bench(tmp_path / str(at), WORDS)
        bench.apply()
        with pytest.raises(Killed):
            bench.restore(on_step=dying(bench, at))
        survive(bench)
        bench.restore()
        assert bench.words() == list(WORDS), step
        assert bench.store.load_acs() is None, step


def test_a_kill_in_the_middle_of_the_rollback_is_mended(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, WORDS)
    calls = len(bench.host.calls)

    def interrupted_then_killed(step: str) -> None:
        if step.startswith("reading back 0000:42:02.0"):
            # Ctrl-C starts the rollback, whose first setpci is the last thing to happen.
            bench.host.killed_after = len(bench.host.calls) + 1
            raise KeyboardInterrupt

    with pytest.raises(Killed):
        bench.apply(on_step=interrupted_then_killed)
    assert len(bench.host.calls) == calls + 4
    survive(bench)
    assert bench.words() == [0x11, 0x53, 0x2C, 0x11]
    bench.restore()
    assert bench.words() == list(WORDS)
