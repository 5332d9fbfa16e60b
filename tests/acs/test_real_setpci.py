"""The real setpci and lspci on a fabricated tree: plan, apply, verify, restore."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodeprep.acs.apply import apply
from nodeprep.acs.outcome import Unfinished
from nodeprep.acs.restore import restore
from nodeprep.acs.verify import verify
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.state import StateStore
from tests.acs.child import CountingHost, facts_of, plan_of
from tests.fabricated import FabricatedTree, add_switch, scale_tree

pytestmark = pytest.mark.skipif(
    shutil.which("setpci") is None or shutil.which("lspci") is None,
    reason="setpci and lspci are missing: install pciutils",
)
CHECKOUT = Path(__file__).parent.parent.parent
KILLS = int(os.environ.get("NODEPREP_TEST_KILLS", "25"))


@pytest.fixture
def tree(tmp_path: Path) -> FabricatedTree:
    """Two domains, a switch with four GPUs in each, words as a kernel with IOMMU sets them."""
    tree = FabricatedTree(tmp_path / "sysfs")
    add_switch(tree, domain=0)
    add_switch(tree, domain=1, control=0x5D)
    return tree


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state")


def spaces(tree: FabricatedTree) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in tree.root.glob("devices/*/config")}


def test_the_whole_life_of_a_change(tree: FabricatedTree, store: StateStore) -> None:
    host = FabricatedHost(tree.root)
    before, bytes_before = tree.controls(), spaces(tree)
    known = facts_of(host)
    found = plan_of(known)
    assert len(found.writes) == 8
    assert not found.refusals

    applied = apply(host, known, found, store)
    after = tree.controls()
    assert all(one.ok for one in applied)
    for write in found.writes:
        assert after[write.bdf] == before[write.bdf] & ~0x2C
    untouched = set(before) - {write.bdf for write in found.writes}
    assert {bdf: after[bdf] for bdf in untouched} == {bdf: before[bdf] for bdf in untouched}
    assert "0000:40:01.1" in untouched

    again = facts_of(host)
    assert verify(again, found).verified is True
    assert plan_of(again).actions == ()

    restore(host, again, store)
    assert tree.controls() == before
    assert spaces(tree) == bytes_before
    assert store.load_acs() is None


def test_only_two_bytes_of_each_port_change(tree: FabricatedTree, store: StateStore) -> None:
    host = FabricatedHost(tree.root)
    before, known = spaces(tree), facts_of(host)
    found = plan_of(known)
    apply(host, known, found, store)
    changed = {
        (bdf, offset)
        for bdf, space in spaces(tree).items()
        for offset, byte in enumerate(space)
        if byte != before[bdf][offset]
    }
    assert changed == {(write.bdf, 0x14E) for write in found.writes}


def test_lspci_sees_the_same_words(tree: FabricatedTree, store: StateStore) -> None:
    host = FabricatedHost(tree.root)
    known = facts_of(host)
    apply(host, known, plan_of(known), store)
    text = host.run(("lspci", "-vvv", "-s", "0000:42:00.0"), deadline_s=10).stdout
    assert "Downstream Port" in text
    assert "ACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl-" in text


def test_a_port_that_vanishes_under_the_write_is_no_silent_success(
    tree: FabricatedTree, store: StateStore
) -> None:
    host = FabricatedHost(tree.root)
    known = facts_of(host)
    link = tree.root / "devices/0000:42:02.0"

    def unplug(step: str) -> None:
        if step.startswith("writing 0011 to 0000:42:02.0"):
            link.rename(tree.root / "gone")

    with pytest.raises(Unfinished, match=r"NOT rolled back: 0000:42:02\.0") as caught:
        apply(host, known, plan_of(known), store, on_step=unplug)
    assert "setpci ended with status 1" in caught.value.message
    (tree.root / "gone").rename(link)
    restore(host, facts_of(host), store)
    assert set(tree.controls().values()) == {0x1D, 0x5D}


def test_eight_processes_at_once(tree: FabricatedTree, store: StateStore) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.acs.child", "apply", str(tree.root),
             str(store.state_dir)],
            cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(8)
    ]  # fmt: skip
    answers = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    assert all(child.returncode == 0 for child in children)
    assert sum(answer["written"] for answer in answers) == 8
    assert [answer for answer in answers if "error" in answer] == []
    assert plan_of(facts_of(FabricatedHost(tree.root))).actions == ()
    restore(FabricatedHost(tree.root), facts_of(FabricatedHost(tree.root)), store)
    assert set(tree.controls().values()) == {0x1D, 0x5D}


def test_kills_at_random_instants_are_all_mended(tree: FabricatedTree, store: StateStore) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.acs.child", "kill", str(tree.root), str(store.state_dir),
         str(KILLS)],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=30 + KILLS, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout)
    assert found["mended"] == found["kills"] == KILLS
    assert set(tree.controls().values()) == {0x1D, 0x5D}


def test_a_large_tree_costs_one_call_a_port(tmp_path: Path, store: StateStore) -> None:
    tree = scale_tree(tmp_path / "sysfs", 220)
    host = CountingHost(tree.root)
    known = facts_of(host)
    applied = apply(host, known, plan_of(known), store)
    assert len(applied) == len(host.calls) == 4
    assert sum(word == 0x11 for word in tree.controls().values()) == 4


def test_a_setpci_that_outlives_its_apply_is_waited_for(
    tree: FabricatedTree, store: StateStore, tmp_path: Path
) -> None:
    """kill -9 in the middle of a write that is slow: restore must not be overtaken by it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    slow = programs / "setpci"
    slow.write_text(f'#!/bin/sh\nsleep 2\nexec {shutil.which("setpci")} "$@"\n')
    slow.chmod(0o755)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.acs.child", "apply", str(tree.root), str(store.state_dir)],
        cwd=CHECKOUT, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not store.acs_file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)  # within the two seconds of the first write
    child.kill()
    child.wait()
    host = FabricatedHost(tree.root)
    restore(host, facts_of(host), store)
    time.sleep(2.5)
    assert set(tree.controls().values()) == {0x1D, 0x5D}
