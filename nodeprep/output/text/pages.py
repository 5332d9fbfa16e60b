"""Which page a document has.  Adding one is adding a file and a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import RenderableType

from nodeprep.model.gate import GateResult
from nodeprep.model.memory import MemoryPlan
from nodeprep.model.report import (
    AcsReport,
    AuditReport,
    ErrorReport,
    ExplainFindingReport,
    ExplainReport,
    LintReport,
    MachinesReport,
    PersistReport,
    RenderReport,
    Report,
    SnapshotReport,
    SweepReport,
    WatchReport,
)
from nodeprep.output.text.acs import acs_page
from nodeprep.output.text.audit import audit_page
from nodeprep.output.text.bringup import bringup_page
from nodeprep.output.text.error import error_page
from nodeprep.output.text.explain import explain_page
from nodeprep.output.text.finding_page import finding_page
from nodeprep.output.text.gate import gate_page
from nodeprep.output.text.lint import lint_page
from nodeprep.output.text.look import Look
from nodeprep.output.text.machines import machines_page
from nodeprep.output.text.memory import memory_page
from nodeprep.output.text.persist import persist_page
from nodeprep.output.text.render import render_page
from nodeprep.output.text.snapshot import snapshot_page
from nodeprep.output.text.sweep import sweep_page
from nodeprep.output.text.watch import watch_page

Page = Callable[[Any, Look], Iterator[RenderableType]]

PAGES: dict[type, Page] = {
    AuditReport: audit_page,
    Report: bringup_page,
    AcsReport: acs_page,
    PersistReport: persist_page,
    WatchReport: watch_page,
    ExplainReport: explain_page,
    ExplainFindingReport: finding_page,
    GateResult: gate_page,
    MemoryPlan: memory_page,
    RenderReport: render_page,
    LintReport: lint_page,
    MachinesReport: machines_page,
    SnapshotReport: snapshot_page,
    SweepReport: sweep_page,
    ErrorReport: error_page,
}


def page_of(kind: type) -> Page:
    """The page of a type or of the nearest type it is built on.  TypeError: there is none."""
    for one in kind.__mro__:
        if one in PAGES:
            return PAGES[one]
    raise TypeError(f"no page for {kind.__name__}")
