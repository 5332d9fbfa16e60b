"""The doubles as programs: what they print is what the parsers of the real ones read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nodeprep.facts.gpus import from_nvidia_smi
from nodeprep.host.live import LiveHost
from nodeprep.model.gate import NcclOutcome
from nodeprep.model.topology import P2pStatus, PathLevel
from nodeprep.parse.nccl_tests import parse_nccl
from tests.fabricated import FabricatedTree, add_switch
from tests.simulator.install import install
from tests.simulator.nccl import SIMULATED_LINE

GATE = ("-b", "8M", "-e", "64M", "-f", "2", "-g", "4", "-w", "5", "-n", "20", "-c", "1")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    fabricated = FabricatedTree(tmp_path / "tree")
    add_switch(fabricated, control=0x11)
    return fabricated.root


def play(program: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (str(program), *argv), capture_output=True, text=True, timeout=60, env={**env}
    )


@pytest.mark.parametrize("version", ["2.13.10", "2.17.9", "2.19.6"])
def test_it_says_that_it_is_simulated_and_is_read(tmp_path: Path, tree: Path, version: str) -> None:
    result = play(install(tmp_path, tree, version=version), *GATE)
    assert result.returncode == 0
    assert result.stdout.startswith(SIMULATED_LINE + "\n")
    report = parse_nccl(result.stdout)
    assert (report.outcome, report.problems, report.simulated) == (NcclOutcome.OK, (), True)
    assert set(report.channels.values()) == {"P2P/direct pointer"}


def test_it_honours_the_switches_of_nccl(tmp_path: Path, tree: Path) -> None:
    program = install(tmp_path, tree)
    for env in ({"NCCL_P2P_DISABLE": "1"}, {"NCCL_P2P_LEVEL": "LOC"}):
        report = parse_nccl(play(program, *GATE, **env).stdout)
        assert set(report.channels.values()) == {"SHM/direct/direct"}
    log = tmp_path / "nccl.%h.%p.log"
    report = parse_nccl(play(program, *GATE, NCCL_DEBUG_FILE=str(log)).stdout)
    assert report.channels == {}
    (written,) = tmp_path.glob("nccl.node-a.*.log")
    assert "via P2P/direct pointer" in written.read_text()
    pair = play(program, *GATE[:6], "-g", "2", CUDA_VISIBLE_DEVICES="1,3")
    assert [rank.bus_id for rank in parse_nccl(pair.stdout).ranks] == ["0000:44:00", "0000:46:00"]


def test_statuses_are_those_of_the_versions(tmp_path: Path, tree: Path) -> None:
    """Wrong data ends old versions with 1 and new ones with 7; an unknown option with 0."""
    old = play(install(tmp_path, tree, mode="wrong-data", version="2.13.10"), *GATE)
    new = play(install(tmp_path, tree, mode="wrong-data"), *GATE)
    assert (old.returncode, new.returncode) == (1, 7)
    option = play(install(tmp_path, tree), "-J", "x.json")
    assert (option.returncode, option.stdout.split()[0]) == (0, "invalid")
    many = play(install(tmp_path, tree), *GATE[:6], "-g", "8")
    assert (many.returncode, "only 4 were found" in many.stderr) == (5, True)


def test_nvidia_smi_is_read_by_the_collectors(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, tree, p2p="CNS")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    driver = from_nvidia_smi(LiveHost())
    assert sorted(driver.gpus) == [f"0000:{0x43 + slot:02x}:00.0" for slot in range(4)]
    assert {gpu.name for gpu in driver.gpus.values()} == {"NVIDIA L40S"}
    assert len(driver.pairs) == 6
    assert {pair.driver_level for pair in driver.pairs} == {PathLevel.PIX}
    assert {pair.p2p_read for pair in driver.pairs} == {P2pStatus.CNS}
