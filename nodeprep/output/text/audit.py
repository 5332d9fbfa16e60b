"""The page of `audit` and `diagnose`: verdict, first thing to do, findings, gaps, GPUs, tree."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.facts import IommuGroup, NodeFacts
from nodeprep.model.report import AuditReport
from nodeprep.output import words as phrase
from nodeprep.output.text.findings import (
    findings_section,
    first_lines,
    unknown_section,
    worst_style,
)
from nodeprep.output.text.gpus import gpus_section
from nodeprep.output.text.look import (
    CAREFUL,
    QUIET,
    Look,
    blank,
    labelled,
    mixed,
    say,
    verdict_lines,
)
from nodeprep.output.text.tree import tree_section
from nodeprep.output.verdict import audit_line


def audit_page(report: AuditReport, look: Look) -> Iterator[RenderableType]:
    findings, unknown, facts = report.findings, report.unknown, report.facts
    yield from _head(report, look)
    yield blank()
    yield labelled((label, say(text)) for label, text in _about(report, facts, look.dot) if text)
    yield from findings_section(findings, look)
    yield from unknown_section(unknown)
    yield from gpus_section(facts, look)
    yield from tree_section(facts, findings, look)
    yield blank()
    yield from _head(report, look)


def _head(report: AuditReport, look: Look) -> Iterator[RenderableType]:
    """Verdict, reason and first step: the first lines, and the last ones where the prompt is."""
    line = audit_line(report)
    yield from verdict_lines(line, worst_style(report.findings, report.unknown), look)
    yield from first_lines(line.step, "")
    labels = [(f"  [{one.upper()}]", CAREFUL) for one in phrase.origin_labels(report.facts)]
    tally = phrase.tally(report.findings, report.unknown)
    name = report.facts.machine or "this node"
    yield mixed((", ".join(part for part in (name, tally) if part), QUIET), *labels)


def _about(report: AuditReport, facts: NodeFacts, dot: str) -> Iterator[tuple[str, str]]:
    platform = facts.platform
    yield "platform", f" {dot} ".join(_platform(facts))
    yield "driver", f"NVIDIA {platform.driver_version}" if platform.driver_version else "not known"
    yield "iommu", _iommu(facts)
    reader = {True: "as root", False: "not as root", None: ""}[facts.is_root]
    boot = f"boot {report.boot_id[:8]}" if report.boot_id else ""
    yield "read", f" {dot} ".join(part for part in (report.collected_at, reader, boot) if part)


def _platform(facts: NodeFacts) -> Iterator[str]:
    platform = facts.platform
    cpu = platform.cpu_model or platform.cpu_vendor
    if cpu:
        yield cpu
    if platform.sockets is not None:
        yield phrase.count(platform.sockets, "socket")
    if platform.numa_nodes is not None:
        yield phrase.count(platform.numa_nodes, "NUMA node")
    if platform.virtualization is None:
        yield "bare metal or guest: not known"
    elif platform.virtualization == "none":
        yield "bare metal"
    else:
        yield f"guest of {platform.virtualization}"
    if platform.kernel_release:
        yield f"Linux {platform.kernel_release}"
    if platform.lockdown not in (None, "none"):
        yield f"lockdown {platform.lockdown}"


def _iommu(facts: NodeFacts) -> str:
    if facts.platform.iommu_enabled is None:
        return "not known"
    if not facts.platform.iommu_enabled:
        return "off"
    kinds = {group.type or "type not known" for group in _gpu_groups(facts)}
    return f"on, GPU groups: {', '.join(sorted(kinds))}" if kinds else "on"


def _gpu_groups(facts: NodeFacts) -> Iterator[IommuGroup]:
    for gpu in facts.gpus:
        function = facts.functions.get(gpu.bdf)
        number = None if function is None else function.iommu_group
        if number is not None and number in facts.iommu_groups:
            yield facts.iommu_groups[number]
