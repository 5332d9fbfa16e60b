"""Every machine that ships, replayed whole against the expectation beside it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest

from nodeprep.acs.restore import restore
from nodeprep.bringup import BringupOptions, bring_up
from nodeprep.facts.collect import collect
from nodeprep.host.machines import machine_file, machine_names
from nodeprep.host.replay import ReplayHost, load_snapshot
from nodeprep.model.acs import AcsWrite, Refusal
from nodeprep.model.finding import Severity
from nodeprep.model.report import Report
from nodeprep.model.topology import level_label
from nodeprep.model.tree import PciTree
from nodeprep.settings import DEFAULT_CONFIG, Accelerators, Settings, parse_settings
from nodeprep.state import StateStore
from tests.machines.catalogue import MACHINES_BUILT
from tests.machines.make import encode, record

TODAY = date(2026, 11, 1)


class Expectation(msgspec.Struct, forbid_unknown_fields=True):
    """What is right for a machine, written by hand from the facts that its notes name."""

    exit_status: int
    verdict: str
    restores: bool
    findings: list[str]
    """Ids at warning and above, best first; `subjects` are theirs."""
    resolved: list[str]
    subjects: list[str]
    notes: list[str]
    """Ids at info."""
    refusals: list[str]
    levels: list[str]
    writes: dict[str, str]
    transports: list[str]
    """What NCCL's log names in the gate's run, in alphabetical order."""
    gate: str | None = None
    """None: the gate does not run."""
    mark: str | None = None
    """Where the gate's threshold comes from."""
    mark_gbps: float | None = None


def expectation(name: str) -> Expectation:
    path = machine_file(name).with_suffix(".expect.toml")
    return msgspec.toml.decode(path.read_bytes(), type=Expectation)


class Replayed:
    """One machine with a state folder of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        snapshot = load_snapshot(machine_file(name))
        self.store = StateStore(folder)
        self.host = ReplayHost(snapshot, folder / "registers.json")
        self.settings: Settings = parse_settings(self.host.read_text(str(DEFAULT_CONFIG)), name)
        self.out = folder / "out"

    def bring_up(self) -> Report:
        options = BringupOptions(out_dir=self.out, today=TODAY)
        return bring_up(self.host, self.settings, self.store, options)

    def words(self) -> dict[str, str | None]:
        facts = collect(self.host, Accelerators())
        return {
            bdf: None if one.acs is None else f"{int(one.acs.control):04x}"
            for bdf, one in facts.functions.items()
        }


@pytest.fixture(params=machine_names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def replayed(name: str, tmp_path: Path) -> Replayed:
    tmp_path.chmod(0o700)
    return Replayed(name, tmp_path)


def test_every_built_machine_ships_and_nothing_else() -> None:
    assert {machine.name for machine in MACHINES_BUILT} == set(machine_names())


@pytest.mark.parametrize("machine", MACHINES_BUILT, ids=lambda machine: machine.name)
def test_the_file_is_what_the_builder_makes(machine: object) -> None:
    built = next(one for one in MACHINES_BUILT if one is machine)
    assert machine_file(built.name).read_bytes() == encode(record(built)), (
        "the builder changed: run scripts/build-machines"
    )


def test_a_shipped_machine_says_that_it_is_constructed(name: str) -> None:
    snapshot = load_snapshot(machine_file(name))
    assert snapshot.constructed
    assert any("constructed from public facts" in note for note in snapshot.notes)
    assert all(
        command.simulated and command.stdout.startswith("# SIMULATED")
        for command in snapshot.commands
        if "all_reduce_perf" in command.argv[0]
    )


def test_levels_from_the_tree(name: str, replayed: Replayed) -> None:
    facts = collect(replayed.host, Accelerators())
    tree = PciTree(facts.functions)
    rows = [" ".join(level_label(tree.level(a.bdf, b.bdf)) for b in facts.gpus) for a in facts.gpus]
    assert rows == expectation(name).levels


def test_bringup(name: str, replayed: Replayed) -> None:
    expected = expectation(name)
    before = replayed.words()
    report = replayed.bring_up()
    told = [one for one in report.findings if one.severity is not Severity.INFO]
    assert report.exit_status == expected.exit_status, report.reasons
    assert report.verdict.value == expected.verdict
    assert [one.id for one in told] == expected.findings
    assert [one.subject for one in told] == expected.subjects
    assert [one.id for one in report.findings if one.resolved] == expected.resolved
    notes = [one.id for one in report.findings if one.severity is Severity.INFO]
    assert notes == expected.notes
    assert (report.gate.verdict.value if report.gate else None) == expected.gate
    assert (report.gate.threshold_source if report.gate else None) == expected.mark
    assert (report.gate.threshold_gbps if report.gate else None) == expected.mark_gbps
    used = report.gate.transports.values() if report.gate else ()
    assert sorted({name.partition("/")[0] for name in used}) == expected.transports
    assert report.simulated
    assert replayed.store.read_ready() is None
    changed = {
        bdf: f"{before[bdf]} -> {word}"
        for bdf, word in replayed.words().items()
        if word != before[bdf]
    }
    assert changed == (expected.writes if expected.restores else {})


def test_plan(name: str, replayed: Replayed) -> None:
    expected = expectation(name)
    report = replayed.bring_up()
    planned = {
        action.bdf: f"{action.before} -> {action.after}"
        for action in report.acs.actions
        if isinstance(action, AcsWrite)
    }
    refused = [action.subject for action in report.acs.actions if isinstance(action, Refusal)]
    assert planned == expected.writes
    assert refused == expected.refusals


def test_restore_brings_every_register_back(name: str, replayed: Replayed) -> None:
    before = replayed.words()
    replayed.bring_up()
    restored = restore(replayed.host, collect(replayed.host, Accelerators()), replayed.store)
    assert bool(restored) is expectation(name).restores
    assert replayed.words() == before


def test_a_second_bringup_changes_nothing(name: str, replayed: Replayed) -> None:
    replayed.bring_up()
    words = replayed.words()
    again = replayed.bring_up()
    assert again.acs.applied == ()
    assert replayed.words() == words
