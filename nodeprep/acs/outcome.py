"""How a change of registers ends when it does not end well."""

from __future__ import annotations

from collections.abc import Sequence

from nodeprep.acs.registers import Method
from nodeprep.errors import Exit, NeedsRoot, NotFound, StateError, Unverified
from nodeprep.host.base import Host
from nodeprep.model.acs import AppliedWrite
from nodeprep.model.facts import Origin


class Unfinished(Unverified):
    """Registers do not hold what they should; `applied` tells each port's state."""

    def __init__(self, message: str, *, applied: Sequence[AppliedWrite], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.applied = tuple(applied)


class StaleState(StateError):
    """The saved words belong to another boot: they are gone, and nothing was changed."""

    status = Exit.REFUSED


def check_root(host: Host) -> None:
    """Raises NeedsRoot before anything is touched."""
    if host.origin is Origin.LIVE and not host.is_root:
        raise NeedsRoot("changing ACS registers needs root", hint="run it with sudo")


def check_method(host: Host, method: Method) -> None:
    """Raises NotFound before anything is touched."""
    if method is Method.SETPCI and not host.has_program("setpci"):
        raise NotFound("there is no setpci", hint="install pciutils, or use --method sysfs")
