"""`nodeprep render`."""

from __future__ import annotations

from pathlib import Path

import click

from nodeprep.cli.options import PATH, session_options
from nodeprep.cli.program import own_program
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, UsageError
from nodeprep.facts.collect import collect
from nodeprep.facts.resources import disk_room
from nodeprep.memory.plan import plan
from nodeprep.memory.request import request_for
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.gate import GateResult
from nodeprep.model.report import RenderReport, Report
from nodeprep.model.serving import ServingConfig
from nodeprep.serving.files import difference, write
from nodeprep.serving.install import INSTALLED_UNITS, install
from nodeprep.serving.render import INSTALL_DIR, render_all, units_dir
from nodeprep.serving.tune import tune_groups
from nodeprep.settings import ServingPolicy, override
from nodeprep.shapes import shape_of
from nodeprep.stamp import stamp


@click.command("render")
@click.option("-o", "--out", "out_dir", type=PATH, metavar="DIR")
@click.option("--model", help="Default: serving.model of the configuration.")
@click.option("--vllm-version", metavar="V", help="Default: the newest release known.")
@click.option("--diff", "show_diff", is_flag=True, help="Show what would change; write nothing.")
@click.option(
    "--install", "to_install", is_flag=True,
    help="Write to /etc/nodeprep/rendered and install the units. Needs root.",
)  # fmt: skip
@click.option(
    "--form", type=click.Choice(list(INSTALLED_UNITS)), default="docker", show_default=True,
    help="Which unit --install takes.",
)  # fmt: skip
@click.option(
    "--unit-dir", type=PATH, default=Path("/etc/systemd/system"),
    metavar="DIR", show_default=True, help="Where --install puts units.",
)  # fmt: skip
@session_options()
def command(
    session: Session,
    out_dir: Path | None,
    model: str | None,
    vllm_version: str | None,
    show_diff: bool,
    to_install: bool,
    form: str,
    unit_dir: Path,
) -> int:
    """vLLM configuration, environment, docker, podman and systemd files, each knob with its reason.

    Nothing is measured here: P2P counts as verified only where `bringup` measured it on this boot.
    """
    if out_dir is None and not to_install:
        raise UsageError("no folder to render into", hint="give -o DIR, or --install")
    out = (out_dir or Path(INSTALL_DIR)).absolute()
    policy = override(session.settings, "serving", model=model, vllm_version=vllm_version).serving
    facts = collect(session.host, session.settings.accelerators, names=False)
    configs = _configs(session, facts, policy)
    texts = render_all(
        configs,
        install_dir=units_dir(out),
        program=own_program(),
        config_file=session.config,
    )
    if to_install and not show_diff:
        files, said = install(
            session.host, session.store, texts, configs, out=out, unit_dir=unit_dir, form=form,
            boot_id=facts.boot_id,
        )  # fmt: skip
    else:
        files, said = write(texts, out, dry_run=show_diff), ()
    session.emit(
        RenderReport(
            **stamp("render", facts.boot_id),
            files=files,
            knobs=configs[0].options + configs[0].env,
            warnings=tuple(dict.fromkeys([w for one in configs for w in one.warnings])) + said,
            simulated=configs[0].simulated,
            groups=tuple(one.gpu_indices for one in configs),
            diff=difference(texts, out) if show_diff else "",
        )
    )
    return Exit.OK


def _measured_on_this_boot(session: Session, boot_id: str | None) -> tuple[GateResult, ...]:
    """What `bringup` measured on this boot of a live node."""
    import msgspec

    if session.host.origin is not Origin.LIVE or boot_id is None:
        return ()
    content = session.store.read_report()
    try:
        report = None if content is None else msgspec.json.decode(content, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    return report.measured if report is not None and report.boot_id == boot_id else ()


def _configs(
    session: Session, facts: NodeFacts, policy: ServingPolicy
) -> tuple[ServingConfig, ...]:
    if policy.model is None:
        raise UsageError("no model to render for", hint="give --model, or set serving.model")
    shape = shape_of(policy.model)
    live = session.host.origin is Origin.LIVE
    return tune_groups(
        facts,
        _measured_on_this_boot(session, facts.boot_id),
        plan(shape, request_for(facts, policy)),
        policy,
        shape,
        disk_free_bytes=disk_room(session.host, policy.cache_dir) if live else None,
    )
