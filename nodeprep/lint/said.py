"""How a rule says what it found; pure."""

from __future__ import annotations

from nodeprep.lint.server import Server
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity

IDS = (
    "container-entrypoint",
    "container-gpus-missing",
    "container-image-unpinned",
    "container-port-unserved",
    "container-privileges",
    "container-shm",
    "secret-in-plain-sight",
    "server-exposed",
    "server-without-key",
    "vllm-config-form",
    "vllm-flag-not-in-release",
    "vllm-flag-unknown",
    "vllm-forms-differ",
    "vllm-memory-does-not-fit",
    "vllm-metric-renamed",
    "vllm-options-conflict",
    "vllm-p2p-unverified",
    "vllm-setting-dropped",
    "vllm-setting-without-effect",
    "vllm-value-invalid",
)
"""Every finding that a rule here may say."""

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO


def say(
    server: Server,
    id: str,
    severity: Severity,
    subject: str,
    summary: str,
    *,
    cause: str,
    do: str,
    line: int | None = None,
    text: str | None = None,
) -> Finding:
    """A finding at a place of the file."""
    place = server.place(line if line is not None else server.launch.line)
    return say_at(place, id, severity, subject, summary, cause=cause, do=do, text=text)


def say_at(
    place: str,
    id: str,
    severity: Severity,
    subject: str,
    summary: str,
    *,
    cause: str,
    do: str,
    text: str | None = None,
) -> Finding:
    """A finding at a place that belongs to no server: `path:line`, or `path`."""
    return Finding(
        id=id,
        severity=severity,
        subject=subject,
        summary=f"{summary} ({place})",
        cause=cause,
        evidence=(Evidence(source=place, text=text if text is not None else subject),),
        remedy=Remedy(text=do),
    )
