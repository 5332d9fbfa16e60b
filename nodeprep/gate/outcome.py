"""What a gate result means for those who go on from it."""

from __future__ import annotations

from nodeprep.errors import Exit
from nodeprep.model.gate import GateResult, GateVerdict

_PROVED_NOTHING = (
    GateVerdict.NO_BINARY,
    GateVerdict.INVALID_OUTPUT,
    GateVerdict.NO_THRESHOLD,
    GateVerdict.PRECONDITION,
)


def exit_status(verdict: GateVerdict) -> Exit:
    """GATE_FAILED for a fault that was measured, UNVERIFIED when nothing was proved."""
    if verdict in (GateVerdict.PASS, GateVerdict.NOT_APPLICABLE):
        return Exit.OK
    return Exit.UNVERIFIED if verdict in _PROVED_NOTHING else Exit.GATE_FAILED


def p2p_verified(result: GateResult | None) -> bool:
    """Whether checked data went from GPU to GPU without passing through host memory.

    The verdict stands for the data check; the transports of NCCL's log tell the way.
    """
    if result is None or result.verdict is not GateVerdict.PASS or not result.transports:
        return False
    if result.veto is not None:
        return False
    return all(name.startswith("P2P") for name in result.transports.values())
