"""`nodeprep machines`."""

from __future__ import annotations

import click

from nodeprep.cli.options import output_options
from nodeprep.errors import Exit


@click.command("machines")
@output_options
def command(format: str, color: str) -> int:
    """The recorded machines that ship; use one with --machine NAME."""
    from nodeprep.cli.session import emit
    from nodeprep.host.machines import machine_file, machine_names
    from nodeprep.host.replay import load_snapshot
    from nodeprep.model.report import MachineEntry, MachinesReport
    from nodeprep.stamp import stamp

    snapshots = [(name, load_snapshot(machine_file(name))) for name in machine_names()]
    entries = tuple(
        MachineEntry(name=name, constructed=one.constructed, notes=one.notes)
        for name, one in snapshots
    )
    emit(MachinesReport(**stamp("machines", None), machines=entries), format, color)
    return Exit.OK
