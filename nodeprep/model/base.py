"""The two bases of every type: a frozen record, and a document with its schema."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A frozen value. `None` in a field means: not known."""


class Document(Record, frozen=True, kw_only=True):
    """What every JSON document carries beside its own content."""

    schema: str
    """Name and version, `nodeprep.report/1`."""
    tool_version: str
    boot_id: str | None
    """/proc/sys/kernel/random/boot_id of the machine spoken about."""
    collected_at: str
    """RFC 3339, UTC."""
