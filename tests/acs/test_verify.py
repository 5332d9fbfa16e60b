"""Re-read words against a plan and against the saved state."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodeprep.acs.verify import verify
from nodeprep.model.acs import AcsPlan
from nodeprep.model.pci import Bdf
from tests.acs.bench import Bench, make_bench, port


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def test_an_applied_plan_is_verified(bench: Bench) -> None:
    found = bench.plan()
    assert verify(bench.read_again(), found).verified is False
    bench.apply(found)
    checked = verify(bench.read_again(), found)
    assert checked.verified is True
    assert checked.rearmed == ()
    assert [one.found for one in checked.ports] == ["0011"] * 3


def test_an_empty_plan_verifies_nothing(bench: Bench) -> None:
    assert verify(bench.facts, AcsPlan()).verified is None


def test_a_port_armed_again_is_named(bench: Bench) -> None:
    bench.apply()
    state = bench.store.load_acs()
    assert state is not None
    assert verify(bench.read_again(), state).verified is True
    bench.host.set_control(port(1), 0x1D)
    checked = verify(bench.read_again(), state)
    assert checked.verified is False
    assert checked.rearmed == (port(1),)


def test_another_bit_is_a_difference_but_no_arming(bench: Bench) -> None:
    found = bench.plan()
    bench.apply(found)
    for word in (0x10, 0x13):
        bench.host.set_control(port(1), word)
        checked = verify(bench.read_again(), found)
        assert checked.verified is False
        assert checked.rearmed == ()


def test_a_port_that_is_gone_or_another_one_is_not_verified(bench: Bench) -> None:
    bench.apply()
    state, now = bench.store.load_acs(), bench.read_again()
    assert state is not None
    functions = dict(now.functions)
    gone = msgspec.structs.replace(now, functions={
        bdf: one for bdf, one in functions.items() if bdf != port(0)})  # fmt: skip
    functions[Bdf(port(0))] = msgspec.structs.replace(functions[Bdf(port(0))], device_id=0x9700)
    swapped = msgspec.structs.replace(now, functions=functions)
    for spoiled in (gone, swapped):
        checked = verify(spoiled, state)
        assert checked.verified is False
        assert checked.ports[0].found is None


def test_a_port_that_moved_is_not_verified(bench: Bench) -> None:
    bench.apply()
    state, now = bench.store.load_acs(), bench.read_again()
    assert state is not None
    functions = dict(now.functions)
    functions[Bdf(port(0))] = msgspec.structs.replace(
        functions[Bdf(port(0))], parent=Bdf("0000:40:01.1")
    )
    moved = msgspec.structs.replace(now, functions=functions)
    assert verify(moved, state).verified is False


def test_the_state_of_another_boot_verifies_nothing(bench: Bench) -> None:
    bench.apply()
    state = bench.store.load_acs()
    assert state is not None
    other = msgspec.structs.replace(bench.read_again(), boot_id="next")
    assert verify(other, state).verified is None
