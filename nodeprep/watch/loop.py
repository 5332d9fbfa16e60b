"""When to look: after the bus has become quiet, and at every interval; and the watchdog's due."""

from __future__ import annotations

import time
from collections.abc import Callable

from nodeprep.model.report import WatchReport
from nodeprep.settings import WatchPolicy
from nodeprep.watch.events import Events
from nodeprep.watch.look import Looker
from nodeprep.watch.notify import Notifier

_LONGEST_POSTPONED = 10
"""A bus that never becomes quiet is looked at after this many times the debounce."""
_SHOWN_EVENTS = 6


def watch(
    looker: Looker,
    events: Events,
    notifier: Notifier,
    policy: WatchPolicy,
    show: Callable[[WatchReport], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Runs until the events end.  `show` gets the first report and every one that tells something.

    The watchdog hears from this loop alone: a look that hangs is silence.
    """
    first = looker.look("start")
    show(first)
    notifier.ready(_status(first))
    last, looked = first, clock()
    pending: list[str] = []
    began = heard = looked
    while True:
        due = looked + policy.interval_s
        if pending:
            due = min(
                due, heard + policy.debounce_s, began + policy.debounce_s * _LONGEST_POSTPONED
            )
        got = events.wait(_nap(due - clock(), notifier))
        if got is None:
            notifier.stopping()
            return
        notifier.alive()
        if got:
            heard = clock()
            began = began if pending else heard
            pending += got
        elif clock() >= due:
            report = looker.look(_why(pending))
            looked, pending = clock(), []
            notifier.alive()
            notifier.status(_status(report))
            if _tells(report, last):
                show(report)
            last = report


def _nap(left_s: float, notifier: Notifier) -> float:
    """How long to wait at most: half of what the watchdog allows."""
    most = left_s if notifier.watchdog_s is None else min(left_s, notifier.watchdog_s / 2)
    return max(0.0, most)


def _why(pending: list[str]) -> str:
    if not pending:
        return "interval"
    more = f" and {len(pending) - _SHOWN_EVENTS} more" if len(pending) > _SHOWN_EVENTS else ""
    return ", ".join(pending[:_SHOWN_EVENTS]) + more


def _tells(report: WatchReport, last: WatchReport) -> bool:
    """Whether the report has something that the last one had not."""
    return bool(report.actions) or (report.lost, report.paths_free, report.acs, report.gpus) != (
        last.lost, last.paths_free, last.acs, last.gpus,
    )  # fmt: skip


def _status(report: WatchReport) -> str:
    lost = f"{len(report.lost)} lost; " if report.lost else ""
    return f"{report.gpus} GPUs; {lost}{report.acs}"
