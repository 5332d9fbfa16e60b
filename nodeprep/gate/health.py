"""What the readings around a run mean: link errors, throttling, links under load; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodeprep.gate.around import HARDWARE_THROTTLES, LoadedLink
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.gate import ClockReading, CounterDelta

MAX_REPLAYS = 80
MAX_CORRECTABLE = 480
"""DCGM's limits over one of its PCIe runs (nvvs plugin_src/pcie/Pcie.cpp)."""
_FATAL = ("aer_dev_nonfatal", "aer_dev_fatal")


def link_errors(deltas: Sequence[CounterDelta]) -> Iterator[Finding]:
    """Counters that moved during the measurement, by function."""
    moved: dict[str, list[CounterDelta]] = {}
    for one in deltas:
        if one.delta > 0:
            moved.setdefault(one.subject, []).append(one)
    for subject, counters in moved.items():
        grave = any(map(_is_grave, counters))
        yield Finding(
            id="pcie-link-errors",
            severity=Severity.CRITICAL if grave else Severity.WARNING,
            subject=subject,
            summary="errors on this link during the measurement: "
            + ", ".join(f"{one.name} +{one.delta}" for one in counters),
            cause="cable, riser, slot, power, or a link at the edge of its speed",
            evidence=tuple(
                Evidence(source=f"{subject} {one.name}", text=f"{one.before} -> {one.after}")
                for one in counters
            ),
            remedy=Remedy(text="reseat the card, exchange the riser, or lower the generation"),
        )


def throttling(clocks: Sequence[ClockReading]) -> Iterator[Finding]:
    """Hardware that holds a GPU back; a software power cap is only a fact."""
    hard = [one for one in clocks if set(one.throttles) & set(HARDWARE_THROTTLES)]
    soft = [one for one in clocks if one.throttles and one not in hard]
    for severity, found in ((Severity.CRITICAL, hard), (Severity.INFO, soft)):
        if found:
            yield Finding(
                id="gpu-throttled",
                severity=severity,
                subject=", ".join(f"GPU{one.gpu}" for one in found),
                summary="clocks were held back during the measurement: "
                + ", ".join(dict.fromkeys(name for one in found for name in one.throttles)),
                cause="power or cooling" if severity is Severity.CRITICAL else "a power limit",
                evidence=tuple(
                    Evidence(source=f"NVML GPU{one.gpu}", text=_clock_words(one)) for one in found
                ),
                remedy=Remedy(text="look at power cables, power supplies, fans and inlet air")
                if severity is Severity.CRITICAL
                else None,
            )


def link_warnings(links: Sequence[LoadedLink]) -> Iterator[str]:
    """Links that stayed below what they can do while the GPUs were at work."""
    for link in links:
        now, best = (link.generation, link.width), (link.max_generation, link.max_width)
        if None in now or None in best:
            continue
        if now != best:
            yield (
                f"the link of {link.bdf} ran at Gen{now[0]} x{now[1]} under load, it can do "
                f"Gen{best[0]} x{best[1]}"
            )


def _is_grave(one: CounterDelta) -> bool:
    if one.name in _FATAL:
        return True
    limit = MAX_REPLAYS if one.name == "replays" else MAX_CORRECTABLE
    return one.delta > limit


def _clock_words(one: ClockReading) -> str:
    clocks = " -> ".join("?" if mhz is None else str(mhz) for mhz in one.sm_mhz)
    return f"{', '.join(one.throttles)}; SM clock {clocks} MHz"
