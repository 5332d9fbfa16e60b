"""`gate --gpus`: a part of the node, held against its own class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click import BadParameter
from click.testing import CliRunner

from nodeprep.cli.gate import command
from nodeprep.cli.options import gpu_list
from nodeprep.errors import Exit
from tests.gate.doubles import DoubledNode
from tests.simulator.install import install


def gate(node: DoubledNode, *arguments: str) -> tuple[int, dict[str, Any]]:
    program = install(node.folder, node.tree.root)
    result = CliRunner(env={"NODEPREP_ALLOW_SIMULATED": "1"}).invoke(
        command,
        ["--sysfs-root", str(node.tree.root), "--state-dir", str(node.folder / "state"),
         "--binary", str(program), "--format", "json", *arguments],
        standalone_mode=False,
    )  # fmt: skip
    assert result.exception is None, result.exception
    return result.return_value, json.loads(result.stdout)


def test_only_these_are_measured(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    status, found = gate(node, "--gpus", "2-3")
    assert (status, found["verdict"], found["gpus"]) == (Exit.OK, "pass", [2, 3])
    [kept] = json.loads((tmp_path / "state/history/gate.json").read_text())["runs"]
    assert len(kept["gpus"]) == 2


def test_all_are_measured_unless_told(tmp_path: Path) -> None:
    status, found = gate(DoubledNode(tmp_path))
    assert (status, found["gpus"]) == (Exit.OK, [0, 1, 2, 3])


def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    status, found = gate(DoubledNode(tmp_path), "--gpus", "2-4")
    assert status == Exit.UNVERIFIED
    assert found["verdict"] == "precondition"
    assert "no GPU 4 here: 4 were found" in found["reason"]


@pytest.mark.parametrize(
    ("text", "indices"),
    [("0", (0,)), ("3,1", (1, 3)), ("0-3", (0, 1, 2, 3)), ("4-5, 0,0", (0, 4, 5))],
)
def test_lists(text: str, indices: tuple[int, ...]) -> None:
    assert gpu_list(text) == indices


@pytest.mark.parametrize("text", ["", ",", "a", "3-1", "-1", "0-1000", "0--1", "1;2", "٣"])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(BadParameter, match="0-3"):
        gpu_list(text)
