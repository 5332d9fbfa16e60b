"""How a command prints its document."""

from __future__ import annotations

import os
import sys
from typing import Any


def emit(document: Any, format: str, color: str) -> None:
    """Prints any document: JSON, brief lines, or text for a person."""
    import shutil

    from nodeprep.output.choose import render

    text = render(
        document,
        format,
        stream_is_tty=sys.stdout.isatty(),
        color=color,
        env=os.environ,
        width=shutil.get_terminal_size((100, 24)).columns,
    )
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
