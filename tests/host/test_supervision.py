"""Signals that come while a program is being started."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from nodeprep.host.live import LiveHost
from nodeprep.host.supervision import processes, signals_held


def _end(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def ending() -> Iterator[None]:
    """Both interrupt, as they do in the command; a shell starts what is in its background deaf."""
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, _end),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_held_signal_is_heard_after_the_block(number: signal.Signals) -> None:
    reached = []

    def hold() -> None:
        with signals_held():
            signal.raise_signal(number)
            reached.append(number)

    with pytest.raises(KeyboardInterrupt):
        hold()
    assert reached == [number]
    assert signal.getsignal(signal.SIGTERM) is _end


def test_no_signal_nothing_heard() -> None:
    with signals_held():
        pass
    assert signal.getsignal(signal.SIGTERM) is _end


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with signals_held():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.raise_signal(signal.SIGTERM)


def test_another_thread_holds_nothing() -> None:
    seen = []

    def work() -> None:
        with signals_held():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [_end]


def test_a_program_that_runs_already_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when the program runs and its object has not been handed out."""
    started = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            started.append(self.pid)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        LiveHost().run(("sleep", "300"), deadline_s=60)
    assert started
    assert not [one for one in processes() if one.pid in started and one.alive]
