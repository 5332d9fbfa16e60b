"""Every refusal as a user meets it: a machine that provokes it, the program, its status."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeprep.host.machines import machine_file
from nodeprep.host.replay import load_snapshot
from nodeprep.model.pci import PortType
from nodeprep.model.readings import NvmlProcess
from nodeprep.model.snapshot import RecordedFile, Snapshot
from tests.fabricated import FabricatedTree, add_switch

Tree = Callable[[FabricatedTree], None]


def run(*arguments: str) -> tuple[int, Any, str]:
    done = subprocess.run(
        [sys.executable, "-m", "nodeprep", *arguments, "--format", "json"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def reasons(document: Any) -> list[str]:
    return [one["reason"] for one in document["actions"] if one["kind"] == "refusal"]


def plain(tree: FabricatedTree, **card: Any) -> None:
    add_switch(tree, group=20, **card)


TREES: dict[str, tuple[Tree, dict[str, str], str]] = {
    "guest": (plain, {"virt": "kvm"}, "this is a guest (kvm)"),
    "lockdown": (plain, {"lockdown": "integrity"}, "kernel lockdown (integrity)"),
    "override": (lambda tree: plain(tree, files={"driver_override": "vfio-pci"}), {},
                 "driver_override vfio-pci"),
    "sriov": (lambda tree: plain(tree, files={"sriov_numvfs": "3"}), {},
              "3 SR-IOV virtual functions"),
    "xen": (lambda tree: plain(tree, driver="pciback"), {}, "driver pciback"),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_a_fabricated_tree_that_provokes_it(name: str, tmp_path: Path) -> None:
    build, host, reason = TREES[name]
    tree = FabricatedTree(tmp_path / "sysfs")
    build(tree)
    tree.host_json(**host)
    before = tree.controls()
    state = tmp_path / "state"
    status, document, _ = run("acs", "apply", "--sysfs-root", str(tree.root),
                              "--state-dir", str(state))  # fmt: skip
    assert status == 4
    assert any(reason in one for one in reasons(document)), reasons(document)
    assert tree.controls() == before
    assert not (state / "acs-state.json").exists()


def test_a_neighbour_of_the_gpus_given_to_a_guest(tmp_path: Path) -> None:
    tree = FabricatedTree(tmp_path / "sysfs")
    add_switch(tree, slots=2, group=20)
    tree.add("0000:42:08.0", parent="0000:41:00.0", vendor=0x1000, device=0xC010,
             class_code=0x060400, buses=(0x42, 0x48, 0x48),
             port_type=PortType.DOWNSTREAM)  # fmt: skip
    tree.add("0000:48:00.0", parent="0000:42:08.0", driver="vfio-pci", vendor=0x15B3,
             device=0x1021, class_code=0x020000, port_type=PortType.ENDPOINT)  # fmt: skip
    before = tree.controls()
    status, document, _ = run("acs", "apply", "--sysfs-root", str(tree.root),
                              "--state-dir", str(tmp_path / "state"))  # fmt: skip
    assert status == 4
    assert "0000:48:00.0" in " ".join(reasons(document))
    assert tree.controls() == before


def test_a_parent_of_mediated_devices(tmp_path: Path) -> None:
    tree = FabricatedTree(tmp_path / "sysfs")
    add_switch(tree, group=20)
    (tree.root / "devices/0000:43:00.0/mdev_supported_types").mkdir()
    status, document, _ = run("acs", "apply", "--sysfs-root", str(tree.root),
                              "--state-dir", str(tmp_path / "state"))  # fmt: skip
    assert status == 4
    assert "mediated devices" in " ".join(reasons(document))


@pytest.mark.parametrize(
    ("readable", "hint"), [(64, "run as root"), (256, "MMCONFIG"), (0, "off the bus")]
)
def test_a_port_whose_registers_cannot_be_read(tmp_path: Path, readable: int, hint: str) -> None:
    tree = FabricatedTree(tmp_path / "sysfs")
    add_switch(tree, group=20)
    config = tree.root / "devices/0000:42:00.0/config"
    config.write_bytes(config.read_bytes()[:readable])
    status, document, _ = run("acs", "apply", "--sysfs-root", str(tree.root),
                              "--state-dir", str(tmp_path / "state"))  # fmt: skip
    assert status == 4
    refused = [one for one in document["actions"] if one["kind"] == "refusal"]
    assert any(hint in one["hint"] and "0000:42:00.0" in one["reason"] for one in refused)


def _locked(one: Snapshot) -> Snapshot:
    text = RecordedFile(text="none integrity [confidentiality]")
    return msgspec.structs.replace(one, files={**one.files, "/sys/kernel/security/lockdown": text})


def _busy(one: Snapshot) -> Snapshot:
    assert one.nvml is not None
    process = NvmlProcess(pid=4711, memory_bytes=1 << 30)
    gpus = tuple(msgspec.structs.replace(gpu, processes=(process,)) for gpu in one.nvml.gpus)
    return msgspec.structs.replace(one, nvml=msgspec.structs.replace(one.nvml, gpus=gpus))


def _unmanaged(one: Snapshot) -> Snapshot:
    files = {
        path: RecordedFile(text="unmanaged")
        if path.startswith("/sys/kernel/iommu_groups/") and path.endswith("/type")
        else file
        for path, file in one.files.items()
    }
    return msgspec.structs.replace(one, files=files)


def _guest(one: Snapshot) -> Snapshot:
    commands = tuple(
        msgspec.structs.replace(command, stdout="kvm\n", status=0)
        if command.argv[0] == "systemd-detect-virt"
        else command
        for command in one.commands
    )
    return msgspec.structs.replace(one, commands=commands)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_locked, "kernel lockdown (confidentiality)"),
        (_busy, "is in use (process 4711)"),
        (_unmanaged, "in the hands of user space"),
        (_guest, "this is a guest (kvm)"),
    ],
)
def test_a_recorded_machine_that_provokes_it(
    spoil: Callable[[Snapshot], Snapshot], reason: str, tmp_path: Path
) -> None:
    spoiled = spoil(load_snapshot(machine_file("l40s-acs")))
    path = tmp_path / "machine.json"
    path.write_bytes(msgspec.json.encode(spoiled))
    arguments = ("--snapshot", str(path), "--state-dir", str(tmp_path / "state"))
    status, document, _ = run("acs", "apply", *arguments)
    assert status == 4
    assert any(reason in one for one in reasons(document)), reasons(document)
    assert not (tmp_path / "state" / "registers.json").exists()


def test_the_recorded_node_with_a_guest_on_it(tmp_path: Path) -> None:
    status, document, _ = run("acs", "apply", "--machine", "l40s-vfio",
                              "--state-dir", str(tmp_path))  # fmt: skip
    assert status == 4
    assert any("vfio-pci" in one for one in reasons(document))


def test_a_write_that_a_recorded_kernel_drops_is_rolled_back(tmp_path: Path) -> None:
    """Forced against its refusal; by sysfs the kernel's answer is an error, by setpci silence."""
    path = tmp_path / "machine.json"
    path.write_bytes(msgspec.json.encode(_locked(load_snapshot(machine_file("l40s-acs")))))
    for method in ("setpci", "sysfs"):
        status, document, _ = run(
            "acs", "apply", "--snapshot", str(path), "--state-dir", str(tmp_path / method),
            "--force", "--reason", "a test", "--method", method,
        )  # fmt: skip
        assert status == 6
        assert "rolled back" in document["detail"]
        assert document["plan"]["forced_reason"] == "a test"
        assert not (tmp_path / method / "acs-state.json").exists()


def test_sysfs_writes_the_same_words_as_setpci(tmp_path: Path) -> None:
    found = []
    for method in ("setpci", "sysfs"):
        tree = FabricatedTree(tmp_path / method)
        add_switch(tree, group=20)
        place = ("--sysfs-root", str(tree.root), "--state-dir", str(tmp_path / f"{method}-state"))
        status, document, _ = run("acs", "apply", "--method", method, *place)
        assert (status, document["verified"]) == (0, True)
        found.append({path.parent.name: path.read_bytes()
                      for path in tree.root.glob("devices/*/config")})  # fmt: skip
        status, _, _ = run("acs", "restore", "--method", method, *place)
        assert status == 0
        assert set(tree.controls().values()) == {0x1D}
    assert found[0] == found[1]
