"""Findings, gaps and the first thing to do, as blocks of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from nodeprep.model.finding import Evidence, Finding, Remedy, Severity, Unknown
from nodeprep.output.escape import safe_lines
from nodeprep.output.text.look import (
    BAD,
    CAREFUL,
    CAUTION,
    GOOD,
    INDENT,
    LABEL_WIDTH,
    QUIET,
    STRONG,
    Look,
    blank,
    command,
    heading,
    items,
    labelled,
    mixed,
    say,
)
from nodeprep.output.words import pairs_text, subject

SEVERITY_STYLE = {Severity.CRITICAL: BAD, Severity.WARNING: CAREFUL, Severity.INFO: STRONG}
_BESIDE = INDENT + LABEL_WIDTH + 2
_MOST_EVIDENCE = 6
_FIRST = "First:"


def first_lines(text: str, line: str) -> Iterator[RenderableType]:
    """What to do, wrapped beside its mark, and the command below it."""
    if text:
        yield from items([text], mark=_FIRST, style=STRONG, indent=0)
    if line:
        yield command(line, indent=len(_FIRST) + 1 if text else 0)


def worst_style(findings: Iterable[Finding], unknown: Sequence[Unknown] = ()) -> str:
    """The colour of a tally: of the worst open finding; gaps are never green."""
    ranks = [one.severity.rank for one in findings if one.counts]
    if min(ranks, default=2) == 0:
        return BAD
    if min(ranks, default=2) == 1 or unknown:
        return CAREFUL
    return GOOD


def findings_section(findings: Sequence[Finding], look: Look) -> Iterator[RenderableType]:
    """Open findings in full, best first; repaired, waived and healthy ones in short.

    Alone, `healthy` says what the verdict line says already.
    """
    if all(one.id == "healthy" for one in findings):
        return
    yield blank()
    yield heading("findings")
    open_ones = [one for one in findings if one.counts and one.id != "healthy"]
    for number, finding in enumerate(open_ones):
        if number:
            yield blank()
        yield from _open(finding, look)
    settled = [one for one in findings if one not in open_ones]
    if open_ones and settled:
        yield blank()
    yield from (_settled(one) for one in settled)


def unknown_section(unknown: Sequence[Unknown]) -> Iterator[RenderableType]:
    if not unknown:
        return
    yield blank()
    yield heading("not known", "and therefore not called good")
    for one in unknown:
        yield from items([mixed((one.subject, STRONG), f": {one.reason}")], mark="?", style=CAREFUL)
        if one.hint:
            yield from items([say(one.hint, QUIET)], indent=INDENT + 2)


def _open(finding: Finding, look: Look) -> Iterator[RenderableType]:
    style = SEVERITY_STYLE[finding.severity]
    word = finding.severity.value
    shown = word if finding.severity is Severity.INFO else word.upper()
    title = Group(
        mixed((finding.id, STRONG), f"  {subject(finding)}"),
        say(finding.summary),
    )
    yield labelled([("", title)], tag=(shown, style))
    yield labelled(_reasons(finding))
    if finding.remedy:
        yield from _remedy(finding.remedy, look)


def _reasons(finding: Finding) -> Iterator[tuple[str, RenderableType]]:
    if finding.cause:
        yield "cause", say(finding.cause)
    folded = _fold(finding.evidence)
    for number, one in enumerate(folded[:_MOST_EVIDENCE]):
        yield ("" if number else "seen"), _evidence(one)
    left = len(folded) - _MOST_EVIDENCE
    if left > 0:
        yield "", say(f"and {left} more, all of them with --format json", QUIET)


def _fold(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The same text from like sources once: `4 x downstream port ACSCtl` and the addresses."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in evidence:
        name, _, rest = one.source.partition(" ")
        groups.setdefault((rest, one.text), []).append(name)
    return [
        Evidence(source=f"{names[0]} {rest}".rstrip(), text=text)
        if len(names) == 1
        else _folded(rest, text, names)
        for (rest, text), names in groups.items()
    ]


def _folded(rest: str, text: str, names: list[str]) -> Evidence:
    listed = pairs_text(names)
    if not rest:
        return Evidence(source=listed, text=text)
    return Evidence(source=f"{len(names)} x {rest}", text=f"{text}: {listed}")


def _evidence(one: Evidence) -> Text:
    lines = safe_lines(one.text) or [""]
    text = mixed((f"{one.source}: ", QUIET))
    if len(lines) == 1:
        return text.append(lines[0])
    for line in lines:
        text.append("\n| ", style=QUIET).append(line)
    return text


def _remedy(remedy: Remedy, look: Look) -> Iterator[RenderableType]:
    notes = [remedy.text] if remedy.text else []
    yield labelled([("do", say(" ".join(notes)))])
    for line in remedy.commands:
        yield command(line, indent=_BESIDE)
    caution = [f"risk: {remedy.risk}"] if remedy.risk else []
    caution += ["takes effect after a reboot"] if remedy.needs_reboot else []
    if caution:
        yield labelled([("", say(f" {look.dot} ".join(caution), CAUTION))])


def _settled(finding: Finding) -> RenderableType:
    if finding.id == "healthy":
        return labelled([("", say(finding.summary))], tag=("healthy", GOOD))
    tag = ("repaired", GOOD) if finding.resolved else ("waived", QUIET)
    title = mixed((finding.id, STRONG), f"  {subject(finding)}")
    return labelled([("", Group(title, say(finding.summary, QUIET)))], tag=tag)
