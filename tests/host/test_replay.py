"""Replay and recording: the same questions get the same answers; writes go to the model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodeprep.errors import HostError, NotFound, NotRecorded, StateError
from nodeprep.facts.collect import collect
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.host.machines import machine_file
from nodeprep.host.recording import RecordingHost
from nodeprep.host.replay import ReplayHost, load_snapshot
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.pci import Bdf
from nodeprep.model.snapshot import RecordedFile, Snapshot
from nodeprep.settings import Accelerators
from tests.fabricated import FabricatedTree, add_switch

PORT = Bdf("0000:42:00.0")


@pytest.fixture
def snapshot() -> Snapshot:
    return load_snapshot(machine_file("l40s-acs"))


def setpci(host: ReplayHost, *arguments: str) -> tuple[int, str, str]:
    result = host.run(("setpci", *arguments), deadline_s=5)
    assert result.simulated
    return result.status, result.stdout, result.stderr


def test_a_recorded_tree_replays_as_it_was_read(tmp_path: Path) -> None:
    tree = FabricatedTree(tmp_path / "tree")
    add_switch(tree, slots=3, group=5)
    recorder = RecordingHost(FabricatedHost(tree.root))
    live = collect(recorder, Accelerators())
    kept = recorder.snapshot(tool_version="0", collected_at="", boot_id=None, notes=())
    again = msgspec.json.decode(msgspec.json.encode(kept), type=Snapshot)
    replayed = collect(ReplayHost(again), Accelerators())
    assert replayed.functions == live.functions
    assert replayed.gpus == live.gpus
    assert replayed.origin is Origin.REPLAY


def test_what_was_not_recorded_is_not_made_up(snapshot: Snapshot) -> None:
    host = ReplayHost(snapshot)
    with pytest.raises(NotFound):
        host.read_text("/etc/shadow")
    with pytest.raises(NotFound):
        host.list_dir("/sys/nothing")
    with pytest.raises(NotRecorded):
        host.run(("lspci", "-x"), deadline_s=5)
    with pytest.raises(NotFound):
        host.run(("nvidia-smi",), deadline_s=5)
    with pytest.raises(NotRecorded):
        host.read_bytes(f"/sys/bus/pci/devices/{PORT}/config", offset=0x800, length=4)


def test_setpci_reads_and_writes_the_model(snapshot: Snapshot, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    file = tmp_path / "registers.json"
    host = ReplayHost(snapshot, file)
    assert setpci(host, "-s", PORT, "ECAP_ACS+6.w") == (0, "001d\n", "")
    status, out, _ = setpci(host, "-v", "-s", PORT, "ECAP_ACS+6.w=0000:002c")
    assert status == 0
    assert out.endswith("001d->(0000:002c)->0011\n")
    assert setpci(host, "-r", "-s", PORT, "ECAP_ACS+0x6.w")[1] == "0011\n"
    assert host.read_bytes(f"/sys/bus/pci/devices/{PORT}/config", offset=0x14C, length=4) == (
        b"\x5f\x00\x11\x00"
    )
    assert setpci(ReplayHost(snapshot, file), "-s", PORT, "ECAP_ACS+6.w")[1] == "0011\n"
    rebooted = replace(snapshot, boot_id="another boot")
    assert setpci(ReplayHost(rebooted, file), "-s", PORT, "ECAP_ACS+6.w")[1] == "001d\n"


def test_bits_without_capability_cannot_be_set(snapshot: Snapshot) -> None:
    host = ReplayHost(snapshot)
    setpci(host, "-s", PORT, "ECAP_ACS+6.w=ffff")
    assert setpci(host, "-s", PORT, "ECAP_ACS+6.w")[1] == "005f\n"


def test_the_manners_of_setpci(snapshot: Snapshot) -> None:
    host = ReplayHost(snapshot)
    status, out, err = setpci(host, "-s", "0000:7f:00.0", "ECAP_ACS+6.w=0000")
    assert (status, out) == (0, "")
    assert "No devices selected" in err
    status, _, err = setpci(host, "-s", "0000:41:00.0", "ECAP_ACS+6.w=0000")
    assert status == 1
    assert "not found" in err
    assert setpci(host, "-s", PORT, "CAP_EXP+8.w=0")[0] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"is_root": False},
        {"files": {"/sys/kernel/security/lockdown": RecordedFile(text="none [integrity] x")}},
    ],
    ids=["not-root", "lockdown"],
)
def test_a_write_without_effect_still_exits_0(
    snapshot: Snapshot, change: dict[str, object]
) -> None:
    files = change.pop("files", {})
    assert isinstance(files, dict)
    host = ReplayHost(replace(snapshot, files=snapshot.files | files, **change))
    status, _, err = setpci(host, "-s", PORT, "ECAP_ACS+6.w=0000")
    assert status == 0
    assert "pcilib" in err
    assert setpci(host, "-s", PORT, "ECAP_ACS+6.w")[1] == "001d\n"


def test_a_measurement_follows_the_registers(snapshot: Snapshot) -> None:
    host = ReplayHost(snapshot)
    argv = next(one.argv for one in snapshot.commands if "all_reduce_perf" in one.argv[0])
    slow = host.run(argv, deadline_s=5).stdout
    for slot in ("00", "04", "08", "0c"):
        setpci(host, "-s", f"0000:42:{slot}.0", "ECAP_ACS+6.w=0000:002c")
    fast = host.run(argv, deadline_s=5).stdout
    assert slow.startswith("# SIMULATED")
    assert slow != fast


def damaged(snapshot: Snapshot, **fields: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(snapshot) | fields)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff\xfe", b"null", b'{"schema": "nodeprep.snapshot/2"}'],
)
def test_a_file_that_is_no_snapshot_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(StateError) as told:
        load_snapshot(path)
    assert told.value.hint


def test_unknown_members_are_refused(snapshot: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(damaged(snapshot, surprise=1))
    with pytest.raises(StateError, match="surprise"):
        load_snapshot(path)


def test_a_cut_file_is_refused(snapshot: Snapshot, tmp_path: Path) -> None:
    whole = msgspec.json.encode(snapshot)
    path = tmp_path / "file"
    for length in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(StateError):
            load_snapshot(path)


@given(
    st.dictionaries(
        st.sampled_from(["0", "64", "-1", "x", "256", "9" * 30]),
        st.sampled_from(["", "00", "zz", "0d000100", "ff" * 64, "0"]),
        max_size=4,
    ),
    st.one_of(st.none(), st.integers(-5, 5000)),
)
def test_damaged_bytes_give_facts_or_an_error(segments: dict[str, str], size: int | None) -> None:
    """Whatever stands in a recorded configuration space, collecting ends with facts."""
    snapshot = load_snapshot(machine_file("l40s-acs"))
    path = f"/sys/bus/pci/devices/{PORT}/config"
    files = snapshot.files | {path: RecordedFile(size=size, segments=segments)}
    try:
        facts = collect(ReplayHost(replace(snapshot, files=files)), Accelerators())
    except (HostError, StateError):
        return
    assert isinstance(facts, NodeFacts)
