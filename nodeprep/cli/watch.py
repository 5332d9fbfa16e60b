"""`nodeprep watch`."""

from __future__ import annotations

import sys

import click

from nodeprep.acs.outcome import check_root
from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, UsageError
from nodeprep.model.facts import Origin
from nodeprep.model.report import WatchReport
from nodeprep.watch.look import Looker


@click.command("watch")
@click.option("--once", is_flag=True, help="Look once and end: 3 when a GPU is lost or redirected.")
@session_options()
def command(session: Session, once: bool) -> int:
    """Keep the ready stamp honest: lost GPUs, and ACS redirection that comes back.

    Looks after every burst of PCI events and every few minutes.  Redirection that came back is
    cleared again as acs.reapply says.  A lost GPU takes the ready stamp away and stops
    nodeprep-ready.target, and with it what serves.  Prints a report when something changed.
    """
    check_root(session.host)
    looker = Looker(session.host, session.settings, session.store, lambda: session.today)
    if once:
        report = looker.look("once")
        session.emit(report)
        return Exit.OK if report.paths_free and not report.lost else Exit.FINDINGS
    if session.host.origin is not Origin.LIVE:
        raise UsageError("only a live node has events", hint="add --once to look once")
    from nodeprep.watch.events import PciEvents
    from nodeprep.watch.loop import watch
    from nodeprep.watch.notify import Notifier

    def show(report: WatchReport) -> None:
        session.emit(report)
        sys.stdout.flush()

    with PciEvents() as events:
        watch(looker, events, Notifier(), session.settings.watch, show)
    return Exit.OK
