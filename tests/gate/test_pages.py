"""The gate's documents against its code."""

from __future__ import annotations

import re
from pathlib import Path

from nodeprep.gate.finding_ids import GATE_IDS
from nodeprep.gate.table import TABLE
from nodeprep.gate.table_page import markdown, model_only
from nodeprep.model.gate import GateVerdict


def test_the_table_in_the_documents_is_the_one_that_is_judged_by(checkout: Path) -> None:
    """Made anew with: python -m nodeprep.gate.table_page"""
    assert markdown() in (checkout / "docs" / "gate.md").read_text()


def test_what_rests_on_a_model_says_so() -> None:
    rows = [line for line in markdown().splitlines() if "**model only**" in line]
    lines = [line for line in markdown().splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + len(TABLE) + sum(row.large is not None for row in TABLE)
    named = {", ".join(cell.strip() for cell in row.split("|")[1:3]) + " GPUs" for row in rows}
    assert named == set(model_only())
    assert len(named) == sum(not row.verified for row in TABLE)
    assert any(row.startswith("| pcie4-switch-p2p | 2-8 |") for row in rows)


def test_every_verdict_is_explained(checkout: Path) -> None:
    page = (checkout / "docs" / "gate.md").read_text()
    for verdict in GateVerdict:
        assert f"\n| {verdict.value} | " in page


def test_every_finding_the_gate_makes_is_declared(checkout: Path) -> None:
    """Pages exist for the declared ones: tests/test_docs.py."""
    written = {
        one
        for path in (checkout / "nodeprep" / "gate").glob("*.py")
        for one in re.findall(r'\bid="([a-z0-9-]+)"|P2pStatus\.\w+: "([a-z0-9-]+)"',
                              path.read_text())
    }  # fmt: skip
    found = {one or other for one, other in written}
    assert found <= set(GATE_IDS)
    assert len(found) > 12
