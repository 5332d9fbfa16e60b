"""Save, write, read back; and every way that a surprise is undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.acs.outcome import Unfinished
from nodeprep.acs.registers import read_port, write_argv, write_bits
from nodeprep.errors import Exit, HostError, NeedsRoot, NotFound, Refused, StateError
from nodeprep.model.acs import AcsState
from nodeprep.model.facts import Origin, Platform
from nodeprep.model.pci import Bdf
from nodeprep.state import ACS_SCHEMA, StateStore
from tests.acs.bench import Bench, make_bench, port
from tests.acs.memory_host import Fault, MemoryHost


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def test_each_port_is_written_once_masked_and_read_back(bench: Bench) -> None:
    applied = bench.apply()
    assert bench.words() == [0x11, 0x11, 0x11]
    assert [(one.write.bdf, one.read_back, one.ok) for one in applied] == [
        (port(slot), "0011", True) for slot in range(3)
    ]
    assert bench.host.calls == [
        ("setpci", "-r", "-v", "-s", port(slot), "ECAP_ACS+6.w=0000:000c") for slot in range(3)
    ]


def test_the_root_port_and_every_other_word_stay(bench: Bench) -> None:
    before = bench.host.controls()
    bench.apply()
    after = bench.host.controls()
    assert {bdf for bdf in before if before[bdf] != after[bdf]} == {port(s) for s in range(3)}


def test_originals_are_on_disk_before_the_first_write(bench: Bench) -> None:
    seen: list[tuple[str, bool, int]] = []

    def watch(step: str) -> None:
        seen.append((step, bench.store.acs_file.exists(), len(bench.host.calls)))

    bench.apply(on_step=watch)
    first_write = next(index for index, (step, *_) in enumerate(seen) if step.startswith("writing"))
    assert seen[first_write][1:] == (True, 0)
    assert all(not exists for _, exists, _ in seen[:first_write])


def test_the_state_says_what_restore_needs(bench: Bench) -> None:
    bench.apply(bench.plan(forced_reason="maintenance"))
    state = bench.store.load_acs()
    assert state is not None
    assert state.schema == ACS_SCHEMA
    assert state.boot_id == bench.facts.boot_id
    assert state.kernel_release == "6.8.0-51-generic"
    assert state.forced_reason == "maintenance"
    first = state.ports[0]
    assert (first.bdf, first.original, first.written) == (port(0), "001d", "0011")
    assert first.path == ("0000:40:01.1", "0000:41:00.0", port(0))
    assert first.vendor_device == "1000:c010"
    assert first.capabilities == "007f"


def test_an_empty_plan_touches_nothing(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, (0x11, 0x11))
    assert bench.apply() == ()
    assert bench.host.calls == []
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_stops_the_whole_plan(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, platform=Platform(virtualization="kvm", lockdown="none"))
    found = bench.plan()
    with pytest.raises(Refused, match="this is a guest") as caught:
        bench.apply(found)
    assert caught.value.status is Exit.REFUSED
    assert caught.value.hint
    assert bench.words() == [0x1D] * 3
    assert list(tmp_path.iterdir()) == []


def test_a_reason_overrules_refusals(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, platform=Platform(virtualization="kvm", lockdown="none"))
    bench.apply(bench.plan(forced_reason="emulated fabric"))
    assert bench.words() == [0x11] * 3


@pytest.mark.parametrize("is_root", [False, None])
def test_a_live_node_needs_root(bench: Bench, is_root: bool | None) -> None:
    host = MemoryHost(bench.facts, is_root=is_root)
    with pytest.raises(NeedsRoot) as caught:
        Bench(bench.facts, host, bench.store).apply()
    assert caught.value.status is Exit.NEEDS_ROOT
    assert host.calls == []


def test_a_fabricated_tree_does_not(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, origin=Origin.FABRICATED, boot_id=None)
    host = MemoryHost(bench.facts, is_root=None)
    Bench(bench.facts, host, bench.store).apply()
    assert host.control(port(0)) == 0x11


def test_a_missing_setpci_is_said_before_anything_is_touched(bench: Bench, tmp_path: Path) -> None:
    bench.host.programs.clear()
    with pytest.raises(NotFound) as caught:
        bench.apply()
    assert "pciutils" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_live_node_without_boot_id_is_refused(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, boot_id=None)
    with pytest.raises(Refused, match="boot id"):
        bench.apply()
    assert bench.host.calls == []


def test_an_old_setpci_is_asked_again_without_raw_access(bench: Bench) -> None:
    bench.host.faults = dict.fromkeys(range(0, 6, 2), Fault.OLD_PROGRAM)
    bench.apply()
    assert bench.words() == [0x11] * 3
    assert [("-r" in call) for call in bench.host.calls] == [True, False] * 3


def _another_word(one: Bench) -> None:
    one.host.set_control(port(1), 0x1F)


def _another_device(one: Bench) -> None:
    one.host.spaces[Bdf(port(1))][0:4] = bytes.fromhex("b5100097")


def _another_place(one: Bench) -> None:
    one.host.links[Bdf(port(1))] = f"../../devices/pci0000:40/0000:40:03.1/{port(1)}"


def _no_place(one: Bench) -> None:
    one.host.links[Bdf(port(1))] = "../../devices/platform/somewhere"


def _gone(one: Bench) -> None:
    del one.host.spaces[Bdf(port(1))]


def _all_ones(one: Bench) -> None:
    one.host.spaces[Bdf(port(1))][:] = b"\xff" * 4096


def _no_acs(one: Bench) -> None:
    one.host.spaces[Bdf(port(1))][0x100:] = bytes(4096 - 0x100)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_another_word, "its control word is 001f"),
        (_another_device, "it is 10b5:9700"),
        (_another_place, "another place"),
        (_no_place, "could not be read again"),
        (_gone, "could not be read again"),
        (_all_ones, "could not be read again"),
        (_no_acs, "could not be read again"),
    ],
)
def test_a_port_that_changed_since_the_plan_stops_it(
    bench: Bench, spoil: Callable[[Bench], None], what: str
) -> None:
    found = bench.plan()
    spoil(bench)
    with pytest.raises(Refused, match=what) as caught:
        bench.apply(found)
    assert port(1) in caught.value.message
    assert bench.host.calls == []
    assert bench.store.load_acs() is None


def test_a_port_already_done_is_not_written_again(bench: Bench) -> None:
    found = bench.plan()
    bench.host.set_control(port(1), 0x11)
    applied = bench.apply(found)
    assert [one.ok for one in applied] == [True] * 3
    assert [call[4] for call in bench.host.calls] == [port(0), port(2)]
    state = bench.store.load_acs()
    assert state is not None
    assert [saved.bdf for saved in state.ports] == [port(0), port(2)]


SURPRISES = [fault for fault in Fault if fault not in (Fault.LOSES_PORT, Fault.OLD_PROGRAM)]


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("fault", SURPRISES)
def test_any_surprise_at_any_port_is_rolled_back(bench: Bench, fault: Fault, at: int) -> None:
    bench.host.faults = {at: fault}
    with pytest.raises(Unfinished, match="rolled back") as caught:
        bench.apply()
    assert caught.value.status is Exit.UNVERIFIED
    assert bench.words() == [0x1D] * 3
    assert port(at) in caught.value.message
    assert [one.write.bdf for one in caught.value.applied] == [port(s) for s in range(at, -1, -1)]
    assert all(one.rolled_back and not one.ok for one in caught.value.applied)
    assert bench.store.load_acs() is None


def test_the_complaint_of_setpci_is_passed_on(bench: Bench) -> None:
    bench.host.faults = {0: Fault.SILENT_DENIAL}
    with pytest.raises(Unfinished, match=r"had no effect.*Operation not permitted") as caught:
        bench.apply()
    assert "pci=disable_acs_redir=" in caught.value.hint


def test_a_failure_of_setpci_is_not_taken_for_a_write_without_effect(bench: Bench) -> None:
    bench.host.faults = {1: Fault.NO_CAPABILITY}
    with pytest.raises(Unfinished, match=r"setpci ended with status 1: .*000d not found"):
        bench.apply()


@pytest.mark.parametrize("at", range(1, 3))
def test_a_port_that_cannot_be_rolled_back_is_named(bench: Bench, at: int) -> None:
    bench.host.faults = {at: Fault.LOSES_PORT}
    with pytest.raises(Unfinished, match=f"NOT rolled back: {port(at)}$") as caught:
        bench.apply()
    assert caught.value.hint == "run: nodeprep acs restore"
    assert [one.rolled_back for one in caught.value.applied] == [False, *([True] * at)]
    assert bench.words()[:at] == [0x1D] * at
    state = bench.store.load_acs()
    assert state is not None
    assert len(state.ports) == 3


def test_a_rollback_without_effect_is_not_called_one(bench: Bench) -> None:
    bench.host.faults = {1: Fault.NO_CAPABILITY, 2: Fault.NO_EFFECT}
    with pytest.raises(Unfinished, match=f"NOT rolled back: {port(0)}"):
        bench.apply()
    assert bench.words()[0] == 0x11
    bench.restore()
    assert bench.words() == [0x1D] * 3


def test_a_rollback_keeps_what_an_earlier_run_did(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, (0x1D, 0x1D, 0x11))
    bench.apply()
    earlier = bench.store.load_acs()
    bench.host.set_control(port(2), 0x1D)
    bench.host.faults = {2: Fault.NO_EFFECT}
    with pytest.raises(Unfinished):
        bench.apply()
    assert bench.words() == [0x11, 0x11, 0x1D]
    assert bench.store.load_acs() == earlier


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_an_interruption_at_any_step_rolls_back(tmp_path: Path, stop: type[BaseException]) -> None:
    steps: list[str] = []
    make_bench(tmp_path / "count").apply(on_step=steps.append)
    assert len(steps) == 10
    for at in range(len(steps)):
        bench, seen = make_bench(tmp_path / str(at)), iter(range(len(steps)))

        def interrupt(_: str, at: int = at, seen: object = seen) -> None:
            if next(seen) == at:  # type: ignore[call-overload]
                raise stop

        with pytest.raises(stop):
            bench.apply(on_step=interrupt)
        assert bench.words() == [0x1D] * 3, steps[at]
        assert bench.store.load_acs() is None, steps[at]
        assert bench.apply(), "the lock is free again"


def test_an_interruption_that_cannot_be_rolled_back_says_so(bench: Bench) -> None:
    bench.host.faults = {1: Fault.NO_EFFECT}

    def interrupt(step: str) -> None:
        if step.startswith("reading back"):
            raise KeyboardInterrupt

    with pytest.raises(Unfinished, match="interrupted; NOT rolled back"):
        bench.apply(on_step=interrupt)


class TestNothingIsWrittenWithoutASave:
    def test_when_the_folder_cannot_be_trusted(self, bench: Bench) -> None:
        bench.store.state_dir.mkdir()
        bench.store.state_dir.chmod(0o777)
        self.check(bench)

    def test_when_the_folder_is_a_file(self, bench: Bench) -> None:
        bench.store.state_dir.touch()
        self.check(bench)

    def test_when_the_file_is_a_link(self, bench: Bench, tmp_path: Path) -> None:
        bench.store.state_dir.mkdir(mode=0o700)
        bench.store.acs_file.symlink_to(tmp_path / "elsewhere")
        self.check(bench)

    def test_when_the_file_is_damaged(self, bench: Bench) -> None:
        bench.store.state_dir.mkdir(mode=0o700)
        bench.store.acs_file.write_text("{")
        self.check(bench)

    def test_when_the_disk_refuses(self, bench: Bench) -> None:
        class FullStore(StateStore):
            def save_acs(self, state: AcsState) -> None:
                raise StateError("no space left on device")

        bench.store = FullStore(bench.store.state_dir, bench.store.run_dir)
        self.check(bench)

    def test_when_the_state_is_another_machines(self, bench: Bench) -> None:
        bench.apply()
        state = bench.store.load_acs()
        assert state is not None
        bench.store.save_acs(msgspec.structs.replace(state, machine="l40s-acs"))
        bench.host.calls.clear()
        bench.host.set_control(port(0), 0x1D)
        self.check(bench)

    def test_when_the_lock_is_held(self, bench: Bench) -> None:
        with bench.store.lock(), pytest.raises(Refused, match="another nodeprep"):
            bench.apply(lock_deadline_s=0.05)
        assert bench.host.calls == []

    def test_the_writer_itself_wants_the_saved_state(self, bench: Bench) -> None:
        bench.apply()
        state = bench.store.load_acs()
        assert state is not None
        bench.host.calls.clear()
        with pytest.raises(StateError, match="was not saved"):
            write_bits(bench.host, Bdf("0000:40:01.1"), value=0, mask=0x2C, saved=state)
        assert bench.host.calls == []

    def check(self, bench: Bench) -> None:
        before = bench.host.controls()
        with pytest.raises(StateError):
            bench.apply()
        assert bench.host.calls == []
        assert bench.host.controls() == before


def test_the_first_original_of_a_boot_survives_later_plans(bench: Bench) -> None:
    bench.apply()
    bench.host.set_control(port(0), 0x1F)  # armed again, and more
    bench.apply()
    bench.host.set_control(port(1), 0x1D)
    bench.apply(bench.plan(all_bits=True))
    state = bench.store.load_acs()
    assert state is not None
    assert {saved.bdf: (saved.original, saved.written) for saved in state.ports} == {
        port(0): ("001d", "0013"),
        port(1): ("001d", "0000"),
        port(2): ("001d", "0011"),
    }


def test_another_boot_starts_afresh(bench: Bench) -> None:
    bench.apply()
    bench.facts = msgspec.structs.replace(bench.facts, boot_id="next")
    bench.host.set_control(port(2), 0x1F)
    bench.apply()
    state = bench.store.load_acs()
    assert state is not None
    assert state.boot_id == "next"
    assert [(saved.bdf, saved.original) for saved in state.ports] == [(port(2), "001f")]


def test_another_device_in_the_same_place_gets_its_own_original(bench: Bench) -> None:
    bench.apply()
    state = bench.store.load_acs()
    assert state is not None
    foreign = msgspec.structs.replace(state.ports[0], vendor_device="10b5:9700", original="0004")
    bench.store.save_acs(msgspec.structs.replace(state, ports=(foreign,)))
    bench.host.set_control(port(0), 0x1D)
    bench.apply()
    state = bench.store.load_acs()
    assert state is not None
    assert state.ports[0].original == "001d"


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.integers(0, 0x7F), min_size=2, max_size=4), all_bits=st.booleans())
def test_plan_apply_plan_restore_for_any_words(words: list[int], all_bits: bool) -> None:
    with TemporaryDirectory() as folder:
        bench = make_bench(Path(folder), words)
        bench.apply(bench.plan(all_bits=all_bits))
        expected = [0 if all_bits and word & 0x2C else word & ~0x2C for word in words]
        assert bench.words() == expected
        assert bench.plan().actions == ()
        assert bench.apply() == ()
        bench.restore()
        assert bench.words() == words


def test_reading_a_port_without_acs_is_an_error(bench: Bench) -> None:
    with pytest.raises(HostError, match="ACS capability"):
        read_port(bench.host, Bdf("0000:43:00.0"))


@pytest.mark.parametrize(
    "link",
    ["../../devices/pci0000:40/0000:40:01.1", "../../devices/pci0000:40", "", "0000:42:00.0"],
)
def test_a_link_that_leads_elsewhere_is_no_place(bench: Bench, link: str) -> None:
    bench.host.links[Bdf(port(0))] = link
    with pytest.raises(HostError, match="place in the PCI tree"):
        read_port(bench.host, Bdf(port(0)))


def test_a_port_behind_vmd_is_placed_below_its_own_root_bus(bench: Bench) -> None:
    bench.host.links[Bdf(port(0))] = (
        f"../../../devices/pci0000:64/0000:64:00.5/pci10000:40/10000:40:01.0/{port(0)}"
    )
    assert read_port(bench.host, Bdf(port(0))).path == ("10000:40:01.0", port(0))


def test_the_argument_vector_names_value_and_mask() -> None:
    argv = write_argv(Bdf("0000:42:00.0"), 0xFFFF, 0x2C, raw=False)
    assert argv == ("setpci", "-v", "-s", "0000:42:00.0", "ECAP_ACS+6.w=002c:002c")
