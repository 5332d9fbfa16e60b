"""What a failure points at, with real runs of the double and over facts alone."""

from __future__ import annotations

import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodeprep.gate.suspects import Case, suspects
from nodeprep.gate.suspects_places import common_bridge, common_gpu
from nodeprep.model.facts import IommuGroup, NodeFacts
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.model.pci import AcsStatus
from nodeprep.model.topology import P2pStatus
from tests.gate.doubles import REDIRECTING, DoubledNode, kinds, quick
from tests.gate.nodes import on_root_ports, on_switch, platform

DIAGNOSE = {"diagnose": True}


def test_redirection_is_named_with_its_ports(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path, control=REDIRECTING)
    result = node.gate(request=DIAGNOSE)
    (finding,) = result.findings
    assert finding.id == "acs-redirect-on-gpu-path"
    assert all(port in finding.subject for port in node.ports)
    assert any(line.text == "001d" for line in finding.evidence)
    assert [run.name for run in result.pair_runs] == ["0-1", "0-2", "0-3", "1-2", "1-3", "2-3"]
    assert {run.measured_gbps for run in result.pair_runs} == {12.0}


def test_the_bad_gpu_is_named(tmp_path: Path) -> None:
    """Every pair with GPU 2 crashes, peer-to-peer off works: the slot of GPU 2 is named."""
    node = DoubledNode(tmp_path)
    bad = [[2, other] for other in (0, 1, 3)]
    result = node.gate("crash", only_p2p=True, only_pairs=bad, request=DIAGNOSE)
    assert result.verdict is GateVerdict.CRASHED
    (finding,) = result.findings
    assert finding.id == "p2p-path-suspect"
    assert finding.subject == f"GPU2 {node.facts.gpus[2].bdf}"
    crashed = {run.name for run in result.pair_runs if run.verdict is GateVerdict.CRASHED}
    assert crashed == {"0-2", "1-2", "2-3"}
    assert result.veto is not None


