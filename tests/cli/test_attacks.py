"""What an attack on the program once reached, and must not reach again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nodeprep.errors import Exit
from nodeprep.host.machines import machine_file
from tests.fabricated import FabricatedTree, add_switch

NODEPREP = [sys.executable, "-m", "nodeprep"]


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [*NODEPREP, *arguments], capture_output=True, text=True, timeout=60, **options
    )
    assert "Traceback" not in result.stderr, result.stderr
    return result


def machine(folder: Path, change: Any, name: str = "l40s-acs") -> str:
    """A recorded machine with something changed, as a snapshot file."""
    document = json.loads(machine_file(name).read_text())
    change(document)
    path = folder / "snapshot.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def state(tmp_path: Path) -> str:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return str(folder)


def test_a_bridge_that_is_not_listed_makes_its_gpus_unknown(tmp_path: Path, state: str) -> None:
    def hide(document: Any) -> None:
        document["directories"]["/sys/bus/pci/devices"].remove("0000:42:00.0")

    snapshot = machine(tmp_path, hide)
    plan = run("acs", "plan", "--snapshot", snapshot, "--state-dir", state, "--format", "json")
    assert plan.returncode == Exit.REFUSED
    actions = json.loads(plan.stdout)["actions"]
    assert any("GPU0" in str(action.get("subject")) for action in actions)
    assert "0000:40:01.1" not in [action.get("bdf") for action in actions]
    audit = run("audit", "--snapshot", snapshot, "--state-dir", state, "--format", "json")
    assert "evidence-incomplete" in {one["id"] for one in json.loads(audit.stdout)["findings"]}


def test_a_tree_that_leads_to_hardware_is_refused(tmp_path: Path, state: str) -> None:
    for root in ("/sys/bus/pci", str(tmp_path / "tree")):
        if root != "/sys/bus/pci":
            (tmp_path / "tree" / "devices").mkdir(parents=True)
            outside = tmp_path / "outside"
            outside.mkdir()
            (tmp_path / "tree" / "devices" / "0000:01:00.0").symlink_to(outside)
        elif not any(Path(root, "devices").glob("*")):
            continue
        result = run("acs", "apply", "--sysfs-root", root, "--state-dir", state)
        assert result.returncode == Exit.REFUSED
        assert "leads out" in result.stderr


def test_names_in_a_snapshot_stay_comments(tmp_path: Path, state: str) -> None:
    def poison(document: Any) -> None:
        document["links"]["/sys/bus/pci/devices/0000:47:00.0/driver"] = "x/vfio-pci\ntouch PWNED\n#"
        release = {"text": "6.12.0-1\nGRUB_CMDLINE_LINUX=$(touch PWNED)"}
        document["files"]["/proc/sys/kernel/osrelease"] = release

    snapshot = machine(tmp_path, poison, "l40s-vfio")
    for form in ("setpci", "grub"):
        told = run("acs", "plan", "--snapshot", snapshot, "--state-dir", state, "--format", form)
        subprocess.run(["sh", "-c", told.stdout], cwd=tmp_path, timeout=60, check=False)
        assert not (tmp_path / "PWNED").exists()
        assert "\x1b" not in told.stdout


def test_a_gpu_whose_driver_does_not_tell_its_processes_is_not_touched(
    tmp_path: Path, state: str
) -> None:
    def silence(document: Any) -> None:
        for gpu in document["nvml"]["gpus"]:
            gpu["processes"] = None

    result = run("bringup", "--snapshot", machine(tmp_path, silence), "--state-dir", state)
    assert result.returncode == Exit.REFUSED
    assert not list(Path(state).glob("registers.json"))


@pytest.mark.parametrize("size", [100, 5])
def test_a_group_larger_than_the_node_frees_nothing_and_says_so(
    size: int, tmp_path: Path, state: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[serving]\ntensor_parallel = {size}\n")
    config.chmod(0o600)
    common = ("--machine", "l40s-acs", "--state-dir", state, "--config", str(config))
    for command in ("plan", "verify"):
        result = run("acs", command, *common)
        assert result.returncode == Exit.USAGE
        assert str(size) in result.stderr


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_a_snapshot_replaces_nothing_but_a_plain_file(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "link":
        target.symlink_to("/dev/null")
    else:
        target.mkdir()
    before = target.lstat().st_mode
    result = run("snapshot", "--machine", "l40s-clean", "-o", str(target))
    assert result.returncode == Exit.USAGE
    assert target.lstat().st_mode == before


@pytest.mark.parametrize("option", ["--config", "--snapshot"])
def test_a_pipe_in_the_place_of_a_file_does_not_hang(option: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert run("audit", option, str(tmp_path / "pipe")).returncode != Exit.OK


@pytest.mark.parametrize(
    "redirection", ["> /dev/full", ">&-", "2>&-", "<&-", "> /dev/full 2> /dev/full"]
)
def test_streams_that_are_closed_or_full(redirection: str) -> None:
    command = f"{sys.executable} -m nodeprep machines {redirection}"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in result.stderr
    assert result.returncode in (Exit.OK, Exit.ERROR)


def test_a_character_set_that_lacks_a_letter(state: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = run(
        "audit", "--machine", "l40s-acs", "--format", "text", "--state-dir", state, env=environment
    )
    assert result.returncode == Exit.FINDINGS


@pytest.mark.parametrize(
    "arguments",
    [
        ["--state-dir", ""],
        ["--sysfs-root", "x" * 300],
        ["--snapshot", "/" + "y/" * 3000],
    ],
)
def test_paths_that_cannot_be(arguments: list[str]) -> None:
    result = run("audit", *arguments)
    assert result.returncode == Exit.USAGE
    assert len(result.stderr.strip().splitlines()) == 1


def test_links_that_go_in_circles(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for option in ("--snapshot", "--sysfs-root"):
        result = run("audit", option, str(loop))
        assert result.returncode == Exit.ERROR
        assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    ['[accelerators]\nvendors = ["zz"]', "a = " + "[" * 100_000, '[accelerators]\nclasses = [""]'],
)
def test_a_hostile_configuration(text: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    config.chmod(0o600)
    result = run("audit", "--machine", "l40s-acs", "--config", str(config))
    assert result.returncode == Exit.USAGE


def test_numbers_out_of_all_proportion(tmp_path: Path, state: str) -> None:
    def grow(document: Any) -> None:
        document["nvml"]["gpus"][0]["memory_total_bytes"] = 10**400

    def negative(document: Any) -> None:
        document["nvml"]["pairs"][0]["a"] = -9

    for change in (grow, negative):
        result = run("audit", "--snapshot", machine(tmp_path, change), "--state-dir", state)
        assert result.returncode == Exit.ERROR


def test_being_told_to_end_ends_the_children_too(tmp_path: Path) -> None:
    """A program that hangs does not outlive nodeprep."""
    programs = tmp_path / "bin"
    programs.mkdir()
    mark = tmp_path / "pid"
    program = programs / "lspci"
    program.write_text(f"#!/bin/sh\necho $$ > {mark}\nexec sleep 300\n")
    program.chmod(0o755)
    tree = FabricatedTree(tmp_path / "tree")
    add_switch(tree, slots=2)
    process = subprocess.Popen(
        [*NODEPREP, "audit", "--sysfs-root", str(tree.root), "--format", "brief"],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not mark.exists() or not mark.read_text().strip():
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == Exit.ERROR
    assert "interrupted" in told
    child = Path(f"/proc/{mark.read_text().strip()}/stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"
