"""Every check, on facts that provoke it and on facts that must not."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from nodeprep.audit.registry import all_checks
from nodeprep.audit.run import audit
from nodeprep.model.facts import CollectorStatus, NodeFacts, Platform
from nodeprep.model.finding import Finding, Severity
from nodeprep.model.pci import AcsStatus, ConfigAccess, LinkStatus, PciFunction, PortType
from nodeprep.model.topology import P2pStatus, PathLevel
from nodeprep.settings import Accelerators, Settings, Waiver
from tests.build import acs, bridge, facts, gpu_function, groups_of, switch_of

TODAY = date(2026, 11, 1)


def found(node: NodeFacts, settings: Settings | None = None) -> dict[str, Finding]:
    """The findings by id; the first of each."""
    by_id: dict[str, Finding] = {}
    for finding in audit(node, settings or Settings(), TODAY):
        by_id.setdefault(finding.id, finding)
    return by_id


def direct(
    count: int, *, control: int = 0x1D, numa: tuple[int | None, ...] = (0, 0, 1, 1)
) -> list[PciFunction]:
    """GPUs on root ports of their own."""
    return [
        one
        for index in range(count)
        for one in (
            bridge(f"{16 * index:02x}:01.1", port_type=PortType.ROOT_PORT, control=control,
                   numa_node=numa[index]),
            gpu_function(f"{16 * index + 1:02x}:00.0", parent=f"{16 * index:02x}:01.1",
                         root_bus=f"0000:{16 * index:02x}", numa_node=numa[index]),
        )
    ]  # fmt: skip


def with_platform(node: NodeFacts, **fields: Any) -> NodeFacts:
    return replace(node, platform=replace(node.platform, **fields))


def test_redirect_below_a_switch_is_critical_and_names_the_ports() -> None:
    finding = found(facts(switch_of(2)))["acs-redirect-on-gpu-path"]
    assert finding.severity is Severity.CRITICAL
    assert finding.subject == "0000:42:00.0, 0000:42:01.0"
    assert [one.text for one in finding.evidence] == ["001d: ReqRedir+ CmpltRedir+"] * 2
    assert finding.remedy is not None
    assert "acs apply" in " ".join(finding.remedy.commands)


@pytest.mark.parametrize("control", [0x00, 0x01, 0x11, 0x13, 0x51])
def test_source_validation_and_forwarding_do_not_redirect(control: int) -> None:
    assert "acs-redirect-on-gpu-path" not in found(facts(switch_of(2, control=control)))


@pytest.mark.parametrize("control", [0x04, 0x08, 0x20])
def test_each_redirect_bit_counts(control: int) -> None:
    assert "acs-redirect-on-gpu-path" in found(facts(switch_of(2, control=control)))


def test_nvlinked_pairs_do_not_care_about_redirection() -> None:
    node = facts(switch_of(2), nvlinks=18, driver_level=PathLevel.NVLINK)
    assert "acs-redirect-on-gpu-path" not in found(node)


@pytest.mark.parametrize(
    ("p2p", "severity"),
    [(P2pStatus.OK, Severity.CRITICAL), (P2pStatus.CNS, Severity.INFO), (None, Severity.INFO)],
)
def test_root_ports_matter_where_p2p_is_granted(p2p: P2pStatus | None, severity: Severity) -> None:
    finding = found(facts(direct(2), p2p=p2p))["acs-redirect-on-gpu-path"]
    assert finding.severity is severity
    assert finding.subject == "0000:00:01.1, 0000:10:01.1"


def test_a_guest_gets_no_setpci_advice() -> None:
    node = with_platform(facts(switch_of(2)), virtualization="kvm")
    told = found(node)
    assert told["vm-guest-limits"].severity is Severity.WARNING
    remedy = told["acs-redirect-on-gpu-path"].remedy
    assert remedy is not None
    assert remedy.commands == ()


def test_unreadable_registers_are_unknown_not_clean() -> None:
    dark = [
        replace(one, acs=None, acs_status=AcsStatus.UNKNOWN, config_access=ConfigAccess.HEADER)
        if one.is_bridge
        else one
        for one in switch_of(2)
    ]
    told = found(facts(dark))
    assert told["evidence-incomplete"].severity is Severity.WARNING
    assert "healthy" not in told


@pytest.mark.parametrize("word", ["pci=noacs", "pcie_acs_override=downstream"])
def test_kernel_options_without_effect(word: str) -> None:
    node = with_platform(facts(switch_of(2, control=0)), cmdline=f"ro quiet {word}")
    assert word.split("=")[0] in found(node)["acs-cmdline-noop"].subject


@pytest.mark.parametrize(
    ("letter", "finding_id"),
    [
        (P2pStatus.CNS, "p2p-chipset-not-supported"),
        (P2pStatus.GNS, "p2p-gpu-not-supported"),
        (P2pStatus.TNS, "p2p-topology-not-supported"),
        (P2pStatus.NS, "p2p-not-supported"),
        (P2pStatus.DR, "p2p-disabled-by-setting"),
    ],
)
def test_letters(letter: P2pStatus, finding_id: str) -> None:
    told = found(facts(direct(2, control=0), p2p=letter))
    assert told[finding_id].severity is Severity.WARNING
    assert told[finding_id].subject == "GPU0-GPU1"
    assert "setpci" not in str(told[finding_id].remedy)


def test_unlike_gpus_explain_ns() -> None:
    node = facts(
        [
            replace(one, device_id=0x2235) if one.bdf == "0000:44:00.0" else one
            for one in switch_of(2, control=0)
        ],
        p2p=P2pStatus.NS,
    )
    assert "p2p-mixed-gpu-models" in found(node)
    assert "p2p-not-supported" not in found(node)


def test_mig_explains_ns() -> None:
    node = facts(switch_of(2, control=0), p2p=P2pStatus.NS, gpu_fields={"mig_enabled": True})
    assert "mig-enabled" in found(node)
    assert "p2p-not-supported" not in found(node)


def test_level_of_the_driver_against_the_tree() -> None:
    told = found(facts(switch_of(2, control=0), driver_level=PathLevel.SYS))
    assert told["level-mismatch"].severity is Severity.INFO
    assert "tree PIX, driver SYS" in told["level-mismatch"].evidence[0].text
    assert "level-mismatch" not in found(facts(switch_of(2, control=0), driver_level=PathLevel.PIX))


def test_host_path_is_a_fact_not_a_fault() -> None:
    told = found(facts(direct(4, control=0), p2p=P2pStatus.OK))
    assert told["host-path-expected"].severity is Severity.INFO
    assert "host-path-expected" not in found(facts(switch_of(4, control=0)))


def test_two_gpus_on_amd_use_p2p_at_any_distance() -> None:
    assert "host-path-expected" not in found(facts(direct(2, control=0)))
    intel = with_platform(facts(direct(2, control=0)), cpu_vendor="GenuineIntel")
    assert "host-path-expected" in found(intel)


def test_numa_unknown_only_where_there_are_several_nodes() -> None:
    node = facts(direct(2, control=0, numa=(None, None)))
    assert "numa-unknown" in found(with_platform(node, numa_nodes=2))
    assert "numa-unknown" not in found(with_platform(node, numa_nodes=1))


def relinked(bdf: str, **link: Any) -> list[PciFunction]:
    return [
        replace(one, link=replace(one.link or LinkStatus(), **link)) if one.bdf == bdf else one
        for one in switch_of(2, control=0)
    ]


def test_lost_lanes_and_idle_speed() -> None:
    narrow = found(facts(relinked("0000:43:00.0", width=8)))
    assert narrow["pcie-width-narrow"].severity is Severity.WARNING
    idle = found(facts(relinked("0000:43:00.0", speed_gts=2.5)))
    assert idle["pcie-speed-low-maybe-idle"].severity is Severity.INFO
    assert "pcie-width-narrow" not in idle


def test_narrow_uplink_above_a_full_gpu_link() -> None:
    told = found(facts(relinked("0000:41:00.0", width=4)))
    assert "0000:40:01.1" in told["upstream-link-bottleneck"].subject


def test_translated_iommu() -> None:
    functions = switch_of(2, control=0)
    translated = facts(functions, iommu_groups=groups_of(functions, "DMA-FQ"))
    assert found(translated)["iommu-translated"].severity is Severity.WARNING
    passthrough = facts(functions, iommu_groups=groups_of(functions, "identity"))
    assert "iommu-translated" not in found(passthrough)


def test_functions_of_a_guest_below_the_switch() -> None:
    held = [*switch_of(2), gpu_function("50:00.0", parent="42:01.0", driver="vfio-pci")]
    node = facts(held)
    told = found(node)
    assert told["vfio-on-gpu-path"].subject == "0000:50:00.0"
    assert told["vfio-on-gpu-path"].summary.startswith("1 function beside the GPUs is bound")
    remedy = told["acs-redirect-on-gpu-path"].remedy
    assert remedy is not None
    assert "refuses to write while 0000:50:00.0" in remedy.text
    assert not any("acs apply" in command for command in remedy.commands)


@pytest.mark.parametrize("driver", ["mlx5_vfio_pci", "nvgrace-gpu-vfio-pci", "pciback"])
def test_every_driver_that_gives_functions_to_guests_counts(driver: str) -> None:
    held = [*switch_of(2), gpu_function("50:00.0", parent="42:01.0", driver=driver)]
    assert "vfio-on-gpu-path" in found(facts(held))


def test_under_lockdown_the_firmware_or_the_command_line_comes_first() -> None:
    remedy = found(with_platform(facts(switch_of(2)), lockdown="integrity"))[
        "acs-redirect-on-gpu-path"
    ].remedy
    assert remedy is not None
    assert remedy.needs_reboot
    assert remedy.commands == ("nodeprep acs plan --format grub",)


def test_many_pairs_are_told_in_short_and_listed_in_the_subject() -> None:
    told = found(facts(direct(4, control=0), p2p=P2pStatus.GNS))["p2p-gpu-not-supported"]
    assert told.subject.split(", ")[-1] == "GPU2-GPU3"
    assert told.evidence[0].text == "every pair of GPU0-GPU3 read GNS write GNS"
    redirect = found(facts(switch_of(4)))["acs-redirect-on-gpu-path"]
    assert redirect.summary.startswith("ACS redirects every pair of GPU0-GPU3 at 4 ports below")


def test_counts() -> None:
    one_gpu = found(facts(switch_of(1, control=0)))
    assert one_gpu["not-applicable"].severity is Severity.INFO
    short = found(
        facts(switch_of(2, control=0)), Settings(accelerators=Accelerators(expected_count=4))
    )
    assert short["gpu-count-mismatch"].severity is Severity.CRITICAL


def test_a_gpu_the_driver_does_not_have() -> None:
    node = facts(switch_of(3, control=0))
    lost = replace(node, gpus=(*node.gpus[:2], replace(node.gpus[2], driver_grade="pci")))
    assert found(lost)["gpu-count-mismatch"].subject == "0000:45:00.0"


def test_a_gpu_off_the_bus() -> None:
    gone = [
        replace(one, config_access=ConfigAccess.NONE) if one.bdf == "0000:44:00.0" else one
        for one in switch_of(2, control=0)
    ]
    assert found(facts(gone))["gpu-hardware-fault"].severity is Severity.CRITICAL


def driver_failed(message: str) -> NodeFacts:
    node = facts(switch_of(2, control=0), gpu_fields={"driver_grade": "pci"})
    status = CollectorStatus(name="gpu-driver", ok=False, duration_s=0.1, error=message)
    return replace(node, statuses=(status,))


def test_driver_trouble() -> None:
    mismatch = found(driver_failed("NVML: Driver/library version mismatch"))
    assert mismatch["driver-library-mismatch"].severity is Severity.CRITICAL
    silent = found(driver_failed("NVML does not start"))
    assert silent["evidence-incomplete"].subject == "NVIDIA driver"


def test_small_bar1_while_p2p_is_granted() -> None:
    small = {"bar1_total_bytes": 256 << 20, "memory_total_bytes": 46068 << 20}
    node = facts(switch_of(2, control=0), gpu_fields=small)
    assert found(node)["bar1-smaller-than-vram"].severity is Severity.CRITICAL
    refused = facts(switch_of(2, control=0), gpu_fields=small, p2p=P2pStatus.GNS)
    assert "bar1-smaller-than-vram" not in found(refused)


def test_the_bus_itself_unreadable() -> None:
    node = replace(
        facts([]),
        statuses=(CollectorStatus(name="pci", ok=False, duration_s=0.0, error="no /sys"),),
    )
    assert "evidence-incomplete" in found(node)
    assert "not-applicable" not in found(node)


def test_healthy_says_what_was_read_and_comes_first() -> None:
    first = audit(facts(switch_of(4, control=0x11)), Settings(), TODAY)[0]
    assert first.id == "healthy"
    assert "4 GPUs, 6 pairs" in first.summary


def test_order_and_waivers() -> None:
    node = with_platform(facts(switch_of(2)), cmdline="pci=noacs")
    findings = audit(node, Settings(), TODAY)
    ranks = [finding.severity.rank for finding in findings]
    assert ranks == sorted(ranks)
    waiver = Waiver(id="acs-redirect-on-gpu-path", reason="tested by hand", expires="2026-12-31")
    waived = found(node, Settings(waivers=(waiver,)))["acs-redirect-on-gpu-path"]
    assert waived.waived
    assert not waived.counts
    expired = replace(waiver, expires="2026-10-31")
    assert found(node, Settings(waivers=(expired,)))["acs-redirect-on-gpu-path"].counts


def test_every_check_yields_only_the_ids_it_registered() -> None:
    nodes = [
        facts(switch_of(2)),
        facts(direct(4), p2p=P2pStatus.CNS),
        facts(relinked("0000:43:00.0", width=8)),
        with_platform(facts(switch_of(2)), virtualization="kvm"),
        driver_failed("x"),
    ]
    from nodeprep.audit.view import View

    for node in nodes:
        for ids, run in all_checks():
            assert {finding.id for finding in run(View(node, Settings()))} <= set(ids)


def test_platform_defaults_are_unknown() -> None:
    assert Platform().virtualization is None
    assert acs(0x1D).redirects