def test_the_bad_pair_is_named(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    result = node.gate("wrong-data", only_p2p=True, only_pairs=[[1, 2]], request=DIAGNOSE)
    assert result.verdict is GateVerdict.WRONG_DATA
    (finding,) = result.findings
    assert finding.subject == "GPU1-GPU2"


def test_a_narrow_slot_is_named(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    slow = {"2": 0.5}
    result = node.gate(slow_gpus=slow, request=DIAGNOSE, policy=quick(repeats=0))
    assert result.verdict is GateVerdict.FAIL_BANDWIDTH
    (finding,) = result.findings
    assert finding.id == "p2p-path-suspect"
    assert finding.subject.startswith("GPU2 ")


def test_it_is_bounded_in_time(tmp_path: Path) -> None:
    node = DoubledNode(tmp_path)
    began = time.monotonic()
    policy = quick(silence_s=1.5, pair_s=3.0, diagnose_s=22.0)
    result = node.gate("hang", only_p2p=True, request=DIAGNOSE, policy=policy)
    assert time.monotonic() - began < 1.5 + 22 + 5
    assert len(result.pair_runs) < 6
    assert any("pairs" in warning for warning in result.warnings)


# Facts alone.


def run(verdict: GateVerdict, gbps: float | None = None, **fields: Any) -> GateResult:
    return GateResult(verdict=verdict, reason="as told", measured_gbps=gbps, **fields)


HUNG = run(GateVerdict.HUNG)
FINE = run(GateVerdict.PASS, 14.0)
SLOW = run(GateVerdict.FAIL_BANDWIDTH, 6.0)


def case(
    node: NodeFacts, on: GateResult = HUNG, off: GateResult | None = FINE, **pairs: GateResult
) -> list[str]:
    group = tuple(gpu.index for gpu in node.gpus)
    named = {(int(name[1]), int(name[2])): one for name, one in pairs.items()}
    return kinds(replace(on, findings=suspects(Case(node, group, on, off, named))))


def known(node: NodeFacts, iommu: bool | None = False) -> NodeFacts:
    """Registers read: no redirection; IOMMU off."""
    functions = {
        bdf: replace(one, acs=None, acs_status=AcsStatus.ABSENT)
        for bdf, one in node.functions.items()
    }
    return replace(node, functions=functions, platform=replace(platform(), iommu_enabled=iommu))


def translated(node: NodeFacts, kind: str = "DMA-FQ") -> NodeFacts:
    functions = {
        bdf: replace(one, iommu_group=number)
        for number, (bdf, one) in enumerate(known(node).functions.items())
    }
    groups = {
        one.iommu_group: IommuGroup(number=one.iommu_group, type=kind, members=(bdf,))
        for bdf, one in functions.items()
        if one.iommu_group is not None
    }
    return replace(
        node, functions=functions, iommu_groups=groups,
        platform=replace(platform(), iommu_enabled=True),
    )  # fmt: skip


def test_translation_is_told_from_a_false_grant() -> None:
    node = on_switch(4)
    assert case(translated(node)) == ["iommu-translated-p2p"]
    assert case(translated(node, "identity")) == ["p2p-false-grant"]
    assert case(known(node)) == ["p2p-false-grant"]


def test_no_cause_without_its_evidence() -> None:
    """Registers or IOMMU that nobody read: a suspicion, no cause."""
    node = on_switch(4)
    dark = known(node)
    dark = replace(
        dark,
        functions={
            bdf: replace(one, acs_status=AcsStatus.UNKNOWN) for bdf, one in dark.functions.items()
        },
    )
    assert case(dark) == ["p2p-path-suspect"]
    assert case(known(node, iommu=None)) == ["p2p-path-suspect"]


def test_a_hang_without_peer_to_peer_is_not_its_fault() -> None:
    assert case(known(on_switch(4)), off=HUNG) == ["collective-hang"]
    assert case(known(on_switch(4)), off=None) == ["collective-hang"]


def test_slow_without_a_reason() -> None:
    assert case(known(on_switch(4)), on=SLOW, off=None) == ["busbw-below-expected"]


def test_sockets() -> None:
    node = known(on_root_ports(4, sockets=2))
    assert case(node, on=SLOW, off=FINE) == ["cross-socket-p2p-slow"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (P2pStatus.CNS, "p2p-chipset-not-supported"),
        (P2pStatus.GNS, "p2p-gpu-not-supported"),
        (P2pStatus.TNS, "p2p-topology-not-supported"),
        (P2pStatus.NS, "p2p-not-supported"),
    ],
)
def test_denied_access_is_told_by_its_letter(status: P2pStatus, kind: str) -> None:
    from nodeprep.gate.neighbours import neighbours

    node = known(on_switch(4, p2p=status))
    ways = neighbours(node, (0, 1, 2, 3), {"0->1": "SHM/direct", "1->2": "SHM/direct"})
    on = run(GateVerdict.FAIL_TRANSPORT, 4.0, neighbours=ways)
    assert case(node, on=on, off=None) == [kind]


def test_a_narrow_link() -> None:
    node = known(on_switch(4))
    gpu = node.gpus[3].bdf
    link = node.functions[gpu].link
    assert link is not None
    narrow = replace(node.functions[gpu], link=replace(link, width=8))
    node = replace(node, functions={**node.functions, gpu: narrow})
    pairs = {f"p{a}{b}": SLOW if 3 in (a, b) else FINE for a, b in combinations(range(4), 2)}
    assert case(node, on=SLOW, off=None, **pairs) == ["pcie-width-narrow"]


def test_what_bad_pairs_have_in_common() -> None:
    every = list(combinations(range(4), 2))
    assert common_gpu([(0, 2), (1, 2), (2, 3)], every) == 2
    assert common_gpu([(0, 2)], every) is None
    assert common_gpu(every, every) is None
    assert common_gpu([(0, 1)], [(0, 1)]) is None
    assert common_gpu([], every) is None


def test_the_bridge_that_all_bad_pairs_share() -> None:
    node = on_switch(4)
    bridge = common_bridge(node, [(0, 1), (0, 2), (0, 3)], list(combinations(range(4), 2)))
    assert bridge == node.functions[node.gpus[0].bdf].parent
    assert common_bridge(node, [(0, 1)], [(0, 1)]) is None
