"""`nodeprep machines`."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import click

from nodeprep.cli.options import output_options
from nodeprep.errors import Exit

if TYPE_CHECKING:
    from nodeprep.model.report import MachineEntry
    from nodeprep.model.snapshot import Snapshot

_MOST = 100
"""Characters of a summary."""


@click.command("machines")
@output_options
@click.option("-v", "--verbose", is_flag=True, help="All notes: what each rests on. JSON has them.")
def command(format: str, color: str, verbose: bool) -> int:
    """The recorded machines that ship; use one with --machine NAME."""
    from nodeprep.cli.session import emit
    from nodeprep.host.machines import machine_names
    from nodeprep.model.report import MachinesReport
    from nodeprep.stamp import stamp

    notes = verbose or format == "json"
    entries = tuple(_entry(name, notes=notes) for name in machine_names())
    emit(MachinesReport(**stamp("machines", None), machines=entries), format, color)
    return Exit.OK


def _entry(name: str, *, notes: bool) -> MachineEntry:
    from nodeprep.host.machines import expected_exit, machine_file
    from nodeprep.host.replay import load_snapshot
    from nodeprep.model.report import MachineEntry

    snapshot = load_snapshot(machine_file(name))
    return MachineEntry(
        name=name,
        constructed=snapshot.constructed,
        notes=snapshot.notes if notes else (),
        summary=_summary(next(iter(snapshot.notes), "")),
        gpus=_gpus(snapshot),
        exit_status=expected_exit(name),
    )


def _summary(note: str) -> str:
    """The first sentence of a note, or as many of its clauses as fit."""
    sentence = re.split(r"\.\s", note)[0].rstrip(".")
    if len(sentence) <= _MOST:
        return sentence
    end = max(sentence.rfind(mark, 0, _MOST) for mark in (": ", ", ", " "))
    return sentence[:end].rstrip(",:;")


def _gpus(snapshot: Snapshot) -> str:
    """`4 x NVIDIA L40S`, as the driver of the recorded machine names them."""
    from nodeprep.facts.collect import collect
    from nodeprep.host.replay import ReplayHost
    from nodeprep.settings import Accelerators

    gpus = collect(ReplayHost(snapshot), Accelerators(), names=False).gpus
    names = Counter(gpu.name or "name not known" for gpu in gpus)
    return ", ".join(f"{number} x {name}" for name, number in names.items())
