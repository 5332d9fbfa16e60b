"""The kernel parameter as two kernels understand it, against the registers after the boot."""

from __future__ import annotations

import msgspec
import pytest

from nodeprep.acs.forms import grub_drop_in
from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.model.acs import AcsPlan
from nodeprep.model.report import AuditReport
from tests.vm.conftest import Boot, Table
from tests.vm.guest import Guest
from tests.vm.topology import ACCELERATORS, OTHER_PORTS, PORTS, ROOT_PORTS


def planned(guest: Guest, version: str) -> AcsPlan:
    """What nodeprep would write on this guest, with the parameter for another kernel."""
    guest.nodeprep("acs", "restore")
    printed = guest.nodeprep("audit", "--format", "json").stdout
    facts = msgspec.json.decode(printed, type=AuditReport).facts
    release = f"{version}.117+deb12-cloud-amd64" if version == "6.12" else f"{version}.0-57"
    platform = msgspec.structs.replace(facts.platform, kernel_release=release)
    return plan(
        msgspec.structs.replace(facts, platform=platform),
        pairs=parse_pairs("group"), allow_in_guest=True,
    )  # fmt: skip


def groups(guest: Guest, functions: tuple[str, ...]) -> list[str]:
    return [
        guest.sh(f"basename $(readlink /sys/bus/pci/devices/{one}/iommu_group)")
        for one in functions
    ]


@pytest.mark.parametrize(
    ("version", "option"), [("6.12", "config_acs="), ("6.1", "disable_acs_redir=")]
)
def test_the_parameter_frees_the_ports_from_boot_on(
    guest: Guest, boot: Boot, table: Table, version: str, option: str
) -> None:
    wanted = planned(guest, version)
    assert wanted.kernel_parameter.startswith(f"pci={option}")
    booted = boot(version, append=wanted.kernel_parameter)
    try:
        words = booted.words(*PORTS)
        table.row(f"{booted.sh('uname -r')} {wanted.kernel_parameter[:24]}...", *words.values())
        assert set(words.values()) == {"0011"}
        others = booted.words(*ROOT_PORTS, *OTHER_PORTS)
        assert set(others.values()) == {"001d"}
        assert booted.nodeprep("acs", "verify").status == 0

        check = ("acs", "persist", "--method", "kernel", "--check", "--format", "json")
        assert booted.nodeprep(*check).document()["state"] == "foreign"
        booted.sh(
            "mkdir -p /etc/default/grub.d; cat > /etc/default/grub.d/nodeprep-acs.cfg",
            stdin=grub_drop_in(wanted),
        )
        held = booted.nodeprep(*check)
        assert held.status == 0, held
        assert held.document()["state"] == "in-effect"
        assert [port["bdf"] for port in held.document()["ports"]] == list(PORTS)
        # Groups are formed after the parameter: a device is no longer isolated from its port.  That
        # the two devices below the switch still have two groups is what these kernels make of it.
        of_devices, of_ports = groups(booted, ACCELERATORS), groups(booted, PORTS)
        table.row("IOMMU groups of the accelerators", *of_devices)
        table.row("IOMMU groups of their ports", *of_ports)
        assert of_devices == of_ports

        booted.sh(f"setpci -r -s {PORTS[0]} ECAP_ACS+6.w=000c:000c")
        armed = booted.nodeprep(*check)
        assert (armed.status, armed.document()["state"]) == (6, "no-effect")
    finally:
        booted.stop()
