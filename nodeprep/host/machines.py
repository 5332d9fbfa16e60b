"""The recorded machines that ship with the package."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from nodeprep.errors import UsageError
from nodeprep.resources import MACHINES


def machine_names() -> tuple[str, ...]:
    """Names of all shipped machines."""
    return tuple(sorted(path.stem for path in MACHINES.glob("*.json")))


def machine_file(name: str) -> Path:
    """The file of one machine. Raises UsageError with the nearest name."""
    names = machine_names()
    if name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
        raise UsageError(f"no recorded machine {name[:60]!r}", hint=hint)
    return MACHINES / f"{name}.json"


def expected_exit(name: str) -> int | None:
    """What `bringup` must end with on a shipped machine, as its expectation says.

    None: there is no expectation, or it does not say.  Read from MACHINE.expect.toml beside it.
    """
    import msgspec

    try:
        told = msgspec.toml.decode(machine_file(name).with_suffix(".expect.toml").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    status = told.get("exit_status")
    return status if isinstance(status, int) else None
