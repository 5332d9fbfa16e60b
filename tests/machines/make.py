"""Writes the machines that ship: `python -m tests.machines.make [DIR]`.

A built node is asked every question that nodeprep asks, through the recording host, so that a file
holds what a replay needs and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

from nodeprep import __version__
from nodeprep.facts.collect import collect
from nodeprep.host.recording import RecordingHost
from nodeprep.model.snapshot import Snapshot
from nodeprep.resources import MACHINES
from nodeprep.settings import DEFAULT_CONFIG, Accelerators
from tests.machines.catalogue import MACHINES_BUILT, Machine

COLLECTED_AT = "2026-01-01T00:00:00Z"


def record(machine: Machine) -> Snapshot:
    """The snapshot of one built node."""
    node = machine.build()
    host = RecordingHost(node.host())
    facts = collect(host, Accelerators())
    host.read_text(str(DEFAULT_CONFIG))
    snapshot = host.snapshot(
        tool_version=__version__,
        collected_at=COLLECTED_AT,
        boot_id=node.boot_id,
        notes=node.notes,
    )
    measured = machine.measurements(facts)
    programs = {*snapshot.programs, *node.programs, *(one.argv[0] for one in measured)}
    return replace(
        snapshot,
        commands=(*snapshot.commands, *measured),
        programs=tuple(sorted(programs)),
    )


def encode(document: Snapshot | dict[str, object]) -> bytes:
    """The text of a file, stable and readable in a diff."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def main(folder: Path) -> None:
    for machine in MACHINES_BUILT:
        (folder / f"{machine.name}.json").write_bytes(encode(record(machine)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else MACHINES)
