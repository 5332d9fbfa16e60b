"""What `nvidia-smi -L` lists."""

from __future__ import annotations

from nodeprep.model.base import Record


class MigListing(Record, frozen=True):
    """One MIG device below a GPU."""

    profile: str
    """`1g.10gb`."""
    index: int
    uuid: str


class GpuListing(Record, frozen=True):
    index: int
    name: str
    """Untrusted text."""
    uuid: str | None
    """None when the line is cut before it."""
    mig: tuple[MigListing, ...] = ()
