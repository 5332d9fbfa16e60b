"""What systemd is told over its notification socket (sd_notify(3)); silence without one."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


class Notifier:
    """READY=1, STATUS=, WATCHDOG=1 and STOPPING=1 as datagrams to $NOTIFY_SOCKET."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog_s = _watchdog_s(environment)
        """How often systemd wants to hear from us at least; None: never."""

    def ready(self, status: str) -> None:
        self._send("READY=1", f"STATUS={_line(status)}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={_line(status)}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, *words: str) -> None:
        """A socket that nobody reads must not stop the daemon."""
        if not self._address.startswith(("/", "@")):
            return
        # An abstract address begins with NUL, which the variable spells as @.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.connect(address)
            link.sendall("\n".join(words).encode())


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """WATCHDOG_USEC in seconds, where it is meant for this process."""
    text, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not text.isdecimal() or int(text) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(text) / 1e6


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
