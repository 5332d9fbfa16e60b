"""Where this very program lies."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def own_program() -> str:
    """The full path of the nodeprep that runs, for the units it writes."""
    called = Path(sys.argv[0])
    if called.name == "nodeprep" and called.is_file() and os.access(called, os.X_OK):
        return str(called.absolute())
    return shutil.which("nodeprep") or "/usr/bin/nodeprep"
