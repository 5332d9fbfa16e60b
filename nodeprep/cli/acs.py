"""`nodeprep acs`: plan, apply, verify, restore, persist."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import click
from msgspec.structs import replace

from nodeprep.acs.again import hands_off, may_write_in_use, saved_in_this_boot
from nodeprep.acs.apply import apply
from nodeprep.acs.forms import grub_drop_in, setpci_script
from nodeprep.acs.outcome import Unfinished
from nodeprep.acs.pairs import pair_choice
from nodeprep.acs.plan import plan
from nodeprep.acs.recheck import reread_ports
from nodeprep.acs.registers import Method
from nodeprep.acs.restore import restore
from nodeprep.acs.saved import with_originals
from nodeprep.acs.verify import verify
from nodeprep.cli.acs_persist import persist_command
from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, UsageError
from nodeprep.facts.collect import collect, collect_with_gpus
from nodeprep.model.acs import AcsPlan, AcsVerification, AppliedWrite, PortCheck
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Finding
from nodeprep.model.report import AcsReport
from nodeprep.stamp import stamp
from nodeprep.units import count

_FORMS = {"grub": grub_drop_in, "setpci": setpci_script}


@click.group("acs", short_help="free GPU paths of ACS redirection")
def command() -> None:
    """The least change that frees GPU paths of ACS redirection; saved, proved, reversible."""


command.add_command(persist_command)


def _choice_options(function: Any) -> Any:
    options: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--pairs", metavar="CHOICE",
            help="group, all, or a list such as 0-1,0-2; with nic, GPUs and network adapters too.",
        ),
        click.option(
            "--all-bits", is_flag=True, help="Clear whole control words; drops isolation too."
        ),
        click.option("--force", is_flag=True, help="Act against a refusal; needs --reason."),
        click.option("--reason", metavar="TEXT", help="Why; kept in state and report."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


_method_option = click.option(
    "--method", type=click.Choice([one.value for one in Method]), default=Method.SETPCI.value,
    show_default=True, help="What carries a write; the proof is the read-back in both cases.",
)  # fmt: skip


@command.command("plan")
@_choice_options
@session_options(formats=("grub", "setpci"))
def plan_command(session: Session, **choice: Any) -> int:
    """What would be written, port by port, and why; or why nothing may be.

    --format grub prints the same change as a GRUB drop-in, --format setpci as a script with undo.
    """
    facts, wanted = _planned(session, as_booted=session.format == "grub", **choice)
    if session.format in _FORMS:
        click.echo(_FORMS[session.format](wanted), nl=False)
        return Exit.REFUSED if wanted.refusals and wanted.forced_reason is None else Exit.OK
    session.emit(_report(session, facts, wanted, detail=_plan_detail(wanted)))
    return Exit.REFUSED if wanted.refusals and wanted.forced_reason is None else Exit.OK


@command.command("apply")
@_choice_options
@_method_option
@click.option(
    "--reapply", is_flag=True,
    help="As acs.reapply says, and never after a restore in this boot: for units and timers.",
)  # fmt: skip
@session_options()
def apply_command(session: Session, method: str, reapply: bool, **choice: Any) -> int:
    """Write the plan: originals saved first, every write read back, any surprise rolled back."""
    in_use = reapply and may_write_in_use(session.settings.acs)
    facts, wanted = _planned(session, allow_in_use=in_use, **choice)
    why_not = hands_off(session.settings.acs, facts, session.store) if reapply else None
    if why_not is not None:
        session.emit(_report(session, facts, wanted, detail=f"{_plan_detail(wanted)}; {why_not}"))
        return Exit.OK
    if wanted.refusals and wanted.forced_reason is None:
        session.emit(_report(session, facts, wanted, detail="refused: nothing was changed"))
        return Exit.REFUSED
    try:
        applied = apply(session.host, facts, wanted, session.store, method=Method(method))
    except Unfinished as error:
        session.emit(
            _report(session, facts, wanted, error.applied, verified=False, detail=error.message)
        )
        return error.status
    after = reread_ports(session.host, facts, (write.bdf for write in wanted.writes))
    checked = verify(after, wanted)
    proved = checked.verified
    detail = f"{_ports(applied)} written and read back" if applied else _plan_detail(wanted)
    session.emit(_report(session, facts, wanted, applied, verified=proved, detail=detail))
    return Exit.UNVERIFIED if proved is False else Exit.OK


@command.command("verify")
@_choice_options
@session_options()
def verify_command(session: Session, **choice: Any) -> int:
    """Whether the ports changed in this boot still hold their words, and nothing is left to do."""
    facts, wanted = _planned(session, **choice)
    saved = session.store.load_acs()
    checked = AcsVerification() if saved is None else verify(facts, saved)
    rearmed = [port.bdf for port in checked.ports if not port.ok]
    open_ports = [write.bdf for write in wanted.writes]
    proved = not rearmed and not open_ports and not wanted.refusals
    detail = (
        f"{_ports(checked.ports, 'holds its word', 'hold their words')}, no GPU path redirects"
        if proved
        else f"not as wanted: {', '.join(dict.fromkeys([*rearmed, *open_ports])) or 'unknown'}"
    )
    report = _report(session, facts, wanted, verified=proved, detail=detail)
    session.emit(replace(report, ports=_looked_at(checked, wanted)))
    return Exit.OK if proved else Exit.UNVERIFIED


@command.command("restore")
@_method_option
@session_options()
def restore_command(session: Session, method: str) -> int:
    """Give every register the bits back that were cleared in this boot."""
    facts = collect(session.host, session.settings.accelerators, names=False)
    try:
        restored = restore(session.host, facts, session.store, method=Method(method))
    except Unfinished as error:
        session.emit(
            _report(session, facts, AcsPlan(), error.applied, verified=False, detail=error.message)
        )
        return error.status
    detail = (
        _ports(restored, "holds its original word", "hold their original words")
        if restored
        else "nothing to restore: no change of this boot is saved"
    )
    verified = all(one.ok for one in restored) if restored else None
    session.emit(_report(session, facts, AcsPlan(), restored, verified=verified, detail=detail))
    return Exit.OK


def _planned(
    session: Session,
    *,
    pairs: str | None,
    all_bits: bool,
    force: bool,
    reason: str | None,
    allow_in_use: bool = False,
    as_booted: bool = False,
) -> tuple[NodeFacts, AcsPlan]:
    """`as_booted`: for the words that this boot began with, whatever was cleared since."""
    if force and not (reason and reason.strip()):
        raise UsageError("--force needs --reason TEXT: it is kept in state and report")
    # Without names: asking lspci for them would take as long as all the rest.
    facts = collect_with_gpus(session.host, session.settings.accelerators, names=False)
    saved = saved_in_this_boot(facts, session.store) if as_booted else None
    wanted = plan(
        with_originals(facts, saved),
        pairs=pair_choice(session.settings, pairs),
        all_bits=all_bits,
        forced_reason=reason if force else None,
        allow_in_guest=session.settings.acs.allow_in_guest,
        allow_in_use=allow_in_use,
    )
    return facts, wanted


def _plan_detail(wanted: AcsPlan) -> str:
    if wanted.refusals:
        return "refused: nothing may be changed"
    writes = wanted.writes
    return f"{_ports(writes)} to write" if writes else "nothing to do: no GPU path redirects"


def _ports(every: Sized, does: str = "", do: str = "") -> str:
    """`1 port holds its word`, `4 ports hold their words`."""
    return f"{count(len(every), 'port')} {does if len(every) == 1 else do}".rstrip()


def _looked_at(checked: AcsVerification, wanted: AcsPlan) -> tuple[PortCheck, ...]:
    """Ports written in this boot, then ports that would have to be written."""
    saved = {port.bdf for port in checked.ports}
    others = (
        PortCheck(bdf=write.bdf, expected=write.after, found=write.before, rearmed=False)
        for write in wanted.writes
        if write.bdf not in saved
    )
    return (*checked.ports, *others)


def _report(
    session: Session,
    facts: NodeFacts,
    wanted: AcsPlan,
    applied: tuple[AppliedWrite, ...] = (),
    *,
    verified: bool | None = None,
    detail: str,
) -> AcsReport:
    return AcsReport(
        **stamp("acs", facts.boot_id),
        actions=wanted.actions,
        kernel_parameter=wanted.kernel_parameter,
        applied=applied,
        verified=verified,
        plan=wanted,
        detail=detail,
        simulated=session.host.simulates,
        findings=_rearmed(session, facts),
        machine=facts.machine,
    )


def _rearmed(session: Session, facts: NodeFacts) -> tuple[Finding, ...]:
    """The finding about ports that came back in this boot, from what is saved at this moment."""
    saved = saved_in_this_boot(facts, session.store)
    if saved is None or not any(port.rearmed for port in saved.ports):
        return ()
    from nodeprep.audit.run import audit

    found = audit(replace(facts, acs_saved=saved), session.settings, session.today)
    return tuple(one for one in found if one.id == "acs-rearmed")
