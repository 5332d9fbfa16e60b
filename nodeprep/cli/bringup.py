"""`nodeprep bringup`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import click
from msgspec.structs import replace

from nodeprep.bringup import BringupOptions, bring_up
from nodeprep.cli.options import BUSBW, PATH, Opening, session_options
from nodeprep.cli.program import own_program
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, NodeprepError, StateError
from nodeprep.model.facts import Origin
from nodeprep.model.finding import Severity
from nodeprep.model.report import NodeVerdict, Report
from nodeprep.output.json import dump
from nodeprep.output.progress import progress
from nodeprep.state import BRINGUP_LOCK, RUN_DIR, STATE_DIR, StateStore

RENDERED = Path("/etc/nodeprep/rendered")
_LOCK_DEADLINE_S = 60.0


@click.command("bringup")
@click.option(
    "-o", "--out", "out_dir", type=PATH, metavar="DIR",
    help="Where rendered files go. Default: /etc/nodeprep/rendered; in replay the state folder.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Collect, audit and plan; change nothing.")
@click.option("--binary", metavar="PATH", help="all_reduce_perf to use.")
@click.option("--image", metavar="IMAGE", help="Container image with nccl-tests, already pulled.")
@click.option("--min-busbw", type=BUSBW, metavar="GB/S", help="Least bus bandwidth to pass.")
@click.option(
    "--two-arms/--one-arm", default=None, help="Measure once more with peer-to-peer off, or never."
)
@session_options(later=True)
def command(
    session: Opening,
    out_dir: Path | None,
    dry_run: bool,
    binary: str | None,
    image: str | None,
    min_busbw: float | None,
    two_arms: bool | None,
) -> int:
    """The boot run: audit, free GPU paths, measure, plan memory, render, report.

    With --machine or --snapshot everything runs on the recording: nothing of this computer is read
    or changed, and every measurement is labelled simulated.
    """
    opened = _open(session)
    options = BringupOptions(
        out_dir=(out_dir or _default_out(opened)).absolute(),
        today=opened.today,
        fail_on=None if opened.fail_on == "never" else Severity(opened.fail_on),
        dry_run=dry_run,
        binary=binary,
        image=image,
        min_busbw_gbps=min_busbw,
        two_arms=two_arms,
        program=own_program(),
        config=opened.config,
        allow_simulated=os.environ.get("NODEPREP_ALLOW_SIMULATED") == "1",
    )
    if dry_run:
        report = _run(opened, options)
    else:
        with opened.store.lock(_LOCK_DEADLINE_S, BRINGUP_LOCK):
            report = _keep(opened, _run(opened, options), options)
    opened.emit(report)
    return report.exit_status


def _open(opening: Opening) -> Session:
    """The session; a live node whose run cannot even begin is not ready any more."""
    try:
        return opening.open()
    except NodeprepError:
        if opening.live:
            with suppress(StateError):
                StateStore(STATE_DIR, opening.run_dir or RUN_DIR).remove_ready()
        raise


def _run(session: Session, options: BringupOptions) -> Report:
    with progress(sys.stderr) as shown:
        return bring_up(session.host, session.settings, session.store, options, shown.stage)


def _keep(session: Session, report: Report, options: BringupOptions) -> Report:
    """Writes report and stamp; a report that cannot be kept is still printed, and not ready."""
    try:
        session.store.write_report(dump(report))
        _stamp_ready(session, report, options)
    except StateError as error:
        return replace(
            report,
            verdict=NodeVerdict.NOT_READY,
            exit_status=report.exit_status or int(Exit.ERROR),
            reasons=(*report.reasons, f"the report cannot be kept: {error.message}"),
        )
    return report


def _default_out(session: Session) -> Path:
    live = session.host.origin is Origin.LIVE
    return RENDERED if live else session.store.state_dir / "rendered"


def _stamp_ready(session: Session, report: Report, options: BringupOptions) -> None:
    """The stamp comes last, only on a live node, and never for a simulated measurement."""
    if session.host.origin is not Origin.LIVE:
        return
    trusted = not report.simulated or options.allow_simulated
    ready = report.verdict is NodeVerdict.READY and report.exit_status == Exit.OK
    if ready and trusted and report.boot_id:
        session.store.write_ready(report.boot_id, simulated=report.simulated)
    else:
        session.store.remove_ready()
