"""`nodeprep schema`."""

from __future__ import annotations

import sys

import click

from nodeprep.errors import Exit, UsageError


@click.command("schema")
@click.argument("name", required=False)
def command(name: str | None) -> int:
    """The JSON schema of a document; without NAME the list of documents."""
    import msgspec

    from nodeprep.model import report
    from nodeprep.model.acs import AcsState
    from nodeprep.model.snapshot import Snapshot

    documents = {
        "report": report.Report,
        "audit": report.AuditReport,
        "explain": report.ExplainReport,
        "finding-page": report.ExplainFindingReport,
        "acs": report.AcsReport,
        "persist": report.PersistReport,
        "watch": report.WatchReport,
        "gate": report.GateReport,
        "plan": report.PlanReport,
        "sweep": report.SweepReport,
        "render": report.RenderReport,
        "lint": report.LintReport,
        "machines": report.MachinesReport,
        "error": report.ErrorReport,
        "acs-state": AcsState,
        "snapshot": Snapshot,
    }
    if name is None:
        click.echo("\n".join(documents))
        return Exit.OK
    if name not in documents:
        raise UsageError(f"no document {name[:40]!r}", hint=f"known: {', '.join(documents)}")
    schema = msgspec.json.schema(documents[name])
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n")
    return Exit.OK
