"""Peer-to-peer on and off: the veto, and who obeys it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.serving.tune import tune
from tests.gate.doubles import REDIRECTING, DoubledNode, quick
from tests.serving import cases

BOTH = {"two_arms": True}


@pytest.mark.parametrize(
    ("mode", "verdict", "words"),
    [
        ("hang", GateVerdict.HUNG, "hung"),
        ("wrong-data", GateVerdict.WRONG_DATA, "wrong values"),
        ("crash", GateVerdict.CRASHED, "crashed"),
    ],
)
def test_a_fault_of_peer_to_peer_alone_is_a_veto(
    tmp_path: Path, mode: str, verdict: GateVerdict, words: str
) -> None:
    policy = quick(silence_s=5.0)
    result = DoubledNode(tmp_path).gate(mode, only_p2p=True, request=BOTH, policy=policy)
    assert result.verdict is verdict
    assert result.veto is not None
    assert words in result.veto
    on, off = result.arms
    assert (on.name, on.verdict) == ("p2p-on", verdict)
    assert off.name == "p2p-off"
    assert off.measured_gbps == 3.6
    assert set(off.transports.values()) == {"SHM/direct/direct"}


def test_no_veto_where_both_arms_fail_or_both_pass(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    both_bad = node.gate("wrong-data", request=BOTH)
    assert (both_bad.verdict, both_bad.veto) == (GateVerdict.WRONG_DATA, None)
    good = node.gate(request=BOTH)
    assert (good.verdict, good.veto) == (GateVerdict.PASS, None)
    assert [arm.measured_gbps for arm in good.arms] == [24.0, 3.6]
    assert good.p2p_verified


def test_arms_at_boot_follow_what_is_expected(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    assert len(node.gate(request={"at_boot": True}).arms) == 2
    assert node.gate(request={}).arms == ()
    one = node.gate(request={"at_boot": True}, policy=quick(two_arms=False))
    assert one.arms == ()
    assert node.gate(request={"at_boot": True, "two_arms": False}).arms == ()


def test_an_arm_is_not_run_where_nothing_was_measured(tmp_path: Path) -> None:
    assert DoubledNode(tmp_path).gate("unknown-option", request=BOTH).arms == ()


def test_no_gain_from_peer_to_peer_is_told(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path, control=REDIRECTING)
    result = node.gate(request=BOTH, slow_runs=[0.6, 0.6])
    assert any("hardly faster than host memory" in warning for warning in result.warnings)


def test_a_node_may_be_allowed_to_serve_without(tmp_path: Path) -> None:
    """The figure through host memory is judged by its own class, and the veto stays."""
    node = DoubledNode(tmp_path)
    result = node.gate("crash", only_p2p=True, request=BOTH, policy=quick(allow_host_memory=True))
    assert result.verdict is GateVerdict.PASS
    assert result.measured_gbps == 3.6
    assert result.threshold_source == "table: pcie4-root-shm"
    assert result.veto is not None
    assert not result.p2p_verified


def rendered(gate: GateResult, verified: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    config = tune(
        cases.l40s_switch(), gate, cases.plan("0.11.2"), cases.SOURCE_POLICY, cases.shape(),
        p2p_verified=verified,
    )  # fmt: skip
    env = {knob.name: knob.value for knob in config.env}
    return env, {knob.name: knob.value for knob in config.options}


@pytest.mark.parametrize("verdict", [GateVerdict.PASS, GateVerdict.HUNG])
def test_the_renderer_obeys_a_veto(verdict: GateVerdict) -> None:
    vetoed = GateResult(verdict=verdict, reason="", veto="with peer-to-peer the collective hung")
    env, options = rendered(vetoed, vetoed.p2p_verified)
    assert env["NCCL_P2P_DISABLE"] == "1"
    assert options["disable-custom-all-reduce"] is True
    free = GateResult(verdict=GateVerdict.PASS, reason="", transports={"0->1": "P2P/IPC"})
    assert "NCCL_P2P_DISABLE" not in rendered(free, free.p2p_verified)[0]
