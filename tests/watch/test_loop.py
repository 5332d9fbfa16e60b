"""When the daemon looks: the clock and the events are the test's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nodeprep.model.report import WatchReport
from nodeprep.settings import WatchPolicy
from nodeprep.stamp import stamp
from nodeprep.watch.look import Looker
from nodeprep.watch.loop import watch
from nodeprep.watch.notify import Notifier


class Script:
    """Events at their times; every wait moves the clock on."""

    def __init__(self, events: Sequence[tuple[float, str]], end: float) -> None:
        self.now = 0.0
        self._events = list(events)
        self._end = end
        self.waits: list[float] = []

    def wait(self, timeout_s: float) -> tuple[str, ...] | None:
        self.waits.append(timeout_s)
        if self._events and self._events[0][0] <= self.now + timeout_s:
            at, event = self._events.pop(0)
            self.now = max(self.now, at)
            return (event,)
        self.now += timeout_s
        return None if self.now >= self._end else ()

    def clock(self) -> float:
        return self.now


class Recorded(Looker):
    """Answers with prepared reports, and keeps when it was asked."""

    def __init__(self, script: Script, **changes: Any) -> None:
        self._script = script
        self._changes = changes
        self.looks: list[tuple[float, str]] = []

    def look(self, why: str) -> WatchReport:
        self.looks.append((round(self._script.now, 2), why))
        later = self._changes if len(self.looks) > 1 else {}
        fields: dict[str, Any] = {
            "why": why, "gpus": 4, "lost": (), "paths_free": True, "acs": "no GPU path redirects",
            "actions": (), "findings": (), "simulated": False,
        }  # fmt: skip
        return WatchReport(**stamp("watch", None), **(fields | later))


class Ear(Notifier):
    def __init__(self, watchdog_s: float | None = None) -> None:
        super().__init__({})
        self.watchdog_s = watchdog_s
        self.heard: list[str] = []

    def _send(self, *words: str) -> None:
        self.heard.append(words[0])


def run(
    events: Sequence[tuple[float, str]], end: float, ear: Ear | None = None, **changes: Any
) -> tuple[Recorded, list[WatchReport], Script]:
    script = Script(events, end)
    looker, shown = Recorded(script, **changes), list[WatchReport]()
    policy = WatchPolicy(debounce_s=2.0, interval_s=300.0)
    watch(looker, script, ear or Ear(), policy, shown.append, script.clock)
    return looker, shown, script


def test_a_burst_is_answered_once_at_its_end() -> None:
    burst = [(10.0, "add 0000:22:00.0"), (10.5, "add 0000:23:00.0"), (11.9, "bind 0000:23:00.0")]
    looker, _, _ = run(burst, end=100)
    assert looker.looks == [
        (0.0, "start"), (13.9, "add 0000:22:00.0, add 0000:23:00.0, bind 0000:23:00.0"),
    ]  # fmt: skip


def test_without_events_it_looks_at_every_interval() -> None:
    looker, shown, _ = run([], end=1000)
    assert [at for at, _ in looker.looks] == [0.0, 300.0, 600.0, 900.0]
    assert [why for _, why in looker.looks[1:]] == ["interval"] * 3
    assert len(shown) == 1, "only what is new is told"


def test_a_bus_that_never_rests_is_looked_at_in_the_end() -> None:
    storm = [(at * 1.0, f"change 0000:{at:02x}:00.0") for at in range(1, 60)]
    looker, _, _ = run(storm, end=59.5)
    assert [at for at, _ in looker.looks][:2] == [0.0, 21.0]
    assert "and 15 more" in looker.looks[1][1]


def test_the_watchdog_hears_often_enough() -> None:
    ear = Ear(watchdog_s=20.0)
    _, _, script = run([], end=200, ear=ear)
    assert max(script.waits) <= 10.0
    assert ear.heard.count("WATCHDOG=1") >= 19
    assert (ear.heard[0], ear.heard[-1]) == ("READY=1", "STOPPING=1")


@pytest.mark.parametrize(
    "changes",
    [{"lost": ("0000:24:00.0 (gone from the bus)",)}, {"paths_free": False}, {"gpus": 3},
     {"actions": ("wrote 0011 to 0000:22:00.0 (001d)",)}],
)  # fmt: skip
def test_what_is_new_is_told(changes: dict[str, Any]) -> None:
    _, shown, _ = run([(1.0, "remove 0000:24:00.0")], end=10, **changes)
    assert len(shown) == 2


def test_an_end_while_events_are_pending_does_not_look_again() -> None:
    looker, _, _ = run([(9.5, "add 0000:22:00.0")], end=10)
    assert [why for _, why in looker.looks] == ["start"]
