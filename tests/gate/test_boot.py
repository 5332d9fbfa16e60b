"""The gate inside a boot run: veto, findings and history reach report, files and state folder."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodeprep.bringup import BringupOptions, bring_up
from nodeprep.errors import Exit, UsageError
from nodeprep.gate.history import read_history
from nodeprep.host.machines import machine_file
from nodeprep.host.replay import ReplayHost, load_snapshot
from nodeprep.model.gate import GateVerdict
from nodeprep.model.report import NodeVerdict, Report
from nodeprep.model.snapshot import Missing
from nodeprep.settings import GatePolicy, ServingPolicy, Settings
from nodeprep.state import StateStore
from tests.fabricated import add_switch
from tests.gate.doubles import CLEAR, REDIRECTING, DoubledNode, quick
from tests.simulator.install import install

MODEL = "llama-3.1-8b"


def boot(
    node: DoubledNode, program: Path, policy: GatePolicy, serving: ServingPolicy | None = None
) -> tuple[Report, StateStore]:
    store = StateStore(node.folder / "state")
    settings = Settings(gate=policy, serving=serving or ServingPolicy())
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


def two_switches(folder: Path) -> DoubledNode:
    """Four GPUs below one switch, four below another, of another socket."""
    node = DoubledNode(folder, host={"sockets": 2}, numa_node=0)
    add_switch(node.tree, bus=0x80, control=CLEAR, numa_node=1)
    return node


GROUPS = ServingPolicy(groups=2, tensor_parallel=4)


def test_each_servers_own_gpus_are_measured(tmp_path: Path) -> None:
    """Over both sockets less is asked than below one switch: the whole node tells little."""
    node = two_switches(tmp_path)
    report, store = boot(node, install(tmp_path, node.tree.root), quick(), GROUPS)
    assert report.exit_status == Exit.OK, report.reasons
    assert [one.gpus for one in report.gate_groups] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert report.gate is not None
    for one in report.gate_groups:
        assert (one.measured_gbps, one.threshold_gbps) == (24.0, 22.0)
        assert report.gate.threshold_gbps is not None
        assert report.gate.threshold_gbps < 22.0
    assert [len(run.gpus) for run in read_history(store).runs] == [8, 4, 4]
    stage = next(one for one in report.stages if one.name == "gate-groups")
    assert "GPU0-GPU3 pass" in stage.detail
    assert "GPU4-GPU7 pass" in stage.detail


def test_a_slow_group_fails_the_node(tmp_path: Path) -> None:
    """12 GB/s is enough between two sockets, and half of what is asked below one switch."""
    node = two_switches(tmp_path)
    program = install(tmp_path, node.tree.root, slow_runs=[1.0, 1.0, 0.5])
    policy = quick(repeats=0, diagnose=False, two_arms=False)
    report, _ = boot(node, program, policy, GROUPS)
    assert report.gate is not None
    assert report.gate.verdict is GateVerdict.PASS
    assert [one.verdict for one in report.gate_groups] == [
        GateVerdict.PASS, GateVerdict.FAIL_BANDWIDTH,
    ]  # fmt: skip
    assert (report.verdict, report.exit_status) == (NodeVerdict.NOT_READY, Exit.GATE_FAILED)
    [reason] = report.reasons
    assert reason.startswith("gate-groups: GPU4-GPU7: fail-bandwidth: 12.00 GB/s")


def test_one_server_of_some_gpus_has_its_group_measured(tmp_path: Path) -> None:
    node = two_switches(tmp_path)
    serving = ServingPolicy(tensor_parallel=4)
    report, _ = boot(node, install(tmp_path, node.tree.root), quick(), serving)
    assert [one.gpus for one in report.gate_groups] == [(0, 1, 2, 3)]


def test_one_server_of_all_gpus_is_measured_once(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    report, _ = boot(node, install(tmp_path, node.tree.root), quick())
    assert report.gate_groups == ()
    assert "gate-groups" not in [one.name for one in report.stages]


@pytest.mark.parametrize(
    ("serving", "told"),
    [
        (ServingPolicy(groups=3, tensor_parallel=2), "3 groups of 2 GPUs"),
        (ServingPolicy(tensor_parallel=8), "tensor parallel 8"),
    ],
)
def test_what_cannot_be_served_is_told_before_anything_is_changed(
    tmp_path: Path, serving: ServingPolicy, told: str
) -> None:
    node = DoubledNode(tmp_path, control=REDIRECTING)
    with pytest.raises(UsageError, match=told):
        boot(node, install(tmp_path, node.tree.root), quick(), serving)
    words = {one.acs.control for one in node.facts.functions.values() if one.acs is not None}
    assert words == {REDIRECTING}
    assert not (tmp_path / "rendered").exists()
