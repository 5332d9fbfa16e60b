"""Persistence: units and rule below a root folder, the GRUB drop-in, and what a boot made of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeprep.acs import boot_parameter, units
from nodeprep.acs.forms import grub_drop_in
from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.errors import NodeprepError, Refused
from nodeprep.host.live import LiveHost
from nodeprep.model.acs import AcsPlan
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import Bdf
from nodeprep.model.readings import CommandResult
from nodeprep.model.tree import PciTree
from tests.build import facts, switch_of

ROOT_FILES = {
    "etc/systemd/system/nodeprep-acs.service",
    "etc/systemd/system/nodeprep-acs-reapply.service",
    "etc/systemd/system/nodeprep-acs-reapply.timer",
    "etc/systemd/system/nodeprep-acs-settle.timer",
    "etc/udev/rules.d/90-nodeprep-acs.rules",
}
needs_systemctl = pytest.mark.skipif(
    shutil.which("systemctl") is None, reason="systemctl is missing: install systemd"
)


class Programs(LiveHost):
    """This computer's files; of its programs only what a test says."""

    def __init__(self, answers: dict[str, int] | None = None) -> None:
        super().__init__()
        self.answers = answers or {}
        self.ran: list[tuple[str, ...]] = []

    def has_program(self, name: str) -> bool:
        return name in self.answers

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        self.ran.append(tuple(argv))
        status = self.answers.get(argv[0], 0)
        return CommandResult(argv=tuple(argv), status=status, stdout="", stderr="it said no")


def node(control: int = 0x1D, **platform: Any) -> NodeFacts:
    one = facts(switch_of(2, control=control))
    fields = {"kernel_release": "6.12.117"} | platform
    return msgspec.structs.replace(one, platform=msgspec.structs.replace(one.platform, **fields))


def planned(one: NodeFacts) -> AcsPlan:
    return plan(one, pairs=parse_pairs("group"))


# systemd


@needs_systemctl
def test_an_image_gets_files_and_links_once(tmp_path: Path) -> None:
    host = LiveHost()
    first = units.install(host, tmp_path, "/opt/venv/bin/nodeprep")
    assert {str(Path(one.path).relative_to(tmp_path)) for one in first} == ROOT_FILES
    assert all(one.changed for one in first)
    unit = (tmp_path / "etc/systemd/system/nodeprep-acs.service").read_text()
    assert "\nExecStart=/opt/venv/bin/nodeprep acs apply --format brief\n" in unit
    wants = tmp_path / "etc/systemd/system"
    assert (wants / "multi-user.target.wants/nodeprep-acs.service").is_symlink()
    assert (wants / "timers.target.wants/nodeprep-acs-reapply.timer").is_symlink()
    assert units.state(host, tmp_path, "/opt/venv/bin/nodeprep") == "enabled"
    assert units.state(host, tmp_path, "/usr/bin/nodeprep") == "outdated"
    again = units.install(host, tmp_path, "/opt/venv/bin/nodeprep")
    assert not any(one.changed for one in again)


@needs_systemctl
def test_what_was_installed_goes_without_a_trace(tmp_path: Path) -> None:
    host = LiveHost()
    units.install(host, tmp_path, "/usr/bin/nodeprep")
    assert all(one.changed for one in units.uninstall(host, tmp_path))
    left = [path for path in tmp_path.rglob("*") if not path.is_dir() or path.is_symlink()]
    assert left == []
    assert units.state(host, tmp_path, "/usr/bin/nodeprep") == "absent"
    assert not any(one.changed for one in units.uninstall(host, tmp_path))


def test_a_systemctl_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(NodeprepError, match=r"systemctl .* ended with 1: it said no"):
        units.install(Programs({"systemctl": 1}), tmp_path, "/usr/bin/nodeprep")


def test_the_rule_names_a_unit_that_is_shipped() -> None:
    rule = units.contents("/usr/bin/nodeprep")[f"etc/udev/rules.d/{units.RULES}"]
    timer = rule.rpartition("restart ")[2].split('"')[0]
    assert timer in units.UNITS
    assert "Unit=nodeprep-acs-reapply.service" in units.contents("x")[f"etc/systemd/system/{timer}"]
    assert 'ACTION=="add|change|bind"' in rule


# The kernel parameter


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc/default/grub.d").mkdir(parents=True)
    return tmp_path


def test_the_drop_in_is_written_once_and_waits_for_the_reboot(root: Path) -> None:
    one = node()
    wanted = planned(one)
    assert boot_parameter.read(one, root).state == "absent"
    (file,) = boot_parameter.install(Programs(), one, wanted, root)
    assert file.changed
    assert (root / boot_parameter.DROP_IN).read_text() == grub_drop_in(wanted)
    found = boot_parameter.read(one, root)
    assert (found.state, found.parameter) == ("pending-reboot", wanted.kernel_parameter)
    (file,) = boot_parameter.install(Programs(), one, wanted, root)
    assert not file.changed
    (file,) = boot_parameter.uninstall(Programs(), root)
    assert file.changed
    assert boot_parameter.read(one, root).state == "absent"


