"""All checks over one node, the findings best first, and the list of what is not known."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from fnmatch import fnmatchcase

from msgspec.structs import replace

from nodeprep.audit.registry import all_checks
from nodeprep.audit.view import View
from nodeprep.errors import UsageError
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Evidence, Finding, Severity, Unknown
from nodeprep.settings import Settings, Waiver
from nodeprep.units import count


def audit(
    facts: NodeFacts, settings: Settings, today: date, only: tuple[int, int] | None = None
) -> tuple[Finding, ...]:
    """Findings, most severe first; inside one severity in the order of the checks.

    `today` decides which waivers still hold.  `only`: two GPU indices, for the findings of one
    pair; whatever concerns the whole node is among them.
    """
    view = View(facts, settings, only)
    found = [finding for _, run in all_checks() for finding in run(view)]
    waived = [_waive(finding, settings.waivers, today) for finding in found]
    ordered = sorted(waived, key=lambda finding: finding.severity.rank)
    if (
        only is None
        and facts.gpus
        and all(finding.severity is Severity.INFO for finding in ordered)
    ):
        ordered.insert(0, _healthy(view))
    return tuple(ordered)


def unknowns(facts: NodeFacts) -> tuple[Unknown, ...]:
    """What a collector could not learn; without a GPU nobody misses its driver."""
    return tuple(
        Unknown(subject=status.name, reason=status.error or "", hint=status.hint or "")
        for status in facts.statuses
        if not status.ok and (facts.gpus or status.name != "gpu-driver")
    )


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity among the findings that count."""
    counting = [finding.severity for finding in findings if finding.counts]
    return min(counting, key=lambda severity: severity.rank, default=None)


def _healthy(view: View) -> Finding:
    facts = view.facts
    judged = [path for path in view.paths if not path.over_nvlink]
    summary = (
        f"nothing wrong in what was read: {count(len(facts.gpus), 'GPU')}, "
        f"{count(len(facts.pairs), 'pair')}, {count(len(view.gpu_ports()), 'port')} above them"
    )
    return Finding(
        id="healthy",
        severity=Severity.INFO,
        subject="node",
        summary=summary,
        cause="no check found a fault",
        evidence=(
            Evidence(
                source="facts",
                text=f"{count(len(facts.functions), 'PCI function')}, "
                f"{count(len(judged), 'pair')} over PCIe, "
                f"{len(view.paths) - len(judged)} over NVLink",
            ),
        ),
    )


def _waive(finding: Finding, waivers: tuple[Waiver, ...], today: date) -> Finding:
    for waiver in waivers:
        if waiver.id != finding.id or not fnmatchcase(finding.subject, waiver.subject):
            continue
        if today <= _expiry(waiver):
            return replace(finding, waived=True)
    return finding


def _expiry(waiver: Waiver) -> date:
    try:
        return date.fromisoformat(waiver.expires)
    except ValueError:
        raise UsageError(
            f"waiver of {waiver.id}: {waiver.expires!r} is no date", hint="write 2027-01-31"
        ) from None
