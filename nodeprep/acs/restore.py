"""Gives every register the bits back that were cleared in this boot."""

from __future__ import annotations

from collections.abc import Callable

from nodeprep.acs.outcome import StaleState, Unfinished, check_method, check_root
from nodeprep.acs.registers import Method, PortReading, read_port, write_bits
from nodeprep.acs.saved import check_machine, is_same_port
from nodeprep.errors import HostError, StateError
from nodeprep.host.base import Host
from nodeprep.model.acs import AcsState, AcsWrite, AppliedWrite, SavedPort
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import acs_word
from nodeprep.state import LOCK_DEADLINE_S, StateStore


def restore(
    host: Host,
    facts: NodeFacts,
    store: StateStore,
    *,
    method: Method = Method.SETPCI,
    on_step: Callable[[str], None] | None = None,
    lock_deadline_s: float = LOCK_DEADLINE_S,
) -> tuple[AppliedWrite, ...]:
    """Sets what was cleared since the first original, reads back, and retires the saved state.

    Bits that somebody else set meanwhile stay.  A port that cannot be restored does not keep the
    others from it.  Nothing saved: an empty result.  Raises NeedsRoot, Refused (another nodeprep at
    work), StaleState (saved in another boot), StateError, or Unfinished (the state file stays).
    """
    check_root(host)
    if store.load_acs() is None:
        return ()
    check_method(host, method)
    with store.lock(lock_deadline_s) as lock, host.holding(lock):
        state = store.load_acs()
        if state is None:
            return ()
        _check_boot(state, facts, store)
        check_machine(state, facts)
        restored = []
        for port in state.ports:
            if on_step is not None:
                on_step(f"restoring {port.bdf}")
            restored.append(_restore(host, port, state, method))
        failed = [one for one in restored if not one.ok]
        if failed:
            ports = ", ".join(f"{one.write.bdf} ({one.write.reason})" for one in failed)
            raise Unfinished(
                f"not restored: {ports}",
                applied=restored,
                hint=f"a reboot brings back the firmware's words; saved in {store.acs_file}",
            )
        if on_step is not None:
            on_step("retiring the saved state")
        store.retire_acs()
    return tuple(restored)


def _check_boot(state: AcsState, facts: NodeFacts, store: StateStore) -> None:
    if state.boot_id == facts.boot_id:
        return
    if facts.boot_id is None:
        raise StateError(
            "the boot id of this boot could not be read: are the saved words still its own?",
            hint="look at /proc/sys/kernel/random/boot_id",
        )
    raise StaleState(
        "the saved words belong to an earlier boot: a reboot has brought the registers back to "
        "what firmware and kernel set, and nothing was changed",
        hint=f"nothing is left to restore; remove {store.acs_file} if you like",
    )


def _restore(host: Host, port: SavedPort, state: AcsState, method: Method) -> AppliedWrite:
    try:
        reading = read_port(host, port.bdf)
    except HostError as error:
        return _left(port, port.written, port.original, error.message)
    found = acs_word(reading.control)
    if not is_same_port(port, reading):
        return _left(port, found, found, f"it is another port: {reading.vendor_device}")
    wanted = reading.control | _cleared(port)
    try:
        control = _set_bits(host, port, reading, wanted, state, method)
    except HostError as error:
        return _left(port, found, acs_word(wanted), error.message)
    ok = control == wanted
    return AppliedWrite(
        write=_as_write(port, found, acs_word(wanted), _WHY if ok else "the write had no effect"),
        read_back=acs_word(control),
        ok=ok,
    )


_WHY = "its original bits come back"


def _cleared(port: SavedPort) -> int:
    """The bits of the original that our writes took away."""
    return int(port.original, 16) & ~int(port.written, 16)


def _set_bits(
    host: Host,
    port: SavedPort,
    reading: PortReading,
    wanted: int,
    state: AcsState,
    method: Method,
) -> int:
    """The control word after the missing bits were set."""
    missing = wanted & ~reading.control
    if not missing:
        return reading.control
    write_bits(host, port.bdf, value=missing, mask=missing, saved=state, method=method)
    return read_port(host, port.bdf).control


def _left(port: SavedPort, before: str, after: str, why: str) -> AppliedWrite:
    """A port that was not restored, and why."""
    return AppliedWrite(write=_as_write(port, before, after, why), read_back=None, ok=False)


def _as_write(port: SavedPort, before: str, after: str, reason: str) -> AcsWrite:
    return AcsWrite(bdf=port.bdf, before=before, after=after, pairs=(), reason=reason)
