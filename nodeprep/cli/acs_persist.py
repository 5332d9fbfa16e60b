"""`nodeprep acs persist`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nodeprep.acs import boot_parameter, units
from nodeprep.acs.again import saved_in_this_boot
from nodeprep.acs.outcome import check_root
from nodeprep.acs.pairs import pair_choice
from nodeprep.acs.plan import plan
from nodeprep.acs.saved import with_originals
from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, UsageError
from nodeprep.facts.collect import collect
from nodeprep.model.acs import AcsPlan, BootParameter
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.report import PersistReport
from nodeprep.model.serving import RenderedFile
from nodeprep.stamp import stamp

_SLASH = Path("/")
_STATES = {
    "absent": "nothing is written for the next boot",
    "outdated": "the files differ from those of this nodeprep",
    "disabled": "the files are there and not enabled",
    "enabled": "the boot unit, the timer and the udev rule are in place",
    "pending-reboot": "written; this boot has not got the parameter: reboot, then check again",
    "in-effect": "this boot has the parameter, and no port it names redirects",
    "no-effect": "this boot has the parameter, and ports it names redirect or are not there",
    "foreign": "this boot has an ACS parameter that nodeprep did not write",
}
_GOOD = ("enabled", "in-effect")


@click.command("persist")
@click.option(
    "--method", type=click.Choice(["systemd", "kernel"]), default="systemd", show_default=True,
    help="systemd: units that apply at boot and when ACS comes back; kernel: a GRUB drop-in.",
)  # fmt: skip
@click.option("--remove", is_flag=True, help="Take away what persist wrote.")
@click.option("--check", is_flag=True, help="Only say what is written and whether it holds.")
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=_SLASH,
    metavar="DIR", help="Write below DIR: for the root folder of an image.",
)  # fmt: skip
@session_options()
def persist_command(session: Session, method: str, remove: bool, check: bool, root: Path) -> int:
    """Keep GPU paths free: at every boot, and when error recovery or hot plug arms ACS again.

    What is applied is the policy of the configuration file.  --check ends with 6 unless the
    systemd method is enabled or the kernel parameter is in effect.
    """
    if remove and check:
        raise UsageError("give one of --remove and --check")
    live = session.host.origin is Origin.LIVE
    if not live and root == _SLASH and not check:
        raise UsageError(
            "a recorded machine has no /etc to write to", hint="give --root DIR, or --check"
        )
    if not check:
        check_root(session.host)
    keep = _Units(session, root) if method == "systemd" else _Parameter(session, root)
    action = "remove" if remove else "check" if check else "install"
    files = keep.uninstall() if remove else () if check else keep.install()
    report = keep.report(action, files)
    session.emit(report)
    return Exit.OK if not check or report.state in _GOOD else Exit.UNVERIFIED


class _Units:
    """The systemd method."""

    def __init__(self, session: Session, root: Path) -> None:
        self._session = session
        self._root = root
        self._program = _program()

    def install(self) -> tuple[RenderedFile, ...]:
        return units.install(self._session.host, self._root, self._program)

    def uninstall(self) -> tuple[RenderedFile, ...]:
        return units.uninstall(self._session.host, self._root)

    def report(self, action: str, files: tuple[RenderedFile, ...]) -> PersistReport:
        state = units.state(self._session.host, self._root, self._program)
        steps = ["nodeprep acs persist"] if action == "check" and state != "enabled" else []
        return _report("systemd", action, state, files, next_steps=tuple(steps))


class _Parameter:
    """The kernel method."""

    def __init__(self, session: Session, root: Path) -> None:
        self._session = session
        self._root = root
        self._facts = collect(session.host, session.settings.accelerators, names=False)
        self._plan = AcsPlan()

    def install(self) -> tuple[RenderedFile, ...]:
        """The parameter for the words that this boot began with: those cleared since count too."""
        session, facts = self._session, self._facts
        policy = session.settings
        self._plan = plan(
            with_originals(facts, saved_in_this_boot(facts, session.store)),
            pairs=pair_choice(policy),
            allow_in_guest=policy.acs.allow_in_guest,
            allow_in_use=True,
        )
        return boot_parameter.install(session.host, facts, self._plan, self._root)

    def uninstall(self) -> tuple[RenderedFile, ...]:
        return boot_parameter.uninstall(self._session.host, self._root)

    def report(self, action: str, files: tuple[RenderedFile, ...]) -> PersistReport:
        found = boot_parameter.read(self._facts, self._root)
        return _report(
            "kernel",
            action,
            found.state,
            files,
            found=found,
            next_steps=_steps(self._facts, found, files, self._session),
            notes=self._plan.notes,
            boot_id=self._facts.boot_id,
        )


def _steps(
    facts: NodeFacts, found: BootParameter, files: tuple[RenderedFile, ...], session: Session
) -> tuple[str, ...]:
    """What is left to do by hand."""
    told = []
    if any(one.changed for one in files):
        by_itself = facts.origin is Origin.LIVE and session.host.has_program("update-grub")
        told += [] if by_itself else ["update-grub"]
    if found.state == "pending-reboot":
        told += ["reboot", "nodeprep acs persist --method kernel --check"]
    if found.state == "no-effect":
        told += ["dmesg | grep -e 'Configured ACS' -e \"Can't parse ACS\"", "nodeprep acs apply"]
    return tuple(told)


def _report(
    method: str,
    action: str,
    state: str,
    files: tuple[RenderedFile, ...],
    *,
    found: BootParameter | None = None,
    next_steps: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    boot_id: str | None = None,
) -> PersistReport:
    return PersistReport(
        **stamp("persist", boot_id),
        method=method,
        action=action,
        state=state,
        detail=_STATES[state],
        files=files,
        kernel_parameter="" if found is None else found.parameter,
        ports=() if found is None else found.ports,
        next_steps=next_steps,
        notes=notes,
    )


def _program() -> str:
    """The program that the units are to call: this one, by its whole path."""
    called = Path(sys.argv[0])
    if called.name == "nodeprep" and called.is_absolute():
        return str(called)
    beside = Path(sys.executable).parent / "nodeprep"
    return str(beside) if beside.exists() else "/usr/bin/nodeprep"
