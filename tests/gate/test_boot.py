"""The gate inside a boot run: veto, findings and history reach report, files and state folder."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from nodeprep.bringup import BringupOptions, bring_up
from nodeprep.errors import Exit
from nodeprep.gate.history import read_history
from nodeprep.host.machines import machine_file
from nodeprep.host.replay import ReplayHost, load_snapshot
from nodeprep.model.report import NodeVerdict, Report
from nodeprep.model.snapshot import Missing
from nodeprep.settings import GatePolicy, ServingPolicy, Settings
from nodeprep.state import StateStore
from tests.gate.doubles import CLEAR, DoubledNode, quick
from tests.simulator.install import install

MODEL = "llama-3.1-8b"


def boot(node: DoubledNode, program: Path, policy: GatePolicy) -> tuple[Report, StateStore]:
    store = StateStore(node.folder / "state")
    settings = Settings(gate=policy)
    options = BringupOptions(
        out_dir=node.folder / "rendered", today=date(2026, 1, 1), binary=str(program),
        allow_simulated=True,
    )  # fmt: skip
    return bring_up(node.host, settings, store, options), store


def test_a_veto_is_published_and_the_node_is_not_ready(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    program = install(tmp_path, node.tree.root, mode="crash", only_p2p=True)
    report, store = boot(node, program, quick(diagnose=False))
    assert report.gate is not None
    assert report.gate.veto is not None
    assert (report.verdict, report.exit_status) == (NodeVerdict.NOT_READY, Exit.GATE_FAILED)
    (kept,) = read_history(store).runs
    assert kept.veto == report.gate.veto


def test_the_files_of_a_vetoed_node_say_so(tmp_path: Path) -> None:
    """A recorded node that hangs with peer-to-peer and works without: both arms are replayed."""
    recorded = load_snapshot(machine_file("l40s-clean"))
    run = next(one for one in recorded.commands if one.argv[0].endswith("all_reduce_perf"))
    others = tuple(one for one in recorded.commands if one.argv != run.argv)
    arms = (
        replace(run, error=Missing.TIMED_OUT, while_registers={}),
        replace(run, env={"NCCL_P2P_DISABLE": "1"}, while_registers={}),
    )
    host = ReplayHost(replace(recorded, commands=(*others, *arms)), tmp_path / "registers.json")
    serving = ServingPolicy(model=MODEL, vllm_version="0.11.2")
    options = BringupOptions(out_dir=tmp_path / "rendered", today=date(2026, 1, 1))
    report = bring_up(host, Settings(serving=serving), StateStore(tmp_path), options)
    assert report.gate is not None
    assert report.gate.veto is not None
    assert (report.verdict, report.exit_status) == (NodeVerdict.NOT_READY, Exit.GATE_FAILED)
    env = {knob.name: knob.value for knob in report.knobs}
    assert env["NCCL_P2P_DISABLE"] == "1"
    assert env["disable-custom-all-reduce"] is True
    written = "".join(path.read_text() for path in map(Path, report.rendered))
    assert "NCCL_P2P_DISABLE=1" in written
    assert "--disable-custom-all-reduce" in written or "disable-custom-all-reduce: true" in written


def test_findings_of_the_gate_are_findings_of_the_report(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path, control=CLEAR)
    program = install(tmp_path, node.tree.root, mode="wrong-data", only_p2p=True)
    report, _ = boot(node, program, quick())
    assert "p2p-false-grant" in [finding.id for finding in report.findings]
    assert report.exit_status == Exit.GATE_FAILED


def test_drift_ends_a_boot_run(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    low = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.85]
    program = install(tmp_path, node.tree.root, slow_runs=low)
    policy = quick(repeats=0, min_busbw_gbps=5.0)
    for _ in range(3):
        good, _ = boot(node, program, policy)
        assert good.exit_status == Exit.OK
    report, _ = boot(node, program, policy)
    assert report.gate is not None
    assert report.gate.drift is not None
    assert report.gate.drift.change == -0.15
    assert report.exit_status == Exit.FINDINGS
    assert report.verdict is NodeVerdict.NOT_READY


def test_the_gate_costs_half_a_second_of_cpu_at_most(tmp_path: Path) -> None:
    """Around a program that runs for a second: start to verdict, this process alone."""
    node = DoubledNode(tmp_path)
    node.gate()
    began, cpu = time.monotonic(), time.process_time()
    result = node.gate(takes_s=1.0)
    assert result.duration_s is not None
    assert result.duration_s > 1.0
    assert time.process_time() - cpu < 0.5
    assert time.monotonic() - began < 30
