"""After a failure: peer-to-peer off, then pair by pair, all of it inside one stretch of time."""

from __future__ import annotations

import time
from itertools import combinations

from msgspec.structs import replace

from nodeprep.gate.attempt import Limits
from nodeprep.gate.command import P2P_OFF, PAIR_SIZE
from nodeprep.gate.measure import KILL_S, Bench, told
from nodeprep.gate.suspects import Case, Pair, suspects, veto
from nodeprep.model.gate import GateResult, GateVerdict

FAILURES = (
    GateVerdict.FAIL_BANDWIDTH,
    GateVerdict.FAIL_TRANSPORT,
    GateVerdict.WRONG_DATA,
    GateVerdict.HUNG,
    GateVerdict.CRASHED,
)
_NOTHING = (GateVerdict.NO_BINARY, GateVerdict.PRECONDITION)


def p2p_off(
    bench: Bench, group: tuple[int, ...], max_size: str, within_s: float | None = None
) -> GateResult:
    """The same collective through host memory; it finds the same value as with peer-to-peer."""
    bench.tell("peer-to-peer off")
    limits = _limits(bench, max_size, within_s)
    return bench.once(group, max_size, settings=P2P_OFF, limits=limits, by_class=True)


def diagnose(
    bench: Bench, group: tuple[int, ...], max_size: str, on: GateResult, off: GateResult | None
) -> GateResult:
    """The result with what the pairs showed and what it points at."""
    end = time.monotonic() + min(bench.policy.diagnose_s, bench.left_s())
    if off is None:
        off = p2p_off(bench, group, max_size, _left(end))
    pairs, missed = _measure_pairs(bench, group, end) if len(group) > 2 else ({}, 0)
    case = Case(facts=bench.facts, group=group, on=on, off=off, pairs=pairs)
    warnings = on.warnings
    if missed:
        total = len(pairs) + missed
        warnings += (f"the time for a diagnosis was over after {len(pairs)} of {total} pairs",)
    return replace(
        on,
        findings=(*on.findings, *suspects(case)),
        pair_runs=tuple(told(f"{a}-{b}", one) for (a, b), one in pairs.items()),
        arms=on.arms or (told("p2p-on", on), told("p2p-off", off)),
        veto=veto(on, off),
        warnings=warnings,
    )


def _measure_pairs(
    bench: Bench, group: tuple[int, ...], end: float
) -> tuple[dict[Pair, GateResult], int]:
    """Every pair as long as the time lasts, and how many were left out."""
    found: dict[Pair, GateResult] = {}
    wanted = list(combinations(sorted(group), 2))
    for pair in wanted:
        left = _left(end)
        if left <= 0:
            break
        bench.tell(f"GPU{pair[0]} and GPU{pair[1]}")
        limit = min(bench.policy.pair_s, left)
        limits = Limits(deadline_s=limit, silence_s=min(limit, bench.policy.silence_s))
        result = bench.once(pair, PAIR_SIZE, limits=limits, by_class=True)
        if result.verdict in _NOTHING:
            return {}, 0
        found[pair] = result
        if result.survivors:
            break
    return found, len(wanted) - len(found)


def _limits(bench: Bench, max_size: str, within_s: float | None) -> Limits:
    usual = bench.limits(max_size)
    if within_s is None:
        return usual
    return Limits(
        deadline_s=min(usual.deadline_s, max(within_s, 1.0)),
        silence_s=min(usual.silence_s, max(within_s, 1.0)),
    )


def _left(end: float) -> float:
    """Seconds for a run that ends, killed if need be, before `end`."""
    return end - time.monotonic() - KILL_S
