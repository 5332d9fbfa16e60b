"""What a finding names as its cause, and what leaves it out of the count."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodeprep.audit.run import audit, unknowns
from nodeprep.model.acs import AcsState, SavedPort
from nodeprep.model.facts import CollectorStatus, NodeFacts
from nodeprep.model.finding import Severity
from nodeprep.model.pci import parse_bdf
from nodeprep.model.topology import P2pStatus, PathLevel
from nodeprep.settings import Settings, Waiver
from nodeprep.units import GIB
from tests.audit.test_checks import TODAY, direct, found, with_platform
from tests.build import facts, switch_of

PORT = parse_bdf("42:00.0")


@pytest.mark.parametrize(
    ("waiver", "waived"),
    [
        (Waiver(id="acs-redirect-on-gpu-path", reason="x", expires="2026-11-01"), True),
        (Waiver(id="acs-redirect-on-gpu-path", reason="x", expires="2026-10-31"), False),
        (Waiver(id="healthy", reason="x", expires="2026-12-31"), False),
        (Waiver(id="acs-redirect-on-gpu-path", reason="x", expires="2026-12-31",
                subject="0000:42:0[01].0*"), True),
        (Waiver(id="acs-redirect-on-gpu-path", reason="x", expires="2026-12-31",
                subject="0000:99:*"), False),
        (Waiver(id="healthy", reason="x", expires="2026-12-31", subject="0000:42:*"), False),
    ],
)  # fmt: skip
def test_a_waiver_holds_for_its_finding_its_subject_and_its_time(
    waiver: Waiver, waived: bool
) -> None:
    finding = found(facts(switch_of(2)), Settings(waivers=(waiver,)))["acs-redirect-on-gpu-path"]
    assert finding.waived is waived


def test_a_missing_driver_is_unknown_only_where_there_are_gpus() -> None:
    bad = tuple(
        CollectorStatus(name=name, ok=False, duration_s=0.0, error=f"no {name}")
        for name in ("gpu-driver", "resources")
    )
    good = CollectorStatus(name="pci", ok=True, duration_s=0.0)
    with_gpus = facts(switch_of(2), statuses=(good, *bad))
    assert [one.subject for one in unknowns(with_gpus)] == ["gpu-driver", "resources"]
    assert [one.reason for one in unknowns(with_gpus)] == ["no gpu-driver", "no resources"]
    without = facts((), statuses=(good, *bad))
    assert [one.subject for one in unknowns(without)] == ["resources"]


def mismatch(node: NodeFacts) -> str:
    return found(node)["level-mismatch"].cause


def test_why_the_driver_prints_another_level() -> None:
    apart = facts(direct(2, numa=(0, 1)), driver_level=PathLevel.NODE)
    one_socket = with_platform(apart, sockets=1, numa_nodes=4)
    assert "NPS" in mismatch(one_socket)
    assert "old driver" in mismatch(with_platform(apart, sockets=2, numa_nodes=2))
    assert "old driver" in mismatch(with_platform(apart, sockets=None, numa_nodes=None))
    below = [replace(one, numa_node=None) for one in switch_of(2)]
    assert "numa_node is unknown" in mismatch(facts(below, driver_level=PathLevel.SYS))
    half = [replace(one, numa_node=None) if one.bdf == "0000:44:00.0" else one
            for one in switch_of(2)]  # fmt: skip
    assert "numa_node is unknown" in mismatch(facts(half, driver_level=PathLevel.SYS))


@pytest.mark.parametrize(("p2p", "word"), [(P2pStatus.OK, "by choice"), (P2pStatus.CNS, "grants")])
def test_why_a_pair_goes_through_the_host(p2p: P2pStatus, word: str) -> None:
    node = facts(direct(4), p2p=p2p)
    assert word in found(node)["host-path-expected"].cause


@pytest.mark.parametrize(("bar1_gib", "told"), [(63, True), (64, False), (65, False)])
def test_bar1_as_large_as_the_memory_is_enough(bar1_gib: int, told: bool) -> None:
    memory = {"bar1_total_bytes": bar1_gib * GIB, "memory_total_bytes": 64 * GIB}
    findings = found(facts(switch_of(2), gpu_fields=memory))
    assert ("bar1-smaller-than-vram" in findings) is told


def test_healthy_counts_pairs_over_pcie_and_over_nvlink() -> None:
    node = facts(switch_of(3, control=0x11))
    node = replace(node, pairs=(replace(node.pairs[0], nvlinks=4), *node.pairs[1:]))
    (first, *_) = audit(node, Settings(), TODAY)
    assert first.id == "healthy"
    assert "2 pairs over PCIe, 1 over NVLink" in first.evidence[0].text


def saved(rearmed: int, *, boot_id: str | None = None) -> NodeFacts:
    node = facts(switch_of(2, control=0x11))
    port = SavedPort(
        bdf=PORT, path=(PORT,), vendor_device="1000:c010", capabilities="005f", original="001d",
        written="0011", saved_at="2026-11-01T00:00:00Z", rearmed=rearmed,
        rearmed_at="2026-11-01T01:00:00Z",
    )  # fmt: skip
    state = AcsState(
        schema="nodeprep.acs-state/1", tool_version="0", boot_id=boot_id or node.boot_id,
        collected_at="2026-11-01T00:00:00Z", kernel_release=None, machine=None, ports=(port,),
    )  # fmt: skip
    return replace(node, acs_saved=state)


def test_a_port_that_redirected_again_is_told() -> None:
    finding = found(saved(1))["acs-rearmed"]
    assert finding.severity is Severity.INFO
    assert finding.subject == PORT
    assert "1 time" in finding.summary
    often = Settings().acs.rearm_alert
    assert found(saved(often))["acs-rearmed"].severity is Severity.WARNING
    assert found(saved(often - 1))["acs-rearmed"].severity is Severity.INFO


def test_another_boot_and_a_quiet_port_are_not() -> None:
    assert "acs-rearmed" not in found(saved(0))
    assert "acs-rearmed" not in found(saved(3, boot_id="another"))
