"""Findings are data: id, severity, subject, cause, evidence, remedy."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record


class Severity(Enum):
    CRITICAL = "critical"
    """Do not register the node."""
    WARNING = "warning"
    """Works, worse than it should."""
    INFO = "info"
    """A fact."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return ("critical", "warning", "info").index(self.value)


class Evidence(Record, frozen=True):
    source: str
    """File, register or command the text comes from."""
    text: str


class Remedy(Record, frozen=True):
    text: str
    commands: tuple[str, ...] = ()
    """Lines a person can run as they stand."""
    needs_reboot: bool = False
    risk: str = ""


class Finding(Record, frozen=True):
    id: str
    severity: Severity
    subject: str
    """BDF, GPU pair, port, option..."""
    summary: str
    cause: str
    evidence: tuple[Evidence, ...] = ()
    remedy: Remedy | None = None
    resolved: bool = False
    """Repaired and verified in the same run."""
    waived: bool = False

    @property
    def counts(self) -> bool:
        """Whether it counts for --fail-on and for the verdict."""
        return not (self.resolved or self.waived)


class Unknown(Record, frozen=True):
    """What could not be known, why, and how to learn it."""

    subject: str
    reason: str
    hint: str = ""
