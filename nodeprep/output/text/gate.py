"""The page of `gate`, and the bandwidth part of a boot run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.gate import GateResult, GateRun, GateVerdict, NcclHalf
from nodeprep.output import words as phrase
from nodeprep.output.text.findings import findings_section
from nodeprep.output.text.look import (
    BAD,
    CAREFUL,
    GOOD,
    PLAIN,
    QUIET,
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
)
from nodeprep.units import show_bytes

_STYLES = {
    GateVerdict.PASS: GOOD,
    GateVerdict.NOT_APPLICABLE: CAREFUL,
    GateVerdict.NO_THRESHOLD: CAREFUL,
    GateVerdict.NO_BINARY: CAREFUL,
    GateVerdict.PRECONDITION: CAREFUL,
}
"""Everything else is a failure."""
_MOST_ROWS = 12


def gate_page(gate: GateResult, look: Look) -> Iterator[RenderableType]:
    yield headline(
        f"GATE {gate.verdict.value.upper()}",
        verdict_style(gate.verdict),
        labels=phrase.run_labels(simulated=gate.simulated),
        note=_headline_figures(gate),
    )
    yield from items([gate.reason])
    yield from bars(gate, look)
    yield from _details(gate, look)
    yield from _pairs(gate)
    yield from _rows(gate)
    yield from findings_section(gate.findings, look)


def gate_section(gate: GateResult, look: Look) -> Iterator[RenderableType]:
    yield blank()
    line = heading("gate")
    line.append(f"  {gate.verdict.value}", style=verdict_style(gate.verdict))
    if gate.simulated:
        line.append("  [SIMULATED]", style=CAREFUL)
    yield line
    yield from items([gate.reason])
    yield from bars(gate, look)
    yield from _details(gate, look)


def _headline_figures(gate: GateResult) -> str:
    if gate.measured_gbps is None or gate.threshold_gbps is None:
        return ""
    return f"{gate.measured_gbps:.2f} of {phrase.gbps(gate.threshold_gbps)}"


def verdict_style(verdict: GateVerdict) -> str:
    return _STYLES.get(verdict, BAD)


def bars(gate: GateResult, look: Look) -> Iterator[RenderableType]:
    """Measured, required and expected bus bandwidth on one scale."""
    figures = [
        ("measured", gate.measured_gbps, verdict_style(gate.verdict)),
        ("required", gate.threshold_gbps, PLAIN),
        ("expected", gate.expected_gbps, QUIET),
    ]
    known = [(name, value, style) for name, value, style in figures if value is not None]
    top = max((value for _, value, _ in known), default=0.0)
    if top <= 0:
        return
    yield blank()
    cells = min(48, look.width - 42)
    for name, value, style in known:
        bar = look.bar(value / top, cells).ljust(cells)
        mark = "  SIMULATED" if gate.simulated and name == "measured" else ""
        yield labelled([(name, mixed((bar, style), f" {value:7.2f} GB/s", (mark, CAREFUL)))])


def _details(gate: GateResult, look: Look) -> Iterator[RenderableType]:
    rows: list[tuple[str, RenderableType]] = []
    if gate.gpus:
        rows.append(("over", say(phrase.ranges(gate.gpus, "GPU"))))
    if gate.threshold_gbps is not None:
        rows.append(("threshold", say(f"from {gate.threshold_source}")))
    if gate.limiting_hop:
        rows.append(("limited by", say(gate.limiting_hop)))
    if gate.transports:
        rows.append(("transport", say(_transports(gate.transports, look))))
    for number, line in enumerate(gate.reasoning):
        rows.append(("" if number else "why", say(line, QUIET)))
    rows += _other_runs(gate)
    if gate.binary:
        took = "" if gate.duration_s is None else f", {phrase.seconds(gate.duration_s)}"
        rows.append(("ran", say(f"{gate.binary}{took}", QUIET)))
    if rows:
        yield blank()
        yield labelled(rows)
    if gate.veto:
        yield from items([say(f"P2P is vetoed: {gate.veto}")], mark="!", style=BAD)
    yield from items((say(text) for text in gate.warnings), mark="!", style=CAREFUL)


def _other_runs(gate: GateResult) -> Iterator[tuple[str, RenderableType]]:
    if len(gate.runs) > 1:
        yield "runs", say(", ".join(map(_run, gate.runs)))
    yield from (("P2P off", say(_run(arm))) for arm in gate.arms if arm.name == "p2p-off")
    if gate.drift is not None:
        yield "drift", say(phrase.drift(gate.drift))


def _run(run: GateRun) -> str:
    """`pass 24.00 GB/s`, or the verdict alone."""
    figure = "" if run.measured_gbps is None else f" {run.measured_gbps:.2f} GB/s"
    return f"{run.verdict.value}{figure}"


def _pairs(gate: GateResult) -> Iterator[RenderableType]:
    """What --diagnose measured pair by pair."""
    if not gate.pair_runs:
        return
    yield blank()
    yield heading("pairs", "each by the class of its own way")
    made = table("GPUs", "verdict", "measured", right=("measured",))
    for run in gate.pair_runs:
        figure = "-" if run.measured_gbps is None else f"{run.measured_gbps:.2f}"
        made.add_row(say(run.name), say(run.verdict.value, verdict_style(run.verdict)), say(figure))
    yield indented(made)


def _transports(transports: dict[str, str], look: Look) -> str:
    """`P2P/CUMEM` for all, else each with the channels that use it."""
    kinds = Counter(transports.values())
    if len(kinds) == 1:
        return f"{next(iter(kinds))} on all {phrase.count(len(transports), 'channel')}"
    named = {
        kind: " ".join(channel for channel, used in sorted(transports.items()) if used == kind)
        for kind in kinds
    }
    return f" {look.dot} ".join(f"{kind}: {channels}" for kind, channels in named.items())


def _rows(gate: GateResult) -> Iterator[RenderableType]:
    if not gate.rows:
        return
    shown = gate.rows[-_MOST_ROWS:]
    yield blank()
    left = len(gate.rows) - len(shown)
    yield heading("all_reduce", f"{left} smaller sizes are not shown" if left else "")
    made = table("size", "out of place", "in place", "wrong values",
                 right=("size", "out of place", "in place", "wrong values"))  # fmt: skip
    for row in shown:
        made.add_row(
            say(show_bytes(row.size_bytes)),
            say(_busbw(row.out_of_place)),
            say(_busbw(row.in_place)),
            mixed(_wrong(row.out_of_place), " / ", _wrong(row.in_place)),
        )
    yield indented(made)
    yield from items(
        [say("Bus bandwidth in GB/s (10**9 bytes); the largest size is judged.", QUIET)]
    )


def _busbw(half: NcclHalf | None) -> str:
    return "?" if half is None or half.busbw_gbps is None else f"{half.busbw_gbps:.2f}"


def _wrong(half: NcclHalf | None) -> tuple[str, str]:
    if half is None or half.wrong is None:
        return "not checked", CAREFUL
    return f"{half.wrong:g}", BAD if half.wrong else PLAIN
