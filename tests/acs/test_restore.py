"""Every register gets its original bits back, whatever happened since."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodeprep.acs.outcome import StaleState, Unfinished
from nodeprep.errors import Exit, NeedsRoot, NotFound, StateError
from nodeprep.model.pci import Bdf
from tests.acs.bench import Bench, make_bench, port
from tests.acs.memory_host import Fault, MemoryHost


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A node whose plan was applied."""
    bench = make_bench(tmp_path)
    bench.apply()
    bench.host.calls.clear()
    return bench


def test_only_the_cleared_bits_are_set_again(bench: Bench) -> None:
    restored = bench.restore()
    assert bench.words() == [0x1D] * 3
    assert [(one.write.before, one.write.after, one.read_back) for one in restored] == [
        ("0011", "001d", "001d")
    ] * 3
    assert [call[-1] for call in bench.host.calls] == ["ECAP_ACS+6.w=000c:000c"] * 3


def test_the_state_is_renamed_away_after_success(bench: Bench) -> None:
    bench.restore()
    assert bench.store.load_acs() is None
    assert (bench.store.state_dir / "acs-state.restored.json").exists()
    assert bench.restore() == ()


def test_nothing_saved_is_nothing_to_do(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.host.programs.clear()
    assert bench.restore() == ()
    assert list(tmp_path.iterdir()) == []


def test_bits_that_somebody_else_set_stay(bench: Bench) -> None:
    bench.host.set_control(port(0), 0x53)
    bench.restore()
    assert bench.words() == [0x5F, 0x1D, 0x1D]


def test_bits_that_somebody_else_cleared_stay_cleared(bench: Bench) -> None:
    bench.host.set_control(port(0), 0x10)
    bench.restore()
    assert bench.words() == [0x1C, 0x1D, 0x1D]


def test_a_port_that_moved_is_left_alone(bench: Bench) -> None:
    bench.host.links[Bdf(port(0))] = f"../../../devices/pci0000:40/0000:40:02.1/{port(0)}"
    with pytest.raises(Unfinished, match="another port"):
        bench.restore()
    assert bench.words() == [0x11, 0x1D, 0x1D]


def test_a_port_armed_again_meanwhile_needs_no_write(bench: Bench) -> None:
    bench.host.set_control(port(1), 0x1D)
    restored = bench.restore()
    assert [call[4] for call in bench.host.calls] == [port(0), port(2)]
    assert all(one.ok for one in restored)


def test_whole_words_come_back_after_all_bits(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, (0x5F, 0x7F))
    bench.apply(bench.plan(all_bits=True))
    assert bench.words() == [0, 0]
    bench.restore()
    assert bench.words() == [0x5F, 0x7F]


@pytest.mark.parametrize("other", ["next boot", None])
def test_another_boot_is_told_and_left_alone(bench: Bench, other: str | None) -> None:
    bench.facts = msgspec.structs.replace(bench.facts, boot_id=other)
    with pytest.raises(StateError) as caught:
        bench.restore()
    assert bench.host.calls == []
    assert bench.store.load_acs() is not None
    if other is not None:
        assert isinstance(caught.value, StaleState)
        assert caught.value.status is Exit.REFUSED
        assert "earlier boot" in caught.value.message


def test_another_machine_is_told(bench: Bench) -> None:
    bench.facts = msgspec.structs.replace(bench.facts, machine="l40s-acs")
    with pytest.raises(StateError, match="not of l40s-acs"):
        bench.restore()
    assert bench.host.calls == []


def test_restoring_a_live_node_needs_root(bench: Bench) -> None:
    bench.host = MemoryHost(bench.facts, is_root=False)
    with pytest.raises(NeedsRoot):
        bench.restore()


def test_a_missing_setpci_is_said(bench: Bench) -> None:
    bench.host.programs.clear()
    with pytest.raises(NotFound):
        bench.restore()
    assert bench.store.load_acs() is not None


def test_another_device_in_the_place_is_left_alone_and_the_others_restored(bench: Bench) -> None:
    bench.host.spaces[Bdf(port(1))][0:4] = bytes.fromhex("b5100097")
    with pytest.raises(Unfinished, match="another port: 10b5:9700") as caught:
        bench.restore()
    assert bench.words() == [0x1D, 0x11, 0x1D]
    assert [one.ok for one in caught.value.applied] == [True, False, True]
    assert bench.store.load_acs() is not None


def test_a_port_that_is_gone_does_not_keep_the_others_from_it(bench: Bench) -> None:
    del bench.host.spaces[Bdf(port(0))]
    with pytest.raises(Unfinished, match=port(0)):
        bench.restore()
    assert [bench.host.control(port(slot)) for slot in (1, 2)] == [0x1D, 0x1D]


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize(
    "fault", [Fault.NO_EFFECT, Fault.SILENT_DENIAL, Fault.NO_CAPABILITY, Fault.HANGS_BEFORE]
)
def test_a_failed_port_keeps_the_state_for_another_try(bench: Bench, fault: Fault, at: int) -> None:
    bench.host.faults = {at: fault}
    with pytest.raises(Unfinished) as caught:
        bench.restore()
    assert caught.value.status is Exit.UNVERIFIED
    assert [one.ok for one in caught.value.applied] == [slot != at for slot in range(3)]
    assert bench.words() == [0x11 if slot == at else 0x1D for slot in range(3)]
    bench.host.faults = {}
    bench.restore()
    assert bench.words() == [0x1D] * 3
    assert bench.store.load_acs() is None
