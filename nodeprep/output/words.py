"""Phrases that brief and text share; plain strings, nothing judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from nodeprep.errors import Exit
from nodeprep.model.acs import AcsWrite, AppliedWrite, Refusal
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.finding import Finding, Severity, Unknown
from nodeprep.model.gate import DriftReading, GateResult
from nodeprep.model.memory import PlanStep, RankBudget
from nodeprep.model.pci import AcsFlag, PciFunction, acs_names
from nodeprep.model.pci import link_text as link_text
from nodeprep.model.report import AcsReport, AcsSection, NodeVerdict
from nodeprep.model.topology import pairs_text as pairs_text
from nodeprep.model.topology import ranges as ranges
from nodeprep.units import count as count
from nodeprep.units import show_bytes

_UNCURABLE = ("p2p-gpu-not-supported",)
"""Findings that name a limit of the product: their remedy is how to live with it."""
_ON_A_MACHINE = ("bringup", "audit", "explain", "acs", "gate", "render", "snapshot")


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
    open_ones = [one.severity for one in every if one.counts and one.id != "healthy"]
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
    """The first thing to do and its command: of the worst open finding that can be cured.

    Notes have no claim on the reader; after the findings come the gaps.  Empty strings: nothing.
    """
    judged = (one for one in findings if one.counts and one.severity is not Severity.INFO)
    for finding in sorted(judged, key=lambda one: one.severity.rank):
        if finding.remedy and finding.id not in _UNCURABLE:
            return finding.remedy.text, next(iter(finding.remedy.commands), "")
    return next((one.hint for one in unknown if one.hint), ""), ""


def subject(finding: Finding) -> str:
    """The subject of a finding, its pairs in short: `every pair of GPU0-GPU3`."""
    return pairs_text(finding.subject.split(", "))


def short(text: str) -> str:
    """A summary or reason up to its explanation: what stands before the first `: `."""
    return text.partition(": ")[0]


def on_machine(command: str, machine: str | None) -> str:
    """A command of ours as it works on a replayed machine: named, and without sudo.

    A machine that does not ship is a snapshot of the reader's own, under a name we do not know.
    """
    plain = command.removeprefix("sudo ")
    verb = plain.split(" ")[1:2]
    if machine is None or not plain.startswith("nodeprep ") or "--machine" in plain:
        return command
    if verb and verb[0] in _ON_A_MACHINE and machine in _shipped():
        return f"{plain} --machine {machine}"
    return command


@cache
def _shipped() -> frozenset[str]:
    from nodeprep.host.machines import machine_names

    return frozenset(machine_names())


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


def group_text(facts: NodeFacts, function: PciFunction | None) -> str:
    """IOMMU group of a function: `12`, `-` without an IOMMU, `?` when it is not known."""
    if function is not None and function.iommu_group is not None:
        return str(function.iommu_group)
    return "-" if facts.platform.iommu_enabled is False else "?"


def short_model(text: str, most: int = 12) -> str:
    """`8 x RTX PRO 6000` of `8 x NVIDIA RTX PRO 6000 Blackwell Server Edition`: for a column."""
    number, times, name = text.partition(" x ")
    words = [word for word in name.split(" ") if word not in ("NVIDIA", "GeForce")]
    shown = words[:1]
    for word in words[1:]:
        if len(" ".join([*shown, word])) > most:
            break
        shown.append(word)
    return f"{number}{times}{' '.join(shown)}"


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


def acs_step(report: AcsReport) -> tuple[str, str]:
    """What to do after an ACS command, and its command; empty strings: nothing."""
    outcome = acs_outcome(report)
    apply = on_machine("sudo nodeprep acs apply", report.machine)
    if outcome == "planned":
        return "write these words, read them back; nodeprep acs restore undoes it", apply
    hint = refusal_hint(report.actions)
    if outcome == "not verified" and not hint:
        return "write the expected words", apply
    return hint, ""


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


def drift(reading: DriftReading) -> str:
    """`7% below 24.00 GB/s, the median of this node's last 5 good runs`."""
    side = "below" if reading.change < 0 else "above"
    runs = f"the median of this node's last {count(reading.runs, 'good run')}"
    return f"{abs(reading.change):.1%} {side} {gbps(reading.baseline_gbps)}, {runs}"


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
