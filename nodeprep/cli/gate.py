"""`nodeprep gate`."""

from __future__ import annotations

import os

import click
from msgspec.structs import asdict

from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.facts.collect import collect
from nodeprep.gate.outcome import exit_status
from nodeprep.gate.run import run_gate
from nodeprep.model.report import GateReport
from nodeprep.stamp import stamp


@click.command("gate")
@click.option("--binary", metavar="PATH", help="all_reduce_perf to use.")
@click.option("--min-busbw", type=float, metavar="GB/S", help="Least bus bandwidth to pass.")
@session_options()
def command(session: Session, binary: str | None, min_busbw: float | None) -> int:
    """Run nccl-tests on all GPUs of this node and judge the result.

    Judged at the largest size, with data checking; never by exit status or by the printed average.
    """
    facts = collect(session.host, session.settings.accelerators)
    simulated = os.environ.get("NODEPREP_ALLOW_SIMULATED") == "1"
    result = run_gate(
        session.host,
        facts,
        tuple(gpu.index for gpu in facts.gpus),
        session.settings.gate,
        binary=binary,
        min_busbw_gbps=min_busbw,
        allow_simulated=session.host.simulates or simulated,
    )
    session.emit(GateReport(**stamp("gate", facts.boot_id), **asdict(result)))
    return exit_status(result.verdict)
