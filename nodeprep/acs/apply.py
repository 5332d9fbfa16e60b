"""Carries out a plan: save, write, read back, one port at a time; any surprise undoes this run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from nodeprep.acs.outcome import Unfinished, check_method, check_root
from nodeprep.acs.recheck import new_refusals
from nodeprep.acs.registers import Method, PortReading, read_port, write_bits
from nodeprep.acs.saved import state_with
from nodeprep.errors import HostError, Refused, StateError
from nodeprep.host.base import Host
from nodeprep.model.acs import AcsPlan, AcsState, AcsWrite, AppliedWrite, Refusal
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import Bdf, acs_word
from nodeprep.state import LOCK_DEADLINE_S, StateStore

Step = Callable[[str], None]


def apply(
    host: Host,
    facts: NodeFacts,
    plan: AcsPlan,
    store: StateStore,
    *,
    method: Method = Method.SETPCI,
    on_step: Step | None = None,
    lock_deadline_s: float = LOCK_DEADLINE_S,
) -> tuple[AppliedWrite, ...]:
    """Makes the plan's writes and proves each by reading it back.

    Ports and guards are looked at once more under the lock.  A port that holds its planned word
    already is not written.  Raises Refused (unsafe, changed
    since the plan, or another nodeprep at work: nothing was changed), NeedsRoot, StateError (could
    not save, so nothing was changed) or Unfinished (rolled back, exit status 6).  An interruption
    rolls back, too.
    """
    if plan.forced_reason is None:
        _refuse(plan.refusals)
    if not plan.writes:
        return ()
    check_root(host)
    check_method(host, method)
    step = on_step or _nothing
    # A setpci that outlives a killed apply keeps the lock until it has written.
    with store.lock(lock_deadline_s) as lock, host.holding(lock):
        step("reading the ports again")
        readings = _read_again(host, facts, plan)
        pending = [one for one in plan.writes if readings[one.bdf].control != int(one.after, 16)]
        if pending:
            step("looking at the guards again")
            _refuse(new_refusals(host, facts, plan))
            previous = store.load_acs()
            state = state_with(previous, facts, plan, pending, readings)
            step("saving the original words")
            store.save_acs(state)
            run = _Run(host, store, previous, state, step, method)
            run.write_all(pending, plan.kernel_parameter)
    return tuple(AppliedWrite(write=one, read_back=one.after, ok=True) for one in plan.writes)


def _refuse(refusals: Sequence[Refusal]) -> None:
    if refusals:
        first, *others = refusals
        more = f" (and {len(others)} more)" if others else ""
        raise Refused(f"{first.reason}{more}", hint=first.hint)


def _read_again(host: Host, facts: NodeFacts, plan: AcsPlan) -> dict[Bdf, PortReading]:
    """Every port as it is at this moment; Refused unless it is the one that was planned for."""
    tree = facts.tree
    readings = {}
    for write in plan.writes:
        try:
            reading = read_port(host, write.bdf)
        except HostError as error:
            raise Refused(
                f"{write.bdf} could not be read again: {error.message}", hint=error.hint
            ) from error
        planned = facts.functions.get(write.bdf)
        if planned is None or planned.vendor_device != reading.vendor_device:
            raise _changed(write, f"it is {reading.vendor_device}")
        if tree.path(write.bdf) != reading.path:
            raise _changed(write, "it sits in another place of the PCI tree")
        if reading.control not in (int(write.before, 16), int(write.after, 16)):
            raise _changed(write, f"its control word is {acs_word(reading.control)}")
        readings[write.bdf] = reading
    return readings


def _changed(write: AcsWrite, what: str) -> Refused:
    return Refused(
        f"{write.bdf} changed since the plan ({write.before} expected): {what}", hint="plan again"
    )


class _Surprise(Exception):
    """A port did not do what was asked of it."""


class _Run:
    """The writes of one call, after the originals are on disk; knows how to undo them."""

    def __init__(
        self,
        host: Host,
        store: StateStore,
        previous: AcsState | None,
        state: AcsState,
        step: Step,
        method: Method,
    ) -> None:
        self._method = method
        self._host = host
        self._store = store
        self._previous = previous
        self._state = state
        self._step = step
        self._begun: list[AcsWrite] = []

    def write_all(self, writes: Sequence[AcsWrite], kernel_parameter: str) -> None:
        try:
            for write in writes:
                self._write(write)
            self._step("every port holds its planned word")
        except _Surprise as error:
            hint = f"boot with {kernel_parameter} instead" if kernel_parameter else ""
            raise self._unfinished(str(error), self._roll_back(), hint) from None
        except BaseException:
            undone = self._roll_back()
            if not all(one.rolled_back for one in undone):
                raise self._unfinished("interrupted", undone, "") from None
            raise

    def _write(self, write: AcsWrite) -> None:
        self._step(f"writing {write.after} to {write.bdf}")
        self._begun.append(write)
        value = int(write.after, 16)
        try:
            said = self._put(write.bdf, value, write.mask)
            self._step(f"reading back {write.bdf}")
            found = read_port(self._host, write.bdf).control
        except HostError as error:
            raise _Surprise(f"{write.bdf}: {error.message}") from error
        if found != value:
            unchanged = found == int(write.before, 16)
            effect = "the write had no effect" if unchanged else f"{acs_word(found)} was read back"
            complaint = f" (setpci: {said})" if said else ""
            raise _Surprise(f"{write.bdf}: wrote {write.after}, {effect}{complaint}")

    def _put(self, bdf: Bdf, value: int, mask: int) -> str:
        return write_bits(
            self._host, bdf, value=value, mask=mask, saved=self._state, method=self._method
        )

    def _roll_back(self) -> tuple[AppliedWrite, ...]:
        """Undoes the writes begun, last first; forgets them when every bit of ours is back."""
        undone = tuple(self._undo(write) for write in reversed(self._begun))
        if all(one.rolled_back for one in undone):
            # A file that stays behind does no harm: it holds the words that are in the registers.
            with suppress(StateError):
                if self._previous is None:
                    self._store.remove_acs()
                else:
                    self._store.save_acs(self._previous)
        return undone

    def _undo(self, write: AcsWrite) -> AppliedWrite:
        """Sets what is missing of the first word; clears no bit that came from elsewhere."""
        before = int(write.before, 16)
        try:
            control = read_port(self._host, write.bdf).control
            missing = before & ~control
            if missing:
                self._put(write.bdf, missing, missing)
                control = read_port(self._host, write.bdf).control
        except HostError:
            return AppliedWrite(write=write, read_back=None, ok=False)
        return AppliedWrite(
            write=write,
            read_back=acs_word(control),
            ok=False,
            rolled_back=not before & ~control,
        )

    def _unfinished(self, what: str, undone: Sequence[AppliedWrite], hint: str) -> Unfinished:
        left = [one.write.bdf for one in undone if not one.rolled_back]
        if left:
            return Unfinished(
                f"{what}; NOT rolled back: {', '.join(left)}",
                applied=undone,
                hint="run: nodeprep acs restore",
            )
        count = f"{len(undone)} port{'s' if len(undone) != 1 else ''}"
        return Unfinished(f"{what}; rolled back ({count})", applied=undone, hint=hint)


def _nothing(_: str) -> None:
    """Nobody follows the steps."""
