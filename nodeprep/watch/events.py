"""PCI events from the kernel by way of udev, and the signals that end the daemon."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from types import FrameType
from typing import Any, Protocol

from nodeprep.errors import NotFound

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Events(Protocol):
    """Where the loop waits."""

    def wait(self, timeout_s: float) -> tuple[str, ...] | None:
        """Events since the last call, `add 0000:22:00.0`; none at the timeout; None: the end."""


class PciEvents:
    """The live source: a netlink monitor of udev for the subsystem pci.

    A signal ends the wait at once, whatever the daemon waits for; a look that is under way is
    finished first, so that no register is left half done.
    """

    def __enter__(self) -> PciEvents:
        self._monitor = _monitor()
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended = False
        self._old_wakeup = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, self._end) for number in _SIGNALS}
        self._poll = select.poll()
        self._poll.register(self._monitor.fileno(), select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._wake)
        os.close(self._woken)

    def wait(self, timeout_s: float) -> tuple[str, ...] | None:
        if not self._ended:
            self._poll.poll(max(0.0, timeout_s) * 1000)
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        return None if self._ended else self._received()

    def _received(self) -> tuple[str, ...]:
        found = []
        try:
            while (device := self._monitor.poll(timeout=0)) is not None:
                found.append(f"{device.action} {device.sys_name}")
        except OSError as error:
            # The socket's buffer ran over: something happened, nobody knows what.
            found.append(f"events were lost ({error.strerror})")
        return tuple(found)

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._ended = True


def _monitor() -> Any:
    try:
        import pyudev
    except ImportError as error:
        raise NotFound(f"no udev library: {error}", hint="install libudev1 and pyudev") from None
    monitor = pyudev.Monitor.from_netlink(pyudev.Context())
    monitor.filter_by("pci")
    monitor.start()
    return monitor
