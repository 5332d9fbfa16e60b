"""The events of this kernel, and a clean end: in a process of its own, since signals are."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyudev")

WAITER = """
from nodeprep.watch.events import PciEvents
with PciEvents() as events:
    assert events.wait(0.05) == ()
    print("waiting", flush=True)
    while (got := events.wait(30)) is not None:
        assert got == (), got
    assert events.wait(30) is None
print("ended", flush=True)
"""


@pytest.fixture(autouse=True)
def _netlink() -> None:
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15).close()  # NETLINK_KOBJECT_UEVENT
    except (AttributeError, OSError) as error:
        pytest.skip(f"no netlink socket for kernel events here: {error}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_at_once(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITER], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "waiting\n"
        one.send_signal(number)
        out, _ = one.communicate(timeout=10)
    assert (out, one.returncode) == ("ended\n", 0)


def test_a_recorded_machine_has_no_events(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "nodeprep", "watch", "--machine", "l40s-acs", "--state-dir",
            str(tmp_path)]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--once" in done.stderr
    looked = subprocess.run([*argv, "--once"], capture_output=True, text=True, timeout=60)
    assert looked.returncode == 0, looked
    assert "[SIMULATED]" in looked.stdout
    assert "4 ports redirected and were cleared" in looked.stdout
