"""sd_notify over a real socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nodeprep.watch.notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_each_word(tmp_path: Path, abstract: bool) -> None:
    name = f"@nodeprep-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind("\0" + name[1:] if abstract else name)
        ear.settimeout(5)
        notifier = Notifier({"NOTIFY_SOCKET": name})
        notifier.ready("4 GPUs;\nall\twell")
        notifier.alive()
        notifier.status("x" * 500)
        notifier.stopping()
        heard = [ear.recv(4096).decode() for _ in range(4)]
    assert heard == [
        "READY=1\nSTATUS=4 GPUs; all well", "WATCHDOG=1", f"STATUS={'x' * 200}", "STOPPING=1",
    ]  # fmt: skip


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_without_a_listener_nothing_happens(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address}).ready("fine")
    Notifier({}).alive()


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"WATCHDOG_USEC": "120000000"}, 120.0),
        ({"WATCHDOG_USEC": "120000000", "WATCHDOG_PID": str(os.getpid())}, 120.0),
        ({"WATCHDOG_USEC": "120000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_meant_for_this_process(
    given: dict[str, str], seconds: float | None
) -> None:
    assert Notifier(given).watchdog_s == seconds
