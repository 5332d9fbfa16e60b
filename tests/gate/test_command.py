"""`nodeprep gate` as it is typed, with the double."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from nodeprep.errors import Exit
from tests.gate.doubles import REDIRECTING, DoubledNode
from tests.simulator.install import install

KEYS = {
    "verdict", "measured_gbps", "threshold_gbps", "threshold_source", "expected_gbps", "rows",
    "transports", "simulated",
}  # fmt: skip


def gate(folder: Path, *options: str, allowed: bool = True, **node: Any) -> tuple[int, Any, str]:
    """Exit status, document and standard error."""
    doubled = DoubledNode(folder, **node)
    program = install(folder, doubled.tree.root)
    environment = {**os.environ, "NODEPREP_ALLOW_SIMULATED": "1" if allowed else "0"}
    answer = subprocess.run(
        (sys.executable, "-m", "nodeprep", "gate", "--sysfs-root", str(doubled.tree.root),
         "--binary", str(program), "--state-dir", str(folder / "state"), "--format", "json",
         *options),
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    return answer.returncode, json.loads(answer.stdout), answer.stderr


def test_a_document_with_the_keys_of_the_contract(tmp_path: Path) -> None:
    status, document, errors = gate(tmp_path, "--two-arms")
    assert (status, errors) == (Exit.OK, "")
    assert document.keys() >= KEYS
    assert (document["verdict"], document["simulated"]) == ("pass", True)
    assert [arm["name"] for arm in document["arms"]] == ["p2p-on", "p2p-off"]
    kept = json.loads((tmp_path / "state" / "history" / "gate.json").read_text())
    assert kept["runs"][0]["measured_gbps"] == 24.0


def test_a_failure_that_is_diagnosed(tmp_path: Path) -> None:
    status, document, _ = gate(tmp_path, "--diagnose", control=REDIRECTING)
    assert (status, document["verdict"]) == (Exit.GATE_FAILED, "fail-bandwidth")
    assert document["findings"][0]["id"] == "acs-redirect-on-gpu-path"


def test_simulated_output_counts_only_where_it_is_allowed(tmp_path: Path) -> None:
    status, document, _ = gate(tmp_path, allowed=False)
    assert (status, document["verdict"]) == (Exit.UNVERIFIED, "invalid-output")
