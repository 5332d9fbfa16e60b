"""What is saved before the first write, so that every later moment can be mended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from msgspec.structs import replace

from nodeprep import __version__
from nodeprep.acs.registers import PortReading
from nodeprep.errors import Refused, StateError
from nodeprep.model.acs import AcsPlan, AcsState, AcsWrite, SavedPort
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.pci import REDIRECT, AcsFlag, Bdf, acs_word
from nodeprep.state import ACS_SCHEMA


def state_with(
    previous: AcsState | None,
    facts: NodeFacts,
    plan: AcsPlan,
    writes: Sequence[AcsWrite],
    readings: Mapping[Bdf, PortReading],
) -> AcsState:
    """The state that covers these writes.

    A port's first word of this boot stays its original, however often it is planned again.  What
    another boot saved is dropped: its words went with it.
    """
    if facts.origin is Origin.LIVE and facts.boot_id is None:
        raise Refused(
            "this boot has no readable boot id: later nobody could tell whose words were saved",
            hint="look at /proc/sys/kernel/random/boot_id",
        )
    check_machine(previous, facts)
    same_boot = previous is not None and previous.boot_id == facts.boot_id
    ports = {port.bdf: port for port in previous.ports} if previous and same_boot else {}
    now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    for write in writes:
        ports[write.bdf] = _saved(write, readings[write.bdf], ports.get(write.bdf), now)
    return AcsState(
        schema=ACS_SCHEMA,
        tool_version=__version__,
        boot_id=facts.boot_id,
        collected_at=now,
        kernel_release=facts.platform.kernel_release,
        machine=facts.machine,
        ports=tuple(port for _, port in sorted(ports.items())),
        forced_reason=plan.forced_reason,
        origin=facts.origin.value,
    )


def with_originals(facts: NodeFacts, saved: AcsState | None) -> NodeFacts:
    """The facts as if nothing had been written in this boot: what the next boot begins with."""
    if saved is None:
        return facts
    functions = dict(facts.functions)
    for port in saved.ports:
        one = functions.get(port.bdf)
        if one is not None and one.acs is not None and one.vendor_device == port.vendor_device:
            first = AcsFlag(int(port.original, 16))
            functions[port.bdf] = replace(one, acs=replace(one.acs, control=first))
    return replace(facts, functions=functions)


def check_machine(state: AcsState | None, facts: NodeFacts) -> None:
    """Raises StateError when the state folder belongs to another machine."""
    if state is not None and (state.machine, state.origin) != (facts.machine, facts.origin.value):
        raise StateError(
            f"the saved state is that of {state.machine or 'a node'} ({state.origin}), "
            f"not of {facts.machine or 'this node'} ({facts.origin.value})",
            hint="choose another folder with --state-dir",
        )


def is_same_port(port: SavedPort, reading: PortReading) -> bool:
    """Whether the function read is the one that was saved, in the same place."""
    return port.path == reading.path and port.vendor_device == reading.vendor_device


def _saved(write: AcsWrite, reading: PortReading, old: SavedPort | None, now: str) -> SavedPort:
    first = old if old is not None and is_same_port(old, reading) else None
    again = first is not None and bool(reading.control & ~int(first.written, 16) & REDIRECT)
    return SavedPort(
        bdf=write.bdf,
        path=reading.path,
        vendor_device=reading.vendor_device,
        capabilities=acs_word(reading.capabilities),
        original=write.before if first is None else first.original,
        written=write.after,
        saved_at=now if first is None else first.saved_at,
        # An apply that was killed before its write counts here, too: it looks the same.
        rearmed=(0 if first is None else first.rearmed) + again,
        rearmed_at=now if again else (None if first is None else first.rearmed_at),
    )
