"""`nodeprep audit`."""

from __future__ import annotations

import click

from nodeprep.audit.run import audit, unknowns
from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.facts.collect import collect
from nodeprep.model.audit_report import AuditReport
from nodeprep.model.facts import NodeFacts
from nodeprep.stamp import stamp


@click.command("audit")
@session_options()
def command(session: Session) -> int:
    """Facts and findings of this node, read only.

    Works without root; what cannot be read then is listed as unknown.  The JSON has ids and no
    names of devices: asking lspci for them would take as long as all the rest.
    """
    facts = collect(session.host, session.settings.accelerators, names=session.format != "json")
    facts = _with_saved_words(facts, session)
    findings = audit(facts, session.settings, session.today)
    session.emit(
        AuditReport(
            **stamp("audit", facts.boot_id),
            findings=findings,
            unknown=unknowns(facts),
            facts=facts,
        )
    )
    return session.status_of(findings)


def _with_saved_words(facts: NodeFacts, session: Session) -> NodeFacts:
    """The facts with what was written in this boot, where anything was: has it come back?"""
    try:
        if not session.store.acs_file.exists():
            return facts
    except OSError:
        return facts
    from msgspec.structs import replace

    from nodeprep.acs.again import saved_in_this_boot

    return replace(facts, acs_saved=saved_in_this_boot(facts, session.store))
