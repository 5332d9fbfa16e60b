"""What a gate result means for those who go on from it."""

from __future__ import annotations

from nodeprep.errors import Exit
from nodeprep.model.gate import GateVerdict

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
