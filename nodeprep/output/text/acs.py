"""The page of `acs plan`, `apply`, `verify` and `restore`, and the ACS part of a boot run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from nodeprep.model.acs import AcsWrite, AppliedWrite, PortCheck, PortChoice, Refusal
from nodeprep.model.pci import Bdf
from nodeprep.model.report import AcsReport, AcsSection
from nodeprep.output import words as phrase
from nodeprep.output.text.findings import first_lines
from nodeprep.output.text.look import (
    BAD,
    CAREFUL,
    CAUTION,
    GOOD,
    INDENT,
    QUIET,
    STRONG,
    Look,
    blank,
    heading,
    headline,
    indented,
    items,
    labelled,
    mixed,
    say,
    table,
    verbatim,
)

_STYLES = {
    "refused": BAD,
    "rolled back": BAD,
    "not verified": BAD,
    "verified": GOOD,
    "applied": CAREFUL,
    "planned": CAREFUL,
    "nothing to change": GOOD,
}


def acs_page(report: AcsReport, look: Look) -> Iterator[RenderableType]:
    outcome = phrase.acs_outcome(report)
    yield headline(
        outcome.upper() if outcome != "nothing to change" else outcome,
        _STYLES[outcome],
        note=report.detail,
        labels=phrase.run_labels(simulated=report.simulated),
    )
    yield from first_lines(*phrase.acs_step(report))
    if report.plan.forced_reason is not None:
        yield labelled([("", say(report.plan.forced_reason))], tag=("FORCED", CAREFUL))
    yield from items(report.plan.warnings, mark="!", style=CAREFUL)
    unlike = [one for one in report.ports if not one.ok]
    yield from _checked(unlike)
    if not unlike:
        yield from acs_section(report, look, title="ports")
    for one in report.findings:
        yield blank()
        yield from items([mixed((one.id, STRONG), f": {one.summary}")], mark="!", style=CAREFUL)
    if report.kernel_parameter and outcome in ("planned", "refused"):
        yield from _parameter(report)
    yield from _left_out(report.plan.choices)


def _checked(ports: Iterable[PortCheck]) -> Iterator[RenderableType]:
    """What `acs verify` read where it is not what should be there."""
    made = table("port", "found", "expected", "difference", free=("difference",))
    for one in ports:
        found = one.found or "nothing"
        made.add_row(
            say(one.bdf),
            say(found, "red"),
            say(one.expected, STRONG),
            say(" ".join(phrase.changed_bits(one.expected, found)), QUIET),
        )
    if made.row_count:
        yield blank()
        yield heading("ports", "not as expected")
        yield indented(made)


def _parameter(report: AcsReport) -> Iterator[RenderableType]:
    """GRUB reads grub.cfg as a script, where a bare `;` would end the command: hence the quotes."""
    yield blank()
    yield heading("the same as a kernel parameter", "a line for /etc/default/grub")
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX \\"{report.kernel_parameter}\\""'
    yield verbatim(line, indent=INDENT)
    yield from items(report.plan.notes, mark="!", style=CAREFUL)


def acs_section(
    acs: AcsReport | AcsSection, look: Look, *, title: str = "acs"
) -> Iterator[RenderableType]:
    """Refusals, then one entry a port; nothing when there is neither."""
    refusals = [one for one in acs.actions if isinstance(one, Refusal)]
    applied = {one.write.bdf: one for one in acs.applied}
    writes = {one.bdf: one for one in acs.actions if isinstance(one, AcsWrite)}
    writes |= {bdf: one.write for bdf, one in applied.items()}
    if refusals:
        yield blank()
        yield heading("refused", "nothing was changed" if not applied else "")
        yield from _refusals(refusals)
    if writes:
        yield blank()
        yield heading(title, _counts(writes, applied, refused=bool(refusals)))
        yield indented(_ports(writes.values(), applied, look))
        yield from _shared(writes.values())


def _refusals(refusals: Iterable[Refusal]) -> Iterator[RenderableType]:
    for one in refusals:
        named = one.reason.startswith(one.subject)
        told = mixed(one.reason) if named else mixed((one.subject, STRONG), f": {one.reason}")
        yield from items([told], mark="!", style=BAD)
        if one.hint:
            yield from items([one.hint], indent=INDENT + 2)


def _counts(writes: dict[Bdf, AcsWrite], applied: dict[Bdf, AppliedWrite], *, refused: bool) -> str:
    text = phrase.count(len(writes), "control word")
    held = sum(one.ok and not one.rolled_back for one in applied.values())
    if applied:
        return f"{text}, {held} as planned"
    return f"{text}, not written" if refused else text


def _ports(
    writes: Iterable[AcsWrite], applied: dict[Bdf, AppliedWrite], look: Look
) -> RenderableType:
    columns = ["port", f"before {look.arrow} after", "bits"]
    columns += ["read back"] if applied else []
    columns += ["what"] if look.wide else []
    made = table(*columns, free=("what", "read back", "bits"))
    for write in writes:
        done = applied.get(write.bdf)
        made.add_row(
            say(write.bdf),
            mixed((write.before, QUIET), f" {look.arrow} ", (write.after, STRONG)),
            say(" ".join(phrase.changed_bits(write.before, write.after))),
            *([_read_back(done)] if applied else []),
            *([say(write.port, QUIET)] if look.wide else []),
        )
    return made


def _read_back(done: AppliedWrite | None) -> Text:
    if done is None:
        return say("not written", CAREFUL)
    return say(phrase.write_outcome(done), "green" if done.ok else "red")


def _shared(writes: Iterable[AcsWrite]) -> Iterator[RenderableType]:
    """What the writes are for and what they cost, each reason once."""
    every = list(writes)
    pairs = list(dict.fromkeys(pair for one in every for pair in one.pairs))
    groups = sorted({group for one in every for group in one.weakens_groups})
    rows: list[tuple[str, RenderableType]] = []
    if pairs:
        rows.append(("frees", say(phrase.pairs_text(pairs))))
    for reason in dict.fromkeys(one.reason for one in every if one.reason):
        rows.append(("" if len(rows) > 1 else "because", say(reason)))
    if groups:
        named = phrase.ranges(groups)
        rows.append(
            (
                "costs",
                say(f"hardware isolation of IOMMU groups {named}: give none to a guest", CAUTION),
            )
        )
    if rows:
        yield blank()
        yield labelled(rows)


def _left_out(choices: Iterable[PortChoice]) -> Iterator[RenderableType]:
    left = [one for one in choices if not one.included]
    if not left:
        return
    yield blank()
    yield mixed(("LEFT ALONE", QUIET))
    made = table("port", "because", free=("because",))
    made.show_header = False
    for one in left:
        made.add_row(say(one.bdf, QUIET), say(one.reason, QUIET))
    yield indented(made)