@pytest.mark.parametrize("release", ["6.12.117", "6.8.0-51-generic", "5.15.0-1-generic"])
def test_after_the_reboot_the_registers_are_compared(root: Path, release: str) -> None:
    before = node(kernel_release=release)
    wanted = planned(before)
    boot_parameter.install(Programs(), before, wanted, root)
    command_line = f"BOOT_IMAGE=/vmlinuz ro quiet {wanted.kernel_parameter}"
    held = node(0x11, kernel_release=release, cmdline=command_line)
    found = boot_parameter.read(held, root)
    assert found.state == "in-effect"
    assert [port.bdf for port in found.ports] == ["0000:42:00.0", "0000:42:01.0"]
    # Nothing redirects, so there is no new plan: what is written stays.
    (file,) = boot_parameter.install(Programs(), held, planned(held), root)
    assert not file.changed
    ignored = node(0x1D, kernel_release=release, cmdline=command_line)
    found = boot_parameter.read(ignored, root)
    assert found.state == "no-effect"
    assert [(port.found, port.expected) for port in found.ports] == [("001d", "0011")] * 2


def test_a_device_that_is_not_there_is_no_effect(root: Path) -> None:
    before = node()
    wanted = planned(before)
    boot_parameter.install(Programs(), before, wanted, root)
    moved = facts(switch_of(1, control=0x11))
    platform = msgspec.structs.replace(moved.platform, cmdline=wanted.kernel_parameter)
    found = boot_parameter.read(msgspec.structs.replace(moved, platform=platform), root)
    assert found.state == "no-effect"
    assert found.ports[1].found is None


def test_a_parameter_that_nodeprep_did_not_write_is_foreign(root: Path) -> None:
    one = node(cmdline="quiet pci=disable_acs_redir=0000:40:01.1/00.0/00.0")
    found = boot_parameter.read(one, root)
    assert (found.state, len(found.ports)) == ("foreign", 1)


def test_a_drop_in_that_nobody_reads_is_refused_with_another_way(tmp_path: Path) -> None:
    one = node()
    with pytest.raises(Refused, match="read by nobody") as caught:
        boot_parameter.install(Programs(), one, planned(one), tmp_path)
    assert "grubby" in caught.value.hint
    assert not (tmp_path / "etc").exists()


def test_nothing_to_write_is_refused_and_says_why(root: Path) -> None:
    clean = node(0x11)
    with pytest.raises(Refused, match="no GPU path redirects"):
        boot_parameter.install(Programs(), clean, planned(clean), root)
    old = node(kernel_release="4.18.0-553")
    with pytest.raises(Refused, match=r"4\.18"):
        boot_parameter.install(Programs(), old, planned(old), root)


@pytest.mark.parametrize("release", ["6.12.117", "6.8.0-51-generic"])
def test_what_must_never_be_advised_is_not_written(root: Path, release: str) -> None:
    one = node(kernel_release=release)
    boot_parameter.install(Programs(), one, planned(one), root)
    text = (root / boot_parameter.DROP_IN).read_text()
    assert "noacs" not in text
    assert "pcie_acs_override" not in text


def test_the_shell_of_grub_mkconfig_keeps_the_quotes(root: Path) -> None:
    one = node()
    boot_parameter.install(Programs(), one, planned(one), root)
    drop_in = root / boot_parameter.DROP_IN
    # 10_linux copies the value into grub.cfg, where a bare semicolon would end the command.
    told = subprocess.run(
        ["sh", "-ec", f'GRUB_CMDLINE_LINUX=quiet; . {drop_in}; echo "linux x $GRUB_CMDLINE_LINUX"'],
        capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    assert told.strip() == f'linux x quiet "{planned(one).kernel_parameter}"'


@pytest.mark.parametrize(
    ("device", "bdf"),
    [
        ("0000:40:01.1/00.0/01.0", "0000:42:01.0"),
        ("40:01.1/00.0", "0000:41:00.0"),
        ("0000:40:01.1", "0000:40:01.1"),
        ("0000:40:01.1/00.0/09.0", None),
        ("0000:40:01.1/", None),
        ("pci:1000:c010", None),
        ("", None),
        ("0000:40:01.1/../..", None),
    ],
)
def test_a_path_of_the_kernel_is_followed(device: str, bdf: str | None) -> None:
    tree = PciTree(node().functions)
    assert boot_parameter.resolve(tree, device) == (None if bdf is None else Bdf(bdf))
