"""Every verdict in a real process, and nothing left of it."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path

import pytest

from nodeprep.gate.run import GateRequest, run_gate
from nodeprep.model.gate import GateVerdict
from tests.gate.doubles import CLEAR, REDIRECTING, DoubledNode, processes_of, quick
from tests.simulator.install import install


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, empty at first."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_good_node_passes(tmp_path: Path, scratch: Path) -> None:
    node = DoubledNode(tmp_path)
    result = node.gate()
    assert (result.verdict, result.measured_gbps) == (GateVerdict.PASS, 24.0)
    assert result.simulated
    assert result.transports == {f"{a}->{(a + 1) % 4}": "P2P/direct pointer" for a in range(4)}
    assert [(one.a, one.b, one.level) for one in result.neighbours] == [
        (0, 1, "PIX"), (0, 3, "PIX"), (1, 2, "PIX"), (2, 3, "PIX"),
    ]  # fmt: skip
    assert all(one.redirecting == () for one in result.neighbours)
    assert list(scratch.iterdir()) == []
    assert processes_of(tmp_path) == []


def test_the_registers_decide_and_clearing_restores(tmp_path: Path) -> None:
    """Redirection under one switch makes all flows climb and share the root port."""
    redirected = DoubledNode(tmp_path, control=REDIRECTING).gate()
    assert (redirected.verdict, redirected.measured_gbps) == (GateVerdict.FAIL_BANDWIDTH, 6.0)
    assert "ACS redirects at 0000:42:00.0" in redirected.reason
    clear_folder = tmp_path / "clear"
    clear_folder.mkdir()
    clear = DoubledNode(clear_folder, control=CLEAR).gate()
    assert (clear.verdict, clear.measured_gbps) == (GateVerdict.PASS, 24.0)


def test_simulated_output_is_refused_by_default(tmp_path: Path) -> None:
    result = DoubledNode(tmp_path).gate(request={"allow_simulated": False})
    assert result.verdict is GateVerdict.INVALID_OUTPUT
    assert "simulated" in result.reason


@pytest.mark.parametrize(
    ("mode", "verdict", "words"),
    [
        ("wrong-data", GateVerdict.WRONG_DATA, "192 values"),
        ("crash", GateVerdict.CRASHED, "illegal memory access"),
        ("abort", GateVerdict.CRASHED, "signal 6"),
        ("not-initialized", GateVerdict.CRASHED, "nvidia-fabricmanager"),
        ("busy", GateVerdict.CRASHED, "occupied"),
        ("unknown-option", GateVerdict.INVALID_OUTPUT, "invalid option"),
        ("truncated", GateVerdict.INVALID_OUTPUT, "no footer"),
        ("too-few-gpus", GateVerdict.PRECONDITION, "only 3 were found"),
        ("no-library", GateVerdict.NO_BINARY, "libnccl"),
        ("hang", GateVerdict.HUNG, "no row came for 1 s"),
        ("silent-mid-run", GateVerdict.HUNG, "after 2 rows"),
    ],
)
def test_what_goes_wrong(
    tmp_path: Path, scratch: Path, mode: str, verdict: GateVerdict, words: str
) -> None:
    silence_s = {"hang": 1.0, "silent-mid-run": 5.0}.get(mode, 30.0)
    policy = quick(silence_s=silence_s)
    result = DoubledNode(tmp_path).gate(mode, policy=policy)
    assert (result.verdict, result.measured_gbps) == (verdict, None)
    assert words in result.reason
    assert list(scratch.iterdir()) == []
    assert processes_of(tmp_path) == []


def test_wrong_data_of_an_old_version(tmp_path: Path) -> None:
    """It ends with 1 where new ones end with 7."""
    result = DoubledNode(tmp_path).gate("wrong-data", version="2.13.10")
    assert result.verdict is GateVerdict.WRONG_DATA


def test_wrong_transport(tmp_path: Path) -> None:
    """The driver denies what the tree allows: pair, peer status and ACS state are named."""
    result = DoubledNode(tmp_path).gate(p2p="CNS")
    assert result.verdict is GateVerdict.FAIL_TRANSPORT
    assert (
        "[GPU0-GPU1 GPU0-GPU3 GPU1-GPU2 GPU2-GPU3 SHM/direct/direct, peer status not known, "
        in (result.reason)
    )
    assert "no ACS redirection on the way]" in result.reason
    allowed = DoubledNode(fresh(tmp_path)).gate(p2p="CNS", request={"min_busbw_gbps": 1.0})
    assert allowed.verdict is GateVerdict.PASS
    assert any("unexpected transport" in warning for warning in allowed.warnings)


def test_no_threshold(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path, speed_gts=5.0, max_speed_gts=5.0)
    result = node.gate()
    assert (result.verdict, result.measured_gbps) == (GateVerdict.NO_THRESHOLD, 6.0)


def test_one_gpu_is_not_applicable(tmp_path: Path) -> None:
    assert DoubledNode(tmp_path, slots=1).gate().verdict is GateVerdict.NOT_APPLICABLE


def test_no_binary(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    result = node.gate(request={"binary": str(tmp_path / "nowhere")})
    assert result.verdict is GateVerdict.NO_BINARY
    searched = node.gate(policy=quick(binaries=(), torch_python=()), request={"binary": None})
    assert searched.verdict is GateVerdict.NO_BINARY


@pytest.mark.parametrize("mode", ["ignore-term", "fork", "new-session"])
def test_a_hang_that_ignores_term_is_over_in_limit_and_15_s(
    tmp_path: Path, scratch: Path, mode: str
) -> None:
    """The leader of `fork` dies of TERM, its child ignores it, or even left the session; no process
    and no file stays."""
    limit_s = 1.5
    started = time.monotonic()
    result = DoubledNode(tmp_path).gate(mode, policy=quick(deadline_s=limit_s))
    took = time.monotonic() - started
    assert result.verdict is GateVerdict.HUNG
    assert result.survivors == ()
    assert took < limit_s + 15
    assert processes_of(tmp_path) == []
    assert list(scratch.iterdir()) == []


def test_a_program_that_leaves_a_child_behind(tmp_path: Path) -> None:
    """It ends with a whole table; its child is ended with it."""
    node = DoubledNode(tmp_path)
    program = tmp_path / "leaves_a_child"
    inner = node.gate("ok").binary
    program.write_text(f'#!/bin/sh\nsleep 300 {tmp_path}/x >/dev/null 2>&1 &\nexec {inner} "$@"\n')
    program.chmod(0o755)
    started = time.monotonic()
    assert node.again(program).verdict is GateVerdict.PASS
    assert time.monotonic() - started < 12
    assert processes_of(tmp_path) == []


def test_the_folder_for_the_log_is_private(tmp_path: Path, scratch: Path) -> None:
    node = DoubledNode(tmp_path)
    program = tmp_path / "looks_around"
    inner = node.gate("ok").binary
    seen = tmp_path / "seen"
    program.write_text(
        f'#!/bin/sh\nstat -c "%a %u" "$(dirname "$NCCL_DEBUG_FILE")" > {seen}\nexec {inner} "$@"\n'
    )
    program.chmod(0o755)
    node.again(program)
    assert seen.read_text().split() == ["700", str(os.geteuid())]
    assert stat.S_IMODE(scratch.stat().st_mode)


def test_waiting_for_a_fabric_that_comes_up(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    patient = quick(wait_s=60.0, retry_every_s=0.1)
    result = node.gate("not-initialized", times=2, policy=patient)
    assert result.verdict is GateVerdict.PASS
    for mode in ("not-initialized", "busy"):
        never = node.gate(mode, policy=quick(wait_s=2.0, retry_every_s=0.1))
        assert never.verdict is GateVerdict.CRASHED
        assert 1 <= runs_of(tmp_path) <= 20


def test_a_dip_does_not_fail_a_node(tmp_path: Path) -> None:
    """The median of three decides; two equal verdicts decide without a third."""
    node = DoubledNode(tmp_path)
    dip = node.gate(slow_runs=[0.5])
    assert (dip.verdict, dip.measured_gbps) == (GateVerdict.PASS, 24.0)
    assert [run.verdict.value for run in dip.runs] == ["fail-bandwidth", "pass", "pass"]
    low = node.gate(slow_runs=[0.5, 0.6, 0.5])
    assert (low.verdict, len(low.runs)) == (GateVerdict.FAIL_BANDWIDTH, 2)
    once = node.gate(slow_runs=[0.5], policy=quick(repeats=0))
    assert (once.verdict, len(once.runs)) == (GateVerdict.FAIL_BANDWIDTH, 1)


def test_no_run_is_begun_that_might_end_too_late(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    short = quick(total_s=70.0)
    both = {"two_arms": True, "diagnose": True}
    result = node.gate(slow_runs=[0.5], policy=short, request=both)
    assert (result.verdict, len(result.runs)) == (GateVerdict.FAIL_BANDWIDTH, 1)
    assert runs_of(tmp_path) > 1  # the pairs, whose own limit is shorter


@pytest.mark.parametrize("mode", ["wrong-data", "abort", "unknown-option", "too-few-gpus"])
def test_what_is_final_is_not_tried_again(tmp_path: Path, mode: str) -> None:
    DoubledNode(tmp_path).gate(mode, policy=quick(wait_s=5.0))
    assert runs_of(tmp_path) == 1


def test_rows_are_told_as_they_come(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    program = install(tmp_path, node.tree.root, takes_s=1.4)
    told: list[tuple[float, str]] = []

    def tell(text: str) -> None:
        told.append((time.monotonic(), text))

    request = GateRequest(binary=str(program), allow_simulated=True)
    run_gate(node.host, node.facts, (0, 1, 2, 3), quick(), request, tell)
    assert told[0][1].startswith("8 MiB: ")
    assert told[-1][1] == "512 MiB: 24.00 GB/s"
    assert told[-1][0] - told[0][0] > 0.8


def runs_of(folder: Path) -> int:
    return int((folder / "double.runs").read_text())


def fresh(folder: Path) -> Path:
    inside = folder / "fresh"
    inside.mkdir()
    return inside
