"""Phrases that brief and text share; plain strings, nothing judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodeprep.errors import Exit
from nodeprep.model.acs import AcsWrite, AppliedWrite, Refusal
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.finding import Finding, Severity, Unknown
from nodeprep.model.gate import GateResult
from nodeprep.model.memory import PlanStep, RankBudget
from nodeprep.model.pci import AcsFlag, LinkStatus, acs_names
from nodeprep.model.report import AcsReport, AcsSection, NodeVerdict, Report
from nodeprep.units import show_bytes

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s of a lane -> PCI Express generation."""


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 warning`, `2 warnings`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def seconds(duration_s: float) -> str:
    """`0.42 s`, `41 s`, `3 min 12 s`."""
    if duration_s < 10:
        return f"{duration_s:.2f} s"
    if duration_s < 120:
        return f"{duration_s:.0f} s"
    return f"{int(duration_s) // 60} min {int(duration_s) % 60} s"


def gbps(value: float | None) -> str:
    """`24.31 GB/s`, `unknown`."""
    return "unknown" if value is None else f"{value:.2f} GB/s"


def exit_name(status: int) -> str:
    """`gate-failed` for 5; the number itself when it is none of ours."""
    names = {int(one): one.name.lower().replace("_", "-") for one in Exit}
    return names.get(status, str(status))


def tally(findings: Iterable[Finding], unknown: Sequence[Unknown] = ()) -> str:
    """`1 critical, 2 warnings, 1 repaired, 3 not known`; empty when there is nothing."""
    every = list(findings)
    open_ones = [one.severity for one in every if one.counts]
    parts = [
        (open_ones.count(Severity.CRITICAL), "critical", "critical"),
        (open_ones.count(Severity.WARNING), "warning", ""),
        (open_ones.count(Severity.INFO), "note", ""),
        (sum(one.resolved for one in every), "repaired", "repaired"),
        (sum(one.waived and not one.resolved for one in every), "waived", "waived"),
        (len(unknown), "not known", "not known"),
    ]
    return ", ".join(count(number, noun, plural) for number, noun, plural in parts if number)


def audit_verdict(findings: Sequence[Finding], unknown: Sequence[Unknown]) -> str:
    """A tally, which says in words when nothing is at warning or above."""
    counts = tally(findings, unknown)
    if any(one.counts and one.severity is not Severity.INFO for one in findings):
        return counts
    return ", ".join(part for part in ("nothing wrong in what was read", counts) if part)


def first_step(findings: Iterable[Finding], unknown: Iterable[Unknown] = ()) -> tuple[str, str]:
    """The first thing to do and its command: of the first open finding that has a remedy.

    Notes have no claim on the reader; after the findings come the gaps.  Empty strings: nothing.
    """
    for finding in findings:
        if finding.counts and finding.remedy and finding.severity is not Severity.INFO:
            return finding.remedy.text, next(iter(finding.remedy.commands), "")
    return next((one.hint for one in unknown if one.hint), ""), ""


def run_first_step(report: Report) -> tuple[str, str]:
    """`first_step` of a boot run, where a refusal stands in the way of everything else."""
    hint = refusal_hint(report.acs.actions)
    return (hint, "") if hint else first_step(report.findings, report.unknown)


def verdict_word(verdict: NodeVerdict) -> str:
    return "READY" if verdict is NodeVerdict.READY else "NOT READY"


def origin_labels(facts: NodeFacts) -> tuple[str, ...]:
    """What a reader must know before believing a line of it."""
    labels = {
        Origin.LIVE: (),
        Origin.FABRICATED: ("fabricated sysfs tree",),
        Origin.REPLAY: ("replay",),
    }[facts.origin]
    return (*labels, "constructed recording") if facts.constructed else labels


def run_labels(*, simulated: bool, dry_run: bool = False) -> tuple[str, ...]:
    return (("simulated",) if simulated else ()) + (("dry run",) if dry_run else ())


def link_text(link: LinkStatus | None) -> str:
    """`gen4 x16`; `gen1/4 x8/16` where what is possible is more; `?` when unknown."""
    if link is None or (link.speed_gts is None and link.width is None):
        return "?"
    now, best = _generation(link.speed_gts), _generation(link.max_speed_gts)
    speed = now if best in (now, "?") else f"{now}/{best}"
    width = "?" if link.width is None else str(link.width)
    if link.max_width is not None and link.max_width != link.width:
        width += f"/{link.max_width}"
    return f"gen{speed} x{width}"


def changed_bits(before: str, after: str) -> tuple[str, ...]:
    """`-ReqRedir`, `+SrcValid`: bits between two control words, by the names lspci prints."""
    try:
        old, new = AcsFlag(int(before, 16) & 0x7F), AcsFlag(int(after, 16) & 0x7F)
    except ValueError:
        return ()
    return tuple(f"-{name}" for name in acs_names(old & ~new)) + tuple(
        f"+{name}" for name in acs_names(new & ~old)
    )


def step_value(step: PlanStep) -> str:
    """`14.99 GiB`, `5,867 blocks`, `5.73 requests`."""
    if step.unit == "bytes":
        return show_bytes(step.value)
    whole = step.value == int(step.value)
    return f"{step.value:,.0f} {step.unit}" if whole else f"{step.value:,.2f} {step.unit}"


def value_text(value: object) -> str:
    """A setting as configuration files write it: `true`, `0.92`, `auto`."""
    if isinstance(value, bool):
        return str(value).lower()
    return "not set" if value is None else str(value)


def pairs_text(pairs: Iterable[str]) -> str:
    """`GPU0-GPU1, GPU0-GPU2`; `every pair of GPU0 GPU1 GPU2` when it is just that."""
    every = list(dict.fromkeys(pairs))
    ends = {frozenset(pair.split("-")) for pair in every}
    names = list(dict.fromkeys(name for pair in every for name in pair.split("-")))
    size = len(names)
    if size > 2 and all(len(end) == 2 for end in ends) and len(ends) == size * (size - 1) // 2:
        return f"every pair of {' '.join(names)}"
    return ", ".join(every)


def ranges(numbers: Iterable[int]) -> str:
    """`20-23, 30`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def acs_outcome(acs: AcsReport | AcsSection) -> str:
    """What became of a plan, in one or two words."""
    if any(write.rolled_back for write in acs.applied):
        return "rolled back"
    if acs.verified is not None:
        return "verified" if acs.verified else "not verified"
    if acs.applied:
        return "applied"
    if any(isinstance(action, Refusal) for action in acs.actions):
        return "refused"
    return "planned" if acs.actions else "nothing to change"


def refusal_hint(actions: Iterable[AcsWrite | Refusal]) -> str:
    """What to do about the first refusal that says so; empty without one."""
    refusals = (one for one in actions if isinstance(one, Refusal) and one.hint)
    return next((f"{one.subject}: {one.hint}" for one in refusals), "")


def write_outcome(applied: AppliedWrite) -> str:
    """What the register holds after a write: `reads 0011`, `reads 001d, not as planned`."""
    read = "unreadable" if applied.read_back is None else f"reads {applied.read_back}"
    if applied.rolled_back:
        return f"{read}, rolled back"
    return read if applied.ok else f"{read}, not as planned"


def gate_line(gate: GateResult) -> str:
    """`24.31 GB/s measured, 22.00 GB/s required, 24.00 GB/s expected`."""
    parts = [f"{gbps(gate.measured_gbps)} measured"] if gate.measured_gbps is not None else []
    if gate.threshold_gbps is not None:
        parts.append(f"{gbps(gate.threshold_gbps)} required")
    if gate.expected_gbps is not None:
        parts.append(f"{gbps(gate.expected_gbps)} expected")
    return ", ".join(parts)


def like_ranks(ranks: Iterable[RankBudget]) -> list[tuple[str, RankBudget]]:
    """Ranks with the same figures under one name: `rank 0`, `ranks 1-3`."""
    groups: dict[tuple[int, ...], list[RankBudget]] = {}
    for rank in ranks:
        key = tuple(getattr(rank, name) for name in rank.__struct_fields__ if name != "rank")
        groups.setdefault(key, []).append(rank)
    return [(_ranks_name([one.rank for one in group]), group[0]) for group in groups.values()]


def _ranks_name(numbers: list[int]) -> str:
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {ranges(numbers)}"


def _generation(speed_gts: float | None) -> str:
    if speed_gts is None:
        return "?"
    return str(GENERATIONS.get(speed_gts, f"({speed_gts:g} GT/s)"))
