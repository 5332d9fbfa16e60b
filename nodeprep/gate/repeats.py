"""When one run does not decide, and which of several does; pure."""

from __future__ import annotations

from collections.abc import Sequence

from nodeprep.gate.judge import spread
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.settings import GatePolicy

_COMPARABLE = (GateVerdict.PASS, GateVerdict.FAIL_BANDWIDTH)
_PASSING = ("system not yet initialized", "busy or unavailable")
"""CUDA's words for a fabric that is not up yet and for a GPU that somebody else holds."""


def is_passing(result: GateResult) -> bool:
    """Whether the run failed for a reason that may go away by itself."""
    crashed = result.verdict is GateVerdict.CRASHED
    return crashed and any(words in result.reason for words in _PASSING)


def wants_another(results: Sequence[GateResult], policy: GatePolicy) -> bool:
    """Whether to run again: a low or unsteady figure may be a dip; nothing else is.

    Two equal verdicts decide whatever a third would say.  Wrong data, a hang, a crash or the wrong
    transport is final.
    """
    if len(results) > policy.repeats or any(one.verdict not in _COMPARABLE for one in results):
        return False
    if len(results) == 1:
        return results[0].verdict is not GateVerdict.PASS or _unsteady(results[0], policy)
    verdicts = [one.verdict for one in results]
    return len(set(verdicts)) == len(verdicts)


def chosen(results: Sequence[GateResult]) -> GateResult:
    """The run that counts: one that is no bandwidth figure at all, else the median, the lower of
    two."""
    odd = next((one for one in results if one.verdict not in _COMPARABLE), None)
    if odd is not None:
        return odd
    ranked = sorted(results, key=lambda one: one.measured_gbps or 0.0)
    return ranked[(len(ranked) - 1) // 2]


def _unsteady(result: GateResult, policy: GatePolicy) -> bool:
    apart = spread(result.rows)
    return apart is not None and apart > policy.max_spread
