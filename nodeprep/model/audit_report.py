"""What `audit` prints; apart from the other documents, since an audit has to start fast."""

from __future__ import annotations

from nodeprep.model.base import Document
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Finding, Unknown


class AuditReport(Document, frozen=True):
    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]
    facts: NodeFacts
