"""`nodeprep bringup`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from nodeprep.bringup import BringupOptions, bring_up
from nodeprep.cli.options import BUSBW, PATH, session_options
from nodeprep.cli.program import own_program
from nodeprep.cli.session import Session
from nodeprep.errors import Exit
from nodeprep.model.facts import Origin
from nodeprep.model.finding import Severity
from nodeprep.model.report import NodeVerdict, Report
from nodeprep.output.json import dump
from nodeprep.output.progress import progress

RENDERED = Path("/etc/nodeprep/rendered")


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
@session_options()
def command(
    session: Session,
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
    options = BringupOptions(
        out_dir=(out_dir or _default_out(session)).absolute(),
        today=session.today,
        fail_on=None if session.fail_on == "never" else Severity(session.fail_on),
        dry_run=dry_run,
        binary=binary,
        image=image,
        min_busbw_gbps=min_busbw,
        two_arms=two_arms,
        program=own_program(),
        allow_simulated=os.environ.get("NODEPREP_ALLOW_SIMULATED") == "1",
    )
    with progress(sys.stderr) as shown:
        report = bring_up(session.host, session.settings, session.store, options, shown.stage)
    if not dry_run:
        session.store.write_report(dump(report))
        _stamp_ready(session, report, options)
    session.emit(report)
    return report.exit_status


def _default_out(session: Session) -> Path:
    live = session.host.origin is Origin.LIVE
    return RENDERED if live else session.store.state_dir / "rendered"


def _stamp_ready(session: Session, report: Report, options: BringupOptions) -> None:
    """The stamp comes last, only on a live node, and never for a simulated measurement."""
    live = session.host.origin is Origin.LIVE
    trusted = not report.simulated or options.allow_simulated
    if live and trusted and report.verdict is NodeVerdict.READY and report.exit_status == Exit.OK:
        session.store.write_ready(report.boot_id or "", simulated=report.simulated)
