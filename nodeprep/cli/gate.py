"""`nodeprep gate`."""

from __future__ import annotations

import os
import sys

import click
from msgspec.structs import asdict

from nodeprep.cli.options import BUSBW, gpu_list, session_options
from nodeprep.cli.session import Session
from nodeprep.facts.collect import collect_with_gpus
from nodeprep.gate.history import remember
from nodeprep.gate.outcome import exit_status
from nodeprep.gate.run import GateRequest, run_gate
from nodeprep.model.report import GateReport
from nodeprep.output.progress import progress
from nodeprep.stamp import now_utc, stamp


@click.command("gate")
@click.option("--binary", metavar="PATH", help="all_reduce_perf to use.")
@click.option("--image", metavar="IMAGE", help="Container image with nccl-tests, already pulled.")
@click.option("--gpus", type=gpu_list, metavar="LIST", help="Only these, as 0-3. Default: all.")
@click.option("--min-busbw", type=BUSBW, metavar="GB/S", help="Least bus bandwidth to pass.")
@click.option(
    "--two-arms/--one-arm", default=None, help="Measure once more with peer-to-peer off, or never."
)
@click.option("--diagnose", is_flag=True, help="After a failure: which pair, port or link it is.")
@click.option("--torch", is_flag=True, help="Measure with PyTorch, one process for each GPU.")
@click.option("--force", is_flag=True, help="Run although processes use the GPUs.")
@session_options()
def command(
    session: Session,
    binary: str | None,
    image: str | None,
    gpus: tuple[int, ...] | None,
    min_busbw: float | None,
    two_arms: bool | None,
    diagnose: bool,
    torch: bool,
    force: bool,
) -> int:
    """Run nccl-tests on the GPUs of this node and judge the result.

    Judged at the largest size, with data checking; never by exit status or by the printed average.
    """
    settings, host = session.settings, session.host
    request = GateRequest(
        binary=binary,
        image=image,
        min_busbw_gbps=min_busbw,
        allow_simulated=host.simulates or os.environ.get("NODEPREP_ALLOW_SIMULATED") == "1",
        force=force,
        two_arms=two_arms,
        diagnose=diagnose,
        torch=torch,
        expected_count=settings.accelerators.expected_count,
    )
    with progress(sys.stderr) as shown, shown.stage("gate") as step:
        facts = collect_with_gpus(host, settings.accelerators)
        group = gpus or tuple(gpu.index for gpu in facts.gpus)
        result = run_gate(host, facts, group, settings.gate, request, step.note)
    if not host.simulates:
        result = remember(session.store, facts, result, settings.gate, now_utc())
    session.emit(GateReport(**stamp("gate", facts.boot_id), **asdict(result)))
    return exit_status(result.verdict) or session.status_of(result.findings)
