"""The head that every document carries."""

from __future__ import annotations

from typing import Any


def head(name: str) -> dict[str, Any]:
    return {
        "schema": f"nodeprep.{name}/1",
        "tool_version": "0.1.0",
        "boot_id": "0b5e0f3e-0000-4000-8000-000000000000",
        "collected_at": "2026-03-01T03:12:44Z",
    }
