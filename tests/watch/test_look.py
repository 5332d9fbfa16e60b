"""One look after another at a fabricated tree: what comes back, what is lost, what is done."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from nodeprep.host.fabricated import FabricatedHost
from nodeprep.model.facts import Origin
from nodeprep.model.readings import CommandResult, NvmlGpu, NvmlReading
from nodeprep.settings import AcsPolicy, Settings
from nodeprep.state import StateStore
from nodeprep.watch.look import Looker
from tests.fabricated import FabricatedTree, add_switch

pytestmark = pytest.mark.skipif(
    shutil.which("setpci") is None, reason="setpci is missing: install pciutils"
)
PORTS = [f"0000:42:0{slot}.0" for slot in range(4)]
GPUS = [f"0000:4{slot + 3}:00.0" for slot in range(4)]
BOOT = "0b5e0f3e-0000-4000-8000-000000000000"


class Node(FabricatedHost):
    """A fabricated tree that has a driver and takes orders for units."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.known: list[str] = []
        self.units: list[tuple[str, ...]] = []

    def nvml(self) -> NvmlReading:
        if not self.known:
            return super().nvml()
        gpus = tuple(NvmlGpu(bus_id=f"0000{bdf}", name="NVIDIA L40S") for bdf in self.known)
        return NvmlReading(driver_version="570.1", gpus=gpus, pairs=())


class Live(Node):
    """The same, called a live node: units may be stopped."""

    @property
    def is_root(self) -> bool | None:
        return True

    def run(self, argv, *, deadline_s, env=None):  # type: ignore[no-untyped-def]
        if argv[0] == "systemctl":
            self.units.append(tuple(argv))
            return CommandResult(argv=tuple(argv), status=0, stdout="", stderr="")
        return super().run(argv, deadline_s=deadline_s, env=env)


@pytest.fixture
def tree(tmp_path: Path) -> FabricatedTree:
    tree = FabricatedTree(tmp_path / "sysfs")
    add_switch(tree)
    return tree


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state", tmp_path / "run")


def looker(host: FabricatedHost, store: StateStore, **policy: str) -> Looker:
    settings = Settings(acs=AcsPolicy(**policy))  # type: ignore[arg-type]
    return Looker(host, settings, store, lambda: date(2027, 1, 31))


def vanish(tree: FabricatedTree, bdf: str) -> None:
    (tree.root / "devices" / bdf).unlink()


def rearm(tree: FabricatedTree, *ports: str) -> None:
    for port in ports:
        path = tree.root / "devices" / port / "config"
        space = bytearray(path.read_bytes())
        space[0x14E:0x150] = (0x1D).to_bytes(2, "little")
        path.write_bytes(space)


def test_the_first_look_applies_and_the_next_finds_it_done(
    tree: FabricatedTree, store: StateStore
) -> None:
    one = looker(FabricatedHost(tree.root), store)
    first = one.look("start")
    assert (first.gpus, first.paths_free, first.lost) == (4, True, ())
    assert len(first.actions) == 4
    second = one.look("interval")
    assert (second.actions, second.acs) == ((), "no GPU path redirects")


def test_what_came_back_is_written_again_and_counted(
    tree: FabricatedTree, store: StateStore
) -> None:
    one = looker(FabricatedHost(tree.root), store)
    one.look("start")
    rearm(tree, PORTS[1])
    report = one.look("event")
    assert report.actions == (f"wrote 0011 to {PORTS[1]} (001d)",)
    assert tree.control(PORTS[1]) == 0x11
    assert [finding.id for finding in report.findings] == ["acs-rearmed"]


def test_a_policy_of_never_only_tells_and_takes_the_stamp(
    tree: FabricatedTree, store: StateStore
) -> None:
    store.write_ready(BOOT)
    report = looker(FabricatedHost(tree.root), store, reapply="never").look("event")
    assert not report.paths_free
    assert "acs.reapply is never" in report.acs
    assert report.actions == ("removed the ready stamp: GPU paths redirect",)
    assert store.read_ready() is None
    assert tree.control(PORTS[0]) == 0x1D


def test_a_write_that_is_refused_takes_the_stamp(tree: FabricatedTree, store: StateStore) -> None:
    tree.host_json(lockdown="integrity")
    store.write_ready(BOOT)
    report = looker(FabricatedHost(tree.root), store).look("event")
    assert "kernel lockdown (integrity)" in report.acs
    assert (report.paths_free, store.read_ready()) == (False, None)
    assert tree.control(PORTS[0]) == 0x1D


def test_paths_that_are_free_leave_the_stamp(tree: FabricatedTree, store: StateStore) -> None:
    one = looker(FabricatedHost(tree.root), store)
    one.look("start")
    store.write_ready(BOOT)
    one.look("interval")
    assert store.read_ready() == BOOT


def _gone(tree: FabricatedTree, host: Node) -> None:
    vanish(tree, GPUS[2])


def _silent(tree: FabricatedTree, host: Node) -> None:
    path = tree.root / "devices" / GPUS[2] / "config"
    path.write_bytes(b"\xff" * 4096)


def _taken(tree: FabricatedTree, host: Node) -> None:
    driver = tree.root / "devices" / GPUS[2] / "driver"
    driver.symlink_to("../../bus/pci/drivers/vfio-pci")


def _unknown(tree: FabricatedTree, host: Node) -> None:
    host.known.remove(GPUS[2])


@pytest.mark.parametrize(
    ("spoil", "how"),
    [
        (_gone, "gone from the bus"),
        (_silent, "fallen off the bus"),
        (_taken, "no longer this node's: driver vfio-pci"),
        (_unknown, "the driver has lost it"),
    ],
)
def test_a_lost_gpu_takes_the_stamp_and_stops_what_serves(
    tree: FabricatedTree, store: StateStore, spoil: object, how: str
) -> None:
    host = Live(tree.root)
    host.known = list(GPUS)
    one = looker(host, store)
    one.look("start")
    store.write_ready(BOOT)
    host.origin = Origin.LIVE
    assert callable(spoil)
    spoil(tree, host)
    report = one.look("event")
    assert len(report.lost) == 1
    assert how in report.lost[0]
    assert GPUS[2] in report.lost[0]
    assert store.read_ready() is None
    assert host.units == [("systemctl", "--no-block", "stop", "nodeprep-ready.target")]
    again = one.look("interval")
    assert (again.lost, len(host.units)) == (report.lost, 1), "told once, and not forgotten"


def test_a_gpu_that_comes_back_does_not_make_the_node_ready(
    tree: FabricatedTree, store: StateStore
) -> None:
    one = looker(FabricatedHost(tree.root), store)
    one.look("start")
    link = tree.root / "devices" / GPUS[2]
    target = link.readlink()
    vanish(tree, GPUS[2])
    assert one.look("event").gpus == 3
    link.symlink_to(target)
    assert len(one.look("event").lost) == 1


def test_a_driver_that_is_reloaded_has_lost_nothing(
    tree: FabricatedTree, store: StateStore
) -> None:
    host = Node(tree.root)
    host.known = list(GPUS)
    one = looker(host, store)
    one.look("start")
    host.known = []
    assert one.look("event").lost == ()


def test_a_driver_that_comes_later_is_then_what_is_known(
    tree: FabricatedTree, store: StateStore
) -> None:
    host = Node(tree.root)
    one = looker(host, store)
    one.look("start")
    host.known = list(GPUS)
    one.look("event")
    host.known.remove(GPUS[0])
    assert "the driver has lost it" in one.look("event").lost[0]
