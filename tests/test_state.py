"""Files of ours: whole or not at all, private, and never through a link."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import Refused, StateError
from nodeprep.model.acs import AcsState, SavedPort
from nodeprep.model.pci import Bdf
from nodeprep.state import ACS_SCHEMA, StateStore, default_state_dir, write_atomic

PORT = SavedPort(
    bdf=Bdf("0000:42:00.0"),
    path=(Bdf("0000:40:01.1"), Bdf("0000:41:00.0"), Bdf("0000:42:00.0")),
    vendor_device="1000:c010",
    capabilities="005f",
    original="001d",
    written="0011",
    saved_at="2026-01-01T00:00:00Z",
)
SAVED = AcsState(
    schema=ACS_SCHEMA,
    tool_version="1",
    boot_id="b",
    collected_at="2026-01-01T00:00:00Z",
    kernel_release="6.8.0",
    machine=None,
    ports=(PORT,),
)


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state", tmp_path / "run")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_saved_comes_back_private(store: StateStore) -> None:
    assert store.load_acs() is None
    store.save_acs(SAVED)
    assert store.load_acs() == SAVED
    assert mode_of(store.acs_file) == 0o600
    assert mode_of(store.state_dir) == 0o700
    assert names(store.state_dir) == {"acs-state.json"}


def test_saving_again_replaces_the_whole_file(store: StateStore) -> None:
    store.save_acs(SAVED)
    inode = store.acs_file.stat().st_ino
    other = msgspec.structs.replace(SAVED, boot_id="c")
    store.save_acs(other)
    assert store.load_acs() == other
    assert store.acs_file.stat().st_ino != inode


def test_retiring_keeps_a_copy_under_another_name(store: StateStore) -> None:
    store.save_acs(SAVED)
    store.retire_acs()
    assert store.load_acs() is None
    assert names(store.state_dir) == {"acs-state.restored.json"}


def test_removing_what_is_not_there_is_fine(store: StateStore) -> None:
    store.remove_acs()
    store.remove_ready()
    assert not store.state_dir.exists()


def test_the_ready_stamp_holds_the_boot_id(store: StateStore) -> None:
    assert store.read_ready() is None
    store.write_ready("0b5e-1")
    assert store.read_ready() == "0b5e-1"
    assert mode_of(store.run_dir / "ready") == 0o644
    store.remove_ready()
    assert store.read_ready() is None


def test_the_report_is_for_everybody(store: StateStore) -> None:
    assert store.read_report() is None
    path = store.write_report(b"{}")
    assert path == store.run_dir / "report.json"
    assert mode_of(path) == 0o644
    assert mode_of(store.run_dir) & 0o055 == 0o055
    assert store.read_report() == b"{}"


def test_one_folder_serves_for_both(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "only")
    store.write_ready("b")
    assert (tmp_path / "only/ready").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720])
def test_a_folder_that_others_may_change_is_refused(store: StateStore, mode: int) -> None:
    store.state_dir.mkdir()
    store.state_dir.chmod(mode)
    with pytest.raises(StateError, match="can be changed by others") as caught:
        store.save_acs(SAVED)
    assert "chmod go-w" in caught.value.hint
    assert names(store.state_dir) == set()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_change_is_not_read(store: StateStore, mode: int) -> None:
    store.save_acs(SAVED)
    store.acs_file.chmod(mode)
    with pytest.raises(StateError, match="can be changed by others"):
        store.load_acs()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_a_foreign_owner_is_refused(store: StateStore, whose: str) -> None:
    store.save_acs(SAVED)
    os.chown(store.acs_file if whose == "file" else store.state_dir, 12345, 12345)
    with pytest.raises(StateError, match="belongs to user 12345"):
        store.load_acs()
    with pytest.raises(StateError, match="belongs to user 12345"):
        store.save_acs(SAVED)


def test_a_link_is_neither_read_nor_written_through(store: StateStore, tmp_path: Path) -> None:
    store.state_dir.mkdir(mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    store.acs_file.symlink_to(victim)
    with pytest.raises(StateError, match="is a link"):
        store.load_acs()
    with pytest.raises(StateError, match="not a plain file"):
        store.save_acs(SAVED)
    assert victim.read_text() == "precious"


def test_a_linked_folder_is_refused(store: StateStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    store.state_dir.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError):
        store.save_acs(SAVED)
    assert names(tmp_path / "elsewhere") == set()


def test_a_linked_lock_is_refused(store: StateStore, tmp_path: Path) -> None:
    store.run_dir.mkdir(mode=0o755)
    (store.run_dir / "acs.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(StateError, match="is a link"), store.lock():
        pass
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_no_plain_file_is_refused(store: StateStore, kind: str) -> None:
    store.state_dir.mkdir(mode=0o700)
    if kind == "folder":
        store.acs_file.mkdir()
    else:
        os.mkfifo(store.acs_file)
    with pytest.raises(StateError):
        store.load_acs()
    with pytest.raises(StateError):
        store.save_acs(SAVED)


def damaged(**fields: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(SAVED) | fields)


def damaged_port(**fields: object) -> bytes:
    return damaged(ports=[msgspec.to_builtins(PORT) | fields])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        damaged(schema="nodeprep.acs-state/2"),
        damaged(surprise=1),
        damaged(ports="none"),
        damaged_port(bdf="0000:42:00.0; reboot"),
        damaged_port(bdf="42:00.0"),
        damaged_port(path=[]),
        damaged_port(path=["0000:40:01.1"]),
        damaged_port(original="1d"),
        damaged_port(original="001D"),
        damaged_port(written="00110"),
        damaged_port(written=17),
        damaged_port(extra=True),
    ],
)
def test_a_damaged_file_is_named_and_kept(store: StateStore, content: bytes) -> None:
    store.state_dir.mkdir(mode=0o700)
    store.acs_file.write_bytes(content)
    with pytest.raises(StateError, match="is damaged and was left") as caught:
        store.load_acs()
    assert caught.value.hint
    assert store.acs_file.read_bytes() == content


def test_a_huge_file_is_not_swallowed(store: StateStore) -> None:
    store.state_dir.mkdir(mode=0o700)
    with store.acs_file.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(StateError, match="not a file of ours"):
        store.load_acs()


@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_state_or_an_error(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = StateStore(tmp_path_factory.getbasetemp() / "any")
    store.state_dir.mkdir(mode=0o700, exist_ok=True)
    store.acs_file.write_bytes(content)
    store.acs_file.chmod(0o600)
    with pytest.raises(StateError):
        store.load_acs()


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    (tmp_path / "dir").mkdir()
    with pytest.raises(StateError):
        write_atomic(tmp_path / "dir", b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == {"file", "dir"}


def test_a_missing_folder_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="nowhere"):
        write_atomic(tmp_path / "nowhere/file", b"x")


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomic(tmp_path / "open", b"", mode=0o644)
        os.umask(0)
        write_atomic(tmp_path / "closed", b"", mode=0o600)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "open") == 0o644
    assert mode_of(tmp_path / "closed") == 0o600


def test_readers_never_see_a_part(tmp_path: Path) -> None:
    path, done = tmp_path / "file", threading.Event()
    contents = {bytes([letter]) * 300_000 for letter in b"ab"}
    write_atomic(path, b"a" * 300_000, fsync=False)

    def write() -> None:
        while not done.is_set():
            for content in contents:
                write_atomic(path, content, fsync=False)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(path.read_bytes() in contents for _ in range(200))
    finally:
        done.set()
        writer.join()


def test_a_link_in_the_place_of_a_rendered_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "file").symlink_to(tmp_path / "victim")
    write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "file").is_symlink()


def test_the_second_waits_and_then_says_who_holds_the_lock(store: StateStore) -> None:
    with store.lock():
        started = time.monotonic()
        with (
            pytest.raises(Refused, match=f"process {os.getpid()}") as caught,
            store.lock(0.2),
        ):
            pass
        assert time.monotonic() - started >= 0.2
        assert caught.value.hint
    with store.lock(0.2):
        pass


def test_the_lock_frees_itself_when_its_holder_is_killed(store: StateStore) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.acs.child", "hold", str(store.run_dir)],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Refused, match=f"process {holder.pid}"), store.lock(0.05):
            pass
        holder.kill()
    with store.lock(1.0):
        pass


def test_the_waiting_one_gets_the_lock_when_it_is_free(store: StateStore) -> None:
    order: list[str] = []

    def second() -> None:
        with store.lock(5.0):
            order.append("second")

    with store.lock():
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


class TestDefaultStateDir:
    def test_xdg_state_home_comes_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        assert default_state_dir("l40s-acs") == tmp_path / "nodeprep/l40s-acs"
        assert not (tmp_path / "nodeprep").exists()

    @pytest.mark.parametrize("given", ["", "relative/path"])
    def test_a_relative_one_does_not_count(
        self, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", given)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert default_state_dir("m") == tmp_path / ".local/state/nodeprep/m"

    def test_a_home_that_is_no_folder_falls_back_to_a_private_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        found = default_state_dir("m")
        assert found == tmp_path / f"nodeprep-{os.geteuid()}/m"
        assert mode_of(found.parent) == 0o700

    def test_a_fallback_that_others_may_change_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        taken = tmp_path / f"nodeprep-{os.geteuid()}"
        taken.mkdir()
        taken.chmod(0o777)
        with pytest.raises(StateError, match="can be changed by others"):
            default_state_dir("m")

    @pytest.mark.parametrize(
        "name", ["../../etc", "a/b", "", ".", "..", "a\0b", "x" * 300, "\x1b[2J", "-rf", "ü"]
    )
    def test_a_hostile_machine_name_stays_one_component(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        found = default_state_dir(name)
        assert found.parent == tmp_path / "nodeprep"
        assert found.name.startswith("machine-")
        assert found != default_state_dir(name + "2")

    def test_no_machine_has_a_folder_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        assert default_state_dir(None) == tmp_path / "nodeprep/snapshot"
