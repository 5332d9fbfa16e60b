"""The plan as a GRUB drop-in and as a script, run by the programs that will read them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.acs.forms import grub_drop_in, setpci_script
from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.facts.collect import collect
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.model.acs import AcsPlan, Refusal
from nodeprep.settings import Accelerators
from tests.fabricated import FabricatedTree, add_switch


@pytest.fixture
def tree(tmp_path: Path) -> FabricatedTree:
    tree = FabricatedTree(tmp_path / "tree")
    add_switch(tree, slots=4)
    return tree


def planned(tree: FabricatedTree) -> AcsPlan:
    facts = collect(FabricatedHost(tree.root), Accelerators(), names=False)
    return plan(facts, pairs=parse_pairs("all"))


def run_script(tree: FabricatedTree, folder: Path, *arguments: str) -> int:
    """Runs the script with a setpci that is pointed at the tree."""
    setpci = shutil.which("setpci")
    if setpci is None:
        pytest.skip("no setpci: install pciutils")
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    wrapper = programs / "setpci"
    wrapper.write_text(f'#!/bin/sh\nexec {setpci} -A linux-sysfs -O sysfs.path={tree.root} "$@"\n')
    wrapper.chmod(0o755)
    script = folder / "plan.sh"
    if not script.exists():
        script.write_text(setpci_script(planned(tree)))
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(["sh", str(script), *arguments], env=environment, timeout=60).returncode


def test_the_script_writes_proves_and_undoes(tree: FabricatedTree, tmp_path: Path) -> None:
    before = tree.controls()
    assert run_script(tree, tmp_path) == 0
    changed = {bdf: word for bdf, word in tree.controls().items() if word != before[bdf]}
    assert len(changed) == 4
    assert set(changed.values()) == {0x11}
    assert run_script(tree, tmp_path, "undo") == 0
    assert tree.controls() == before


def test_the_script_is_clean_shell(tree: FabricatedTree, tmp_path: Path) -> None:
    path = tmp_path / "plan.sh"
    path.write_text(setpci_script(planned(tree)))
    checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:/usr/bin")
    if checker is None:
        pytest.skip("no shellcheck")
    assert subprocess.run([checker, str(path)], timeout=60).returncode == 0


def test_a_refused_plan_gives_a_script_that_changes_nothing(
    tree: FabricatedTree, tmp_path: Path
) -> None:
    from msgspec.structs import replace

    refused = replace(
        planned(tree),
        actions=(*planned(tree).actions, Refusal(subject="x", reason="a guest owns it")),
    )
    (tmp_path / "plan.sh").write_text(setpci_script(refused))
    before = tree.controls()
    assert run_script(tree, tmp_path) == 4
    assert tree.controls() == before


def test_grub_reads_the_parameter_whole(tree: FabricatedTree, tmp_path: Path) -> None:
    wanted = planned(tree)
    path = tmp_path / "nodeprep-acs.cfg"
    path.write_text(grub_drop_in(wanted))
    told = subprocess.run(
        ["sh", "-c", f'GRUB_CMDLINE_LINUX="quiet"; . {path}; printf %s "$GRUB_CMDLINE_LINUX"'],
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    # GRUB's own script takes these quotes away; without them it would end the line at a semicolon.
    assert told == f'quiet "{wanted.kernel_parameter}"'
    assert shlex.split(told) == ["quiet", wanted.kernel_parameter]
    assert ";" in wanted.kernel_parameter


def test_nothing_to_do_needs_no_parameter() -> None:
    assert "GRUB_CMDLINE" not in grub_drop_in(AcsPlan())
