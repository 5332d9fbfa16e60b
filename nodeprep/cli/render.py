"""`nodeprep render`."""

from __future__ import annotations

from pathlib import Path

import click

from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, UsageError
from nodeprep.facts.collect import collect
from nodeprep.memory.plan import plan
from nodeprep.memory.request import request_for
from nodeprep.model.report import RenderReport
from nodeprep.serving.files import write
from nodeprep.serving.render import render
from nodeprep.serving.tune import tune
from nodeprep.settings import override
from nodeprep.shapes import shape_of
from nodeprep.stamp import stamp


@click.command("render")
@click.option(
    "-o", "--out", "out_dir", type=click.Path(path_type=Path), required=True, metavar="DIR"
)
@click.option("--model", help="Default: serving.model of the configuration.")
@click.option("--vllm-version", metavar="V", help="Default: the newest release known.")
@session_options()
def command(session: Session, out_dir: Path, model: str | None, vllm_version: str | None) -> int:
    """vLLM configuration, environment, docker and systemd files, each knob with its reason.

    Nothing is measured here: P2P counts as not verified. `bringup` renders after the gate.
    """
    policy = override(session.settings, "serving", model=model, vllm_version=vllm_version).serving
    if policy.model is None:
        raise UsageError("no model to render for", hint="give --model, or set serving.model")
    facts = collect(session.host, session.settings.accelerators, names=False)
    shape = shape_of(policy.model)
    memory = plan(shape, request_for(facts, policy))
    config = tune(facts, None, memory, policy, shape, p2p_verified=False)
    files = write(render(config), out_dir.absolute())
    session.emit(
        RenderReport(
            **stamp("render", facts.boot_id),
            files=files,
            knobs=config.options + config.env,
            warnings=config.warnings,
            simulated=config.simulated,
        )
    )
    return Exit.OK if memory.fits else Exit.FINDINGS
