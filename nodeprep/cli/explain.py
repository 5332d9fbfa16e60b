"""`nodeprep explain`."""

from __future__ import annotations

import re

import click

from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, UsageError
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import parse_bdf

_NUMBER = re.compile(r"(?:GPU)?(\d{1,4})", re.IGNORECASE)
_NAMES_A_GPU = re.compile(rf"{_NUMBER.pattern}|[0-9a-f:]+\.[0-7]", re.IGNORECASE)


@click.command("explain")
@click.argument("what", nargs=-1, required=True, metavar="A B | FINDING-ID")
@session_options()
def command(session: Session, what: tuple[str, ...]) -> int:
    """The path between two GPUs hop by hop, or what a finding means.

    A and B are GPU numbers (0, GPU0) or PCI addresses (43:00.0).
    """
    if len(what) == 1:
        return _explain_finding(session, what[0])
    if len(what) != 2:
        raise UsageError("explain wants two GPUs, or one finding id", hint="nodeprep explain 0 1")
    return _explain_pair(session, *what)


def _explain_pair(session: Session, a: str, b: str) -> int:
    from nodeprep.audit.explain import explain
    from nodeprep.audit.run import audit
    from nodeprep.audit.view import View
    from nodeprep.facts.collect import collect
    from nodeprep.stamp import stamp

    facts = collect(session.host, session.settings.accelerators)
    pair = _gpu(facts, a), _gpu(facts, b)
    findings = audit(facts, session.settings, session.today, only=pair)
    head = stamp("explain", facts.boot_id)
    session.emit(explain(View(facts, session.settings), findings, *pair, head))
    return Exit.OK


def _explain_finding(session: Session, finding_id: str) -> int:
    from nodeprep.audit.pages import page
    from nodeprep.model.report import ExplainFindingReport
    from nodeprep.stamp import stamp

    if _NAMES_A_GPU.fullmatch(finding_id):
        raise UsageError(
            f"{finding_id} is one GPU: a path has two ends",
            hint="name a second GPU, as in: nodeprep explain 0 1",
        )
    text = page(finding_id)
    session.emit(ExplainFindingReport(**stamp("finding-page", None), id=finding_id, text=text))
    return Exit.OK


def _gpu(facts: NodeFacts, text: str) -> int:
    """A GPU by number or by address."""
    match = _NUMBER.fullmatch(text)
    if match:
        return int(match[1])
    bdf = parse_bdf(text)
    for gpu in facts.gpus:
        if gpu.bdf == bdf:
            return gpu.index
    raise UsageError(f"{bdf} is no GPU of this node", hint="see: nodeprep audit")
