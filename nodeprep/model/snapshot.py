"""One node in one portable file: what a host was asked, and what it answered."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Document, Record
from nodeprep.model.pci import Bdf
from nodeprep.model.readings import NvmlReading, ResourcesReading

SNAPSHOT_SCHEMA = "nodeprep.snapshot/1"
_DECISIVE = "NCCL_P2P_"
"""Variables that decide what a program measures: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL."""


class Missing(Enum):
    """Why there is no answer."""

    NOT_FOUND = "not-found"
    DENIED = "denied"
    TIMED_OUT = "timed-out"


class RecordedFile(Record, frozen=True, forbid_unknown_fields=True):
    """A file as it was read: text, or stretches of bytes, or the reason for neither."""

    text: str | None = None
    size: int | None = None
    """Bytes that could be read; None: no read met the end of the file."""
    segments: dict[str, str] = {}
    """Offset in decimal -> bytes in hex: only what was asked for."""
    error: Missing | None = None


class RecordedCommand(Record, frozen=True, forbid_unknown_fields=True):
    """A program as it answered.

    Of several recordings of one command the first whose `while_registers` holds is replayed: so
    that a measurement follows the ACS words that the replayed machine has at that moment.
    """

    argv: tuple[str, ...]
    status: int = 0
    stdout: str = ""
    stderr: str = ""
    error: Missing | None = None
    env: dict[str, str] = {}
    """The variables of its environment that decide what it measures."""
    while_registers: dict[Bdf, str] = {}
    """ACS Control words that must hold, `0011`; empty: always."""
    simulated: bool = False
    """The answer was computed, not recorded."""


class Snapshot(Document, frozen=True, forbid_unknown_fields=True):
    machine: str | None
    constructed: bool
    """Made by a builder; False: recorded on a node."""
    redacted: bool
    notes: tuple[str, ...]
    """What the recording shows, and the public facts it rests on."""
    is_root: bool
    files: dict[str, RecordedFile] = {}
    directories: dict[str, tuple[str, ...]] = {}
    links: dict[str, str] = {}
    """Symbolic link -> what is written in it."""
    programs: tuple[str, ...] = ()
    """Programs that were there, whether or not they were run."""
    commands: tuple[RecordedCommand, ...] = ()
    nvml: NvmlReading | None = None
    nvml_error: str | None = None
    resources: ResourcesReading | None = None


def decisive(env: dict[str, str] | None) -> dict[str, str]:
    """The part of an environment that tells one recorded run from another, in order of names."""
    return {name: env[name] for name in sorted(env or {}) if name.startswith(_DECISIVE) and env}
