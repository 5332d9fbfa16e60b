"""Persistence by systemd: the boot unit, the unit that writes again, what starts it."""

from __future__ import annotations

from pathlib import Path

from nodeprep.acs.etc import put, remove
from nodeprep.errors import NodeprepError
from nodeprep.host.base import Host
from nodeprep.model.serving import RenderedFile
from nodeprep.resources import shipped

BOOT = "nodeprep-acs.service"
CLOCK = "nodeprep-acs-reapply.timer"
UNITS = (BOOT, "nodeprep-acs-reapply.service", CLOCK, "nodeprep-acs-settle.timer")
RULES = "90-nodeprep-acs.rules"
ENABLED = (BOOT, CLOCK)

_PROGRAM = "/usr/bin/nodeprep"
_DEADLINE_S = 60.0


def contents(program: str) -> dict[str, str]:
    """Each file by its place below the root; units call `program`."""
    files = {
        f"etc/systemd/system/{name}": (shipped("systemd") / name)
        .read_text()
        .replace(f"={_PROGRAM} ", f"={program} ")
        for name in UNITS
    }
    return files | {f"etc/udev/rules.d/{RULES}": (shipped("udev") / RULES).read_text()}


def install(host: Host, root: Path, program: str) -> tuple[RenderedFile, ...]:
    """Writes what differs and enables both; started is only the timer. Raises NodeprepError."""
    files = tuple(put(root, place, text) for place, text in contents(program).items())
    if _is_running(root):
        _systemctl(host, "daemon-reload")
        _systemctl(host, "enable", *ENABLED)
        _systemctl(host, "restart", CLOCK)
        _run(host, "udevadm", "control", "--reload")
    else:
        _systemctl(host, f"--root={root}", "enable", *ENABLED)
    return files


def uninstall(host: Host, root: Path) -> tuple[RenderedFile, ...]:
    """Takes all of it away; nothing there is no error."""
    there = [place for place in contents(_PROGRAM) if (root / place).exists()]
    if there:
        where = () if _is_running(root) else (f"--root={root}",)
        stop = ("--now",) if _is_running(root) else ()
        units = [Path(place).name for place in there if place.startswith("etc/systemd")]
        if units:
            # --now never stops the boot unit's work: registers keep their words.
            _systemctl(host, *where, "disable", *stop, *units)
    files = tuple(remove(root, place) for place in contents(_PROGRAM))
    if there and _is_running(root):
        _systemctl(host, "daemon-reload")
        _run(host, "udevadm", "control", "--reload")
    return files


def state(host: Host, root: Path, program: str) -> str:
    """`absent`, `outdated` (files differ), `disabled`, or `enabled`."""
    wanted = contents(program)
    found = {place: _text(root / place) for place in wanted}
    if all(text is None for text in found.values()):
        return "absent"
    if found != wanted:
        return "outdated"
    where = () if _is_running(root) else (f"--root={root}",)
    answers = [
        host.run(("systemctl", *where, "is-enabled", unit), deadline_s=_DEADLINE_S).stdout.strip()
        for unit in ENABLED
    ]
    return "enabled" if answers == ["enabled"] * len(ENABLED) else "disabled"


def _is_running(root: Path) -> bool:
    """The root is that of the system that runs, not that of an image."""
    return root == Path("/")


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _systemctl(host: Host, *arguments: str) -> None:
    _run(host, "systemctl", *arguments)


def _run(host: Host, *argv: str) -> None:
    result = host.run(argv, deadline_s=_DEADLINE_S)
    if result.status != 0:
        said = " ".join(result.stderr.split())[:200]
        raise NodeprepError(
            f"{' '.join(argv)[:120]} ended with {result.status}: {said}",
            hint="the files are in place; repair that and run it again",
        )
