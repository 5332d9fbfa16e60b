"""Every run is kept, and drift against the node's own good runs is a finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodeprep.gate.history import drift, read_history, remember
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Severity
from nodeprep.model.gate import GateResult, GateVerdict, NcclRow
from nodeprep.settings import GatePolicy
from nodeprep.state import StateStore
from tests.gate.doubles import kinds
from tests.gate.nodes import on_switch

NODE = on_switch(4)
ROW = NcclRow(
    size_bytes=512 << 20, count=None, dtype=None, redop=None, out_of_place=None, in_place=None
)


def result(
    gbps: float | None, verdict: GateVerdict = GateVerdict.PASS, **fields: Any
) -> GateResult:
    fields = {"gpus": (0, 1, 2, 3)} | fields
    return GateResult(verdict=verdict, reason="", measured_gbps=gbps, rows=(ROW,), **fields)


def keep(
    store: StateStore,
    *figures: float | None,
    node: NodeFacts = NODE,
    policy: GatePolicy | None = None,
    **fields: Any,
) -> GateResult:
    last = None
    for figure in figures:
        last = remember(store, node, result(figure, **fields), policy or GatePolicy(), "2026-01-01")
    assert last is not None
    return last


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state")


def test_every_run_is_kept(store: StateStore) -> None:
    keep(store, 24.0, 23.9)
    keep(store, None, verdict=GateVerdict.HUNG)
    runs = read_history(store).runs
    assert [run.measured_gbps for run in runs] == [24.0, 23.9, None]
    assert runs[2].verdict is GateVerdict.HUNG
    assert runs[0].max_bytes == 512 << 20


@pytest.mark.parametrize(
    ("figure", "severity"),
    [(24.2, None), (23.0, None), (22.7, Severity.WARNING), (21.5, Severity.CRITICAL)],
)
def test_drift(store: StateStore, figure: float, severity: Severity | None) -> None:
    keep(store, 24.0, 24.0, 23.9)
    last = keep(store, figure)
    assert last.drift is not None
    assert (last.drift.baseline_gbps, last.drift.runs) == (24.0, 3)
    assert [finding.severity for finding in last.findings] == ([severity] if severity else [])


def test_limits_are_a_matter_of_policy(store: StateStore) -> None:
    keep(store, 24.0, 24.0, 24.0)
    loose = GatePolicy(drift_warning=0.2, drift_critical=0.3)
    assert kinds(keep(store, 21.0, policy=loose)) == []
    assert kinds(keep(store, 15.0, policy=loose)) == ["busbw-drift"]


def test_a_slow_decline_does_not_move_the_baseline(store: StateStore) -> None:
    keep(store, 24.0, 24.0, 24.0)
    for figure in (22.5, 22.4, 22.3, 22.2, 22.1):
        last = keep(store, figure)
        assert last.drift is not None
        assert last.drift.baseline_gbps == 24.0


def test_only_like_is_compared(store: StateStore) -> None:
    keep(store, 24.0, 24.0, 24.0)
    assert keep(store, 10.0, simulated=True).drift is None
    assert keep(store, 10.0, source="torch").drift is None
    other = replace(NODE, gpus=NODE.gpus[:2])
    assert keep(store, 10.0, node=other).drift is None
    assert drift((), read_history(store).runs[0]) is None


def test_too_few_runs_are_no_baseline(store: StateStore) -> None:
    keep(store, 24.0, 24.0)
    assert keep(store, 10.0).drift is None


def test_a_folder_that_cannot_be_used_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    kept = keep(StateStore(tmp_path / "file"), 24.0)
    assert kept.verdict is GateVerdict.PASS
    assert any("not kept" in warning for warning in kept.warnings)


@pytest.mark.parametrize("content", ["", "{", '{"schema":"other/9","runs":[]}', "[" * 5000])
def test_a_damaged_history_is_told_and_left_alone(store: StateStore, content: str) -> None:
    keep(store, 24.0)
    file = store.state_dir / "history" / "gate.json"
    file.write_text(content)
    kept = keep(store, 24.0)
    assert any("not kept" in warning for warning in kept.warnings)
    assert file.read_text() == content
