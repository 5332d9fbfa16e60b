"""One guest through its life: registers as Linux and QEMU have them, not as a model of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.vm.conftest import Table
from tests.vm.guest import Guest
from tests.vm.topology import (
    ACCELERATORS,
    ALL_PORTS,
    OTHER_PORTS,
    PORTS,
    ROOT_PORTS,
    SWITCHES,
)

ARMED, FREE = "001d", "0011"
SWITCH = SWITCHES[0][1]
FIRST, SECOND = PORTS[:2], PORTS[2:]
"""The ports of each switch."""


def until(what: Callable[[], bool], deadline_s: float = 90) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + deadline_s
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(1)
    return True


def words(guest: Guest, ports: tuple[str, ...] = PORTS) -> list[str]:
    return list(guest.words(*ports).values())


def is_free(guest: Guest, ports: tuple[str, ...] = PORTS) -> bool:
    return words(guest, ports) == [FREE] * len(ports)


def restored(guest: Guest) -> None:
    """Every register as the kernel set it at boot."""
    guest.nodeprep("acs", "restore")
    assert words(guest, ALL_PORTS) == [ARMED] * len(ALL_PORTS)


def replug(guest: Guest) -> None:
    """Takes the first switch off the bus and finds it again."""
    guest.sh(f"echo 1 > /sys/bus/pci/devices/{SWITCH}/remove; echo 1 > /sys/bus/pci/rescan")


def test_the_life_of_a_change(guest: Guest, table: Table) -> None:
    table.row("ports", *PORTS)
    assert words(guest, ALL_PORTS) == [ARMED] * len(ALL_PORTS)
    table.row("boot with IOMMU", *words(guest))

    installed = guest.nodeprep("acs", "persist", "--format", "json").document()
    assert installed["state"] == "enabled"
    assert all(one["changed"] for one in installed["files"])
    again = guest.nodeprep("acs", "persist", "--format", "json").document()
    assert not any(one["changed"] for one in again["files"])
    # Only events are to be seen at work here, not the clock.
    guest.sh("systemctl stop nodeprep-acs-reapply.timer")

    applied = guest.nodeprep("acs", "apply", "--format", "json")
    assert applied.status == 0, applied
    report = applied.document()
    assert any("acs.allow_in_guest" in text for text in report["plan"]["warnings"])
    assert {one["write"]["bdf"] for one in report["applied"]} == set(PORTS)
    assert is_free(guest)
    assert words(guest, (*ROOT_PORTS, *OTHER_PORTS)) == [ARMED] * 4
    table.row("acs apply", *words(guest))
    assert guest.nodeprep("acs", "verify").status == 0
    table.row("acs verify: exit status 0", *words(guest))

    replug(guest)
    table.row("remove and rescan of the first switch", *words(guest))
    assert until(lambda: is_free(guest)), guest.sh("journalctl -b -n 40 -o cat")
    table.row("written again after the event", *words(guest))
    verified = guest.nodeprep("acs", "verify", "--format", "json")
    assert verified.status == 0, verified
    (finding,) = verified.document()["findings"]
    assert (finding["id"], finding["severity"]) == ("acs-rearmed", "info")
    assert all(port in finding["subject"] for port in FIRST)

    guest.reboot()
    assert until(lambda: is_free(guest)), guest.sh("journalctl -u nodeprep-acs -o cat")
    state = json.loads(guest.sh("cat /var/lib/nodeprep/acs-state.json"))
    assert state["boot_id"] == guest.boot_id
    assert {port["original"] for port in state["ports"]} == {ARMED}
    assert guest.sh("systemctl is-active nodeprep-acs.service") == "active"
    table.row("reboot: written by the boot unit", *words(guest))

    assert guest.nodeprep("acs", "restore").status == 0
    assert words(guest, ALL_PORTS) == [ARMED] * len(ALL_PORTS)
    table.row("acs restore", *words(guest))
    guest.sh("systemctl start nodeprep-acs-reapply.service")
    assert words(guest) == [ARMED] * len(PORTS)
    table.row("the clock's unit after a restore: hands off", *words(guest))

    removed = guest.nodeprep("acs", "persist", "--remove", "--format", "json").document()
    assert removed["state"] == "absent"
    assert guest.run("systemctl", "cat", "nodeprep-acs.service").status != 0
    assert words(guest) == [ARMED] * len(PORTS)


def test_two_root_complexes_of_two_numa_nodes(guest: Guest) -> None:
    restored(guest)
    facts = guest.nodeprep("audit", "--format", "json").document()["facts"]
    functions = facts["functions"]
    assert [gpu["bdf"] for gpu in facts["gpus"]] == list(ACCELERATORS)
    assert [functions[port]["numa_node"] for port in PORTS] == [0, 0, 1, 1]
    levels = {
        pair: guest.nodeprep("explain", *pair, "--format", "json").document()["level"]["tree"]
        for pair in (("0", "1"), ("0", "2"), ("2", "3"))
    }
    assert levels == {("0", "1"): "PIX", ("0", "2"): "SYS", ("2", "3"): "PIX"}
    planned = guest.nodeprep("acs", "plan", "--format", "json").document()
    pairs = {one["bdf"]: one["pairs"] for one in planned["actions"]}
    assert pairs == {
        **{port: ["GPU0-GPU1"] for port in FIRST},
        **{port: ["GPU2-GPU3"] for port in SECOND},
    }
    reasons = {one["bdf"]: one["reason"] for one in planned["plan"]["choices"]}
    assert all("turns below it" in reasons[root] for root in ROOT_PORTS)
    one_pair = guest.nodeprep("acs", "plan", "--pairs", "2-3", "--format", "json").document()
    assert [one["bdf"] for one in one_pair["actions"]] == list(SECOND)


def test_a_kill_at_every_step_is_mended(guest: Guest, table: Table) -> None:
    restored(guest)
    ran = guest.run("python3", "/opt/vm/crash.py", deadline_s=600)
    assert ran.status == 0, ran
    told: dict[str, Any] = ran.document()
    assert tuple(told["ports"]) == PORTS
    steps = told["steps"]
    for one in steps:
        table.row(f"kill -9 while {one['step']}", *one["killed"], "-> restore ->", *one["restored"])
    assert len(steps) == 3 + 2 * len(PORTS) + 1
    assert [one["status"] for one in steps] == [0] * len(steps)
    assert all(one["restored"] == [ARMED] * len(PORTS) for one in steps)
    assert sum(FREE in one["killed"] for one in steps) == 2 * len(PORTS), "partly written"
    assert told["end"] == [ARMED] * len(PORTS)


def test_writes_by_sysfs_are_the_same(guest: Guest) -> None:
    restored(guest)
    assert guest.nodeprep("acs", "apply", "--method", "sysfs").status == 0
    assert is_free(guest)
    assert guest.nodeprep("acs", "restore", "--method", "sysfs").status == 0
    assert words(guest, ALL_PORTS) == [ARMED] * len(ALL_PORTS)


def test_all_bits_is_the_whole_word_and_says_so(guest: Guest, table: Table) -> None:
    restored(guest)
    applied = guest.nodeprep("acs", "apply", "--all-bits", "--format", "json").document()
    assert any("all bits" in text for text in applied["plan"]["warnings"])
    assert words(guest) == ["0000"] * len(PORTS)
    table.row("acs apply --all-bits", *words(guest))
    restored(guest)
    table.row("acs restore", *words(guest))


def test_a_device_bound_to_vfio_stops_it(guest: Guest, table: Table) -> None:
    restored(guest)
    device = "0000:25:00.0"
    place = f"/sys/bus/pci/devices/{device}"
    guest.sh(
        f"modprobe vfio-pci; [ ! -e {place}/driver ] || echo {device} > {place}/driver/unbind; "
        f"echo vfio-pci > {place}/driver_override; echo {device} > /sys/bus/pci/drivers_probe"
    )
    assert guest.sh(f"basename $(readlink {place}/driver)") == "vfio-pci"
    refused = guest.nodeprep("acs", "apply", "--format", "json")
    assert refused.status == 4, refused
    reasons = [one["reason"] for one in refused.document()["actions"] if one["kind"] == "refusal"]
    assert any(device in reason and "vfio-pci" in reason for reason in reasons)
    assert words(guest, ALL_PORTS) == [ARMED] * len(ALL_PORTS)
    table.row(f"{device} bound to vfio-pci: exit status 4", *words(guest))
    elsewhere = guest.nodeprep("acs", "apply", "--pairs", "2-3")
    assert elsewhere.status == 0, elsewhere
    assert words(guest) == [ARMED, ARMED, FREE, FREE]
    table.row("the other switch only: --pairs 2-3", *words(guest))
    guest.sh(
        f"echo {device} > {place}/driver/unbind; echo > {place}/driver_override; "
        f"echo {device} > /sys/bus/pci/drivers_probe"
    )
    restored(guest)


def test_the_kernel_method_waits_for_a_reboot(guest: Guest) -> None:
    restored(guest)
    check = ("acs", "persist", "--method", "kernel", "--format", "json")
    refused = guest.nodeprep(*check)
    assert refused.status == 4, "no GRUB would read it"
    guest.sh("mkdir -p /etc/default/grub.d")
    # The plan of the words that this boot began with, whatever holds at this moment.
    assert guest.nodeprep("acs", "apply").status == 0
    written = guest.nodeprep(*check).document()
    assert written["state"] == "pending-reboot"
    assert written["kernel_parameter"].startswith("pci=config_acs=x0100x1@0000:20:00.0/00.0/00.0;")
    assert [one["changed"] for one in written["files"]] == [True]
    assert [one["changed"] for one in guest.nodeprep(*check).document()["files"]] == [False]
    assert guest.nodeprep(*check, "--check").status == 6
    assert guest.nodeprep(*check, "--remove").document()["state"] == "absent"
    restored(guest)


WATCHED_UNITS = """\
printf '[Unit]\\n' > /etc/systemd/system/nodeprep-ready.target
printf '[Unit]\\nRequires=nodeprep-ready.target\\nAfter=nodeprep-ready.target\\n\
[Service]\\nExecStart=/bin/sleep infinity\\n' > /etc/systemd/system/serve.service
cp /opt/nodeprep/lib/nodeprep/_data/systemd/nodeprep-watch.service /etc/systemd/system/
systemctl daemon-reload
systemctl start serve.service nodeprep-watch.service
cat /proc/sys/kernel/random/boot_id > /run/nodeprep/ready
"""


def test_watch_holds_the_words_and_notices_a_lost_gpu(guest: Guest, table: Table) -> None:
    restored(guest)
    assert guest.nodeprep("acs", "apply").status == 0
    # Type=notify: the start ends when READY=1 came.
    guest.sh(WATCHED_UNITS, deadline_s=180)
    assert "no GPU path redirects" in guest.sh("systemctl show -P StatusText nodeprep-watch")
    table.row("nodeprep watch is ready", *words(guest))

    replug(guest)
    journal = "journalctl -u nodeprep-watch -o cat"
    wrote = [f"wrote {FREE} to {port} ({ARMED})" for port in FIRST]
    assert until(lambda: all(one in guest.sh(journal) for one in wrote)), guest.sh(journal)
    assert is_free(guest)
    table.row("remove and rescan of the first switch: written again", *words(guest))

    # The replug took both GPUs away for a moment, which no reading saw; this one stays away.
    guest.sh("cat /proc/sys/kernel/random/boot_id > /run/nodeprep/ready; systemctl start serve")
    gpu = ACCELERATORS[3]
    guest.sh(f"echo 1 > /sys/bus/pci/devices/{gpu}/remove")
    gone = "! test -e /run/nodeprep/ready && ! systemctl -q is-active serve"
    assert until(lambda: guest.run("/bin/sh", "-c", gone).status == 0)
    log = guest.sh(journal)
    assert f"lost {gpu} (gone from the bus)" in log
    assert "removed the ready stamp: a GPU is lost" in log
    assert guest.sh("systemctl is-active nodeprep-watch") == "active"
    table.row(f"{gpu} removed: stamp gone, nodeprep-ready.target stopped")

    guest.sh("systemctl stop nodeprep-watch")
    shown = guest.sh("systemctl show -p Result,ExecMainStatus nodeprep-watch")
    assert shown.splitlines() == ["Result=success", "ExecMainStatus=0"]
    guest.sh("echo 1 > /sys/bus/pci/rescan")
    restored(guest)


def test_a_write_that_the_kernel_refuses_is_no_success(guest: Guest, table: Table) -> None:
    """Lockdown: reads work, writes are dropped, and setpci ends with 0. It cannot be undone."""
    restored(guest)
    guest.sh("echo integrity > /sys/kernel/security/lockdown")
    assert guest.nodeprep("acs", "apply").status == 4
    said = guest.run("setpci", "-r", "-s", PORTS[0], "ECAP_ACS+6.w=0000:002c")
    assert (said.status, words(guest, PORTS[:1])) == (0, [ARMED]), said
    table.row("lockdown: acs apply ends with 4, setpci with 0", *words(guest))
    for method in ("setpci", "sysfs"):
        forced = guest.nodeprep("acs", "apply", "--force", "--reason", "a test of the read-back",
                                "--method", method, "--format", "json")  # fmt: skip
        assert forced.status == 6, forced
        report = forced.document()
        assert report["plan"]["forced_reason"] == "a test of the read-back"
        assert "rolled back" in report["detail"]
        assert words(guest, ALL_PORTS) == [ARMED] * len(ALL_PORTS)
        assert guest.run("test", "-e", "/var/lib/nodeprep/acs-state.json").status == 1
        table.row(f"forced, by {method}: exit status 6, nothing saved", *words(guest))
