"""The way between two GPUs in words."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from nodeprep.audit.explain import explain
from nodeprep.audit.run import audit
from nodeprep.audit.view import View
from nodeprep.errors import UsageError
from nodeprep.model.facts import NodeFacts
from nodeprep.model.report import ExplainReport
from nodeprep.model.topology import P2pStatus, PathLevel
from nodeprep.settings import Settings
from nodeprep.stamp import stamp
from tests.audit.test_checks import direct
from tests.build import facts, switch_of


def told(node: NodeFacts, a: int = 0, b: int = 1) -> ExplainReport:
    view = View(node, Settings())
    findings = audit(node, Settings(), date(2026, 11, 1), only=(min(a, b), max(a, b)))
    return explain(view, findings, a, b, stamp("explain", None))


def test_hops_below_a_switch() -> None:
    report = told(facts(switch_of(2)))
    assert [(hop.bdf, hop.side) for hop in report.hops] == [
        ("0000:43:00.0", "a"),
        ("0000:42:00.0", "a"),
        ("0000:41:00.0", "common"),
        ("0000:42:01.0", "b"),
        ("0000:44:00.0", "b"),
    ]
    assert report.hops[1].acs == "001d"
    assert report.hops[1].redirects == ("ReqRedir", "CmpltRedir")
    assert report.hops[2].acs == "none"
    assert "redirected through the root complex" in report.nccl_path
    assert any("0000:42:00.0, 0000:42:01.0" in words for words in report.would_change)
    assert report.findings[0].id == "acs-redirect-on-gpu-path"


def test_the_way_is_told_from_either_end() -> None:
    node = facts(switch_of(3))
    assert told(node, 2, 0).pair == told(node, 0, 2).pair == ("GPU0", "GPU2")


def test_host_path_names_both_host_bridges() -> None:
    report = told(facts(direct(4, control=0), p2p=P2pStatus.OK), 0, 2)
    assert [hop.what for hop in report.hops if hop.bdf is None] == [
        "host bridge 0000:00",
        "host bridge 0000:20",
    ]
    assert report.level.tree == "SYS"
    assert "SHM" in report.nccl_path
    assert any("NCCL_P2P_LEVEL=SYS" in words for words in report.would_change)


def test_nvlink_comes_first() -> None:
    node = facts(switch_of(2), nvlinks=18, driver_level=PathLevel.NVLINK)
    report = told(node)
    assert report.level.driver == "NV18"
    assert report.nccl_path == "P2P over NVLink"
    assert not any("redirect bits" in words for words in report.would_change)


def test_what_cannot_be_known_is_unknown() -> None:
    node = facts(direct(2, control=0, numa=(None, 1)), p2p=None)
    report = told(node)
    assert report.level.tree == "?"
    assert report.p2p == {"read": "unknown", "write": "unknown"}
    assert report.nccl_path.startswith("unknown")
    assert told(replace(node, iommu_groups={})).iommu == "on, groups unknown"


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 2), (-1, 0), (7, 9)])
def test_a_wrong_pair_is_refused(a: int, b: int) -> None:
    with pytest.raises(UsageError, match="2 GPUs"):
        told(facts(switch_of(2)), a, b)


def test_cns_is_not_cured_by_acs() -> None:
    report = told(facts(direct(2, control=0), p2p=P2pStatus.CNS))
    assert any("turns CNS into OK" in words for words in report.would_not_change)


@pytest.mark.parametrize("letter", [P2pStatus.GNS, P2pStatus.CNS, P2pStatus.TNS])
def test_a_refused_pair_is_not_cured_by_clearing_bits(letter: P2pStatus) -> None:
    report = told(facts(direct(2), p2p=letter))
    assert not any("redirect bits" in words for words in report.would_change)
    assert any("moving" in words for words in report.would_change) is (letter is not P2pStatus.GNS)


def test_findings_are_of_the_pair_and_name_only_its_ports() -> None:
    report = told(facts(switch_of(4)), 1, 2)
    (finding,) = report.findings
    assert finding.subject == "0000:42:01.0, 0000:42:02.0"
    assert "GPU1-GPU2 at 2 ports" in finding.summary
    assert len(finding.evidence) == 2


def test_links_are_told_as_in_every_other_page() -> None:
    assert told(facts(switch_of(2))).hops[0].link == "gen4 x16"
