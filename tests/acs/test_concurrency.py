"""Several applies at once: one writes, the others wait and find it done, or say so."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nodeprep.errors import Refused
from tests.acs.bench import Bench, make_bench

TOGETHER = 8


def run_together(bench: Bench, *, lock_deadline_s: float) -> tuple[list[bool], list[Refused]]:
    """The same plan applied by several threads at the same moment."""
    found, gate = bench.plan(), threading.Barrier(TOGETHER)
    done: list[bool] = []
    refused: list[Refused] = []

    def work() -> None:
        gate.wait()
        try:
            done.append(all(one.ok for one in bench.apply(found, lock_deadline_s=lock_deadline_s)))
        except Refused as error:
            refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(TOGETHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done, refused


def test_one_writes_and_the_others_find_it_done(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    done, refused = run_together(bench, lock_deadline_s=30)
    assert (done, refused) == ([True] * TOGETHER, [])
    assert len(bench.host.calls) == 3
    bench.restore()
    assert bench.words() == [0x1D] * 3


def test_whoever_does_not_want_to_wait_says_who_is_at_work(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    with bench.store.lock():
        done, refused = run_together(bench, lock_deadline_s=0.05)
    assert done == []
    assert len(refused) == TOGETHER
    assert all("another nodeprep" in error.message for error in refused)
    assert bench.words() == [0x1D] * 3


@pytest.mark.parametrize("_", range(5))
def test_apply_and_restore_do_not_interleave(tmp_path: Path, _: int) -> None:
    bench = make_bench(tmp_path)
    found = bench.plan()
    bench.apply(found)
    bench.host.calls.clear()
    threads = [
        threading.Thread(target=bench.restore),
        threading.Thread(target=bench.apply, args=(found,)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sets, clears = ["ECAP_ACS+6.w=000c:000c"] * 3, ["ECAP_ACS+6.w=0000:000c"] * 3
    calls = [call[-1] for call in bench.host.calls]
    # Apply first finds its work done, and restore undoes it; or restore first, and apply follows.
    assert (calls, bench.words()) in ((sets, [0x1D] * 3), (sets + clears, [0x11] * 3))
    assert (bench.store.load_acs() is None) == (calls == sets)
