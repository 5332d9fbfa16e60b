"""What every command needs: the host, the settings, the state folder, the way to print."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nodeprep.cli.printing import emit as emit
from nodeprep.errors import Exit, HostError, UsageError
from nodeprep.host.base import Host
from nodeprep.model.finding import Finding, Severity
from nodeprep.settings import DEFAULT_CONFIG, Settings, load_settings, parse_settings
from nodeprep.state import RUN_DIR, STATE_DIR, StateStore, default_state_dir

_REGISTERS = "registers.json"


@dataclass(frozen=True)
class Source:
    """Which machine is spoken about; at most one of the three is given."""

    machine: str | None = None
    snapshot: Path | None = None
    sysfs_root: Path | None = None


@dataclass(frozen=True)
class Session:
    """One command on one machine."""

    host: Host
    settings: Settings
    store: StateStore
    format: str
    color: str
    fail_on: str
    config: Path | None = None
    """The file that --config names, absolute; None: not given."""

    @property
    def today(self) -> date:
        return datetime.now(timezone.utc).date()

    def emit(self, document: Any) -> None:
        """Prints a document in the chosen form."""
        emit(document, self.format, self.color)

    def status_of(self, findings: tuple[Finding, ...]) -> Exit:
        """FINDINGS when something that counts is at or over --fail-on."""
        if self.fail_on == "never":
            return Exit.OK
        limit = Severity(self.fail_on).rank
        over = any(one.counts and one.severity.rank <= limit for one in findings)
        return Exit.FINDINGS if over else Exit.OK


def open_session(
    source: Source,
    *,
    config: Path | None = None,
    state_dir: Path | None = None,
    run_dir: Path | None = None,
    format: str = "auto",
    color: str = "auto",
    fail_on: str = "critical",
    verbose: bool = False,
) -> Session:
    """The session of one command. Raises UsageError, StateError or HostError."""
    if sum(value is not None for value in (source.machine, source.snapshot, source.sysfs_root)) > 1:
        raise UsageError("give one of --machine, --snapshot and --sysfs-root")
    store = _store(source, state_dir, run_dir)
    host = _host(source, store, verbose=verbose)
    return Session(
        host=host,
        settings=_settings(host, config),
        config=None if config is None else config.absolute(),
        store=store,
        format=format,
        color=color,
        fail_on=fail_on,
    )


def _store(source: Source, state_dir: Path | None, run_dir: Path | None) -> StateStore:
    """A live node keeps its state where systemd units find it; anything else stays private."""
    if source == Source():
        return StateStore(state_dir or STATE_DIR, run_dir or RUN_DIR)
    name = source.machine or _private_name(source)
    return StateStore(state_dir or default_state_dir(name), run_dir)


def _private_name(source: Source) -> str:
    place = source.snapshot or source.sysfs_root
    return f"file:{place.absolute()}" if place is not None else "snapshot"


def _host(source: Source, store: StateStore, *, verbose: bool) -> Host:
    if source.machine is not None or source.snapshot is not None:
        from nodeprep.host.replay import ReplayHost, load_snapshot

        path = source.snapshot or _machine_file(source.machine or "")
        return ReplayHost(load_snapshot(path), store.state_dir / _REGISTERS)
    from nodeprep.host.fabricated import FabricatedHost
    from nodeprep.host.live import LiveHost

    live = LiveHost() if source.sysfs_root is None else FabricatedHost(source.sysfs_root)
    if verbose:
        live.on_run = _show_command
    return live


def _show_command(argv: tuple[str, ...]) -> None:
    import shlex

    from nodeprep.output.escape import safe

    sys.stderr.write(f"+ {safe(shlex.join(argv), 4000)}\n")


def _machine_file(name: str) -> Path:
    from nodeprep.host.machines import machine_file

    return machine_file(name)


def _settings(host: Host, config: Path | None) -> Settings:
    """The file given; else the machine's own; else the defaults."""
    if config is not None:
        return load_settings(config)
    if host.simulates:
        return _recorded_settings(host)
    try:
        there = DEFAULT_CONFIG.exists()
    except PermissionError:
        # A folder closed to this user: what root's runs are told is not for it to know.
        return Settings()
    return load_settings(DEFAULT_CONFIG) if there else Settings()


def _recorded_settings(host: Host) -> Settings:
    """The recorded file; a path in it is one of the recorded machine, not of this computer."""
    try:
        text = host.read_text(str(DEFAULT_CONFIG))
    except HostError:
        return Settings()
    settings = parse_settings(text, "the recorded config.toml")
    model = settings.serving.model or ""
    if model.startswith(("/", ".")) or model.endswith(".json"):
        return replace(settings, serving=replace(settings.serving, model=None))
    return settings
