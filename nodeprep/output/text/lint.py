"""The page of `lint`: the tally, what was read, findings, gaps."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.report import LintReport
from nodeprep.output import words as phrase
from nodeprep.output.text.findings import findings_section, unknown_section, worst_style
from nodeprep.output.text.look import Look, blank, headline, labelled, say


def lint_page(report: LintReport, look: Look) -> Iterator[RenderableType]:
    yield headline(
        phrase.audit_verdict(report.findings, report.unknown),
        worst_style(report.findings, report.unknown),
        note=phrase.count(len(report.files), "file"),
    )
    yield blank()
    yield labelled(
        (label, say(text))
        for label, text in (
            ("release", f"vLLM {report.vllm_version} ({report.version_source})"),
            ("servers", "; ".join(report.servers) or "none found"),
        )
    )
    yield from findings_section(report.findings, look)
    yield from unknown_section(report.unknown)
