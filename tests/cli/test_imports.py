"""Start-up: what a command does not need it does not import. Names, not milliseconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "jinja2", "rich", "pynvml", "psutil", "pyudev", "urllib.request", "http.client",
    "prometheus_client", "yaml", "asyncio", "logging",
}  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["audit", "--machine", "l40s-acs", "--format", "json", "--fail-on", "never"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_only_what_is_needed_is_imported(arguments: list[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    if arguments[0] == "audit":
        arguments = [*arguments, "--state-dir", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "nodeprep", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    imported = {
        line.rpartition("|")[2].strip()
        for line in result.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "nodeprep.cli" in imported
    assert not HEAVY & imported
