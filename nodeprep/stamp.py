"""What every document says of its own making."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TypedDict

from nodeprep import __version__


class Stamp(TypedDict):
    schema: str
    tool_version: str
    boot_id: str | None
    collected_at: str


def stamp(name: str, boot_id: str | None, version: int = 1) -> Stamp:
    """The head of a document: `**stamp("audit", facts.boot_id)`."""
    return Stamp(
        schema=f"nodeprep.{name}/{version}",
        tool_version=__version__,
        boot_id=boot_id,
        collected_at=now_utc(),
    )


def now_utc() -> str:
    """RFC 3339 to the second, UTC."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
