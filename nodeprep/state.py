"""The files nodeprep keeps: originals and history in the state folder, this boot in the run folder.

Every file is replaced in one step and never followed through a link.  What another user could have
written is not trusted: foreign owners and files or folders that others may change are refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from nodeprep.errors import ParseError, Refused, StateError
from nodeprep.model.acs import AcsState, SavedPort
from nodeprep.model.pci import parse_bdf

STATE_DIR = Path("/var/lib/nodeprep")
RUN_DIR = Path("/run/nodeprep")
ACS_STATE = "acs-state.json"
ACS_RETIRED = "acs-state.restored.json"
ACS_SCHEMA = "nodeprep.acs-state/1"
REPORT = "report.json"
READY = "ready"
HISTORY = "history"
GATE_HISTORY = "gate.json"

_MAX_ACS_BYTES = 4 << 20
_MAX_REPORT_BYTES = 64 << 20
_MAX_HISTORY_BYTES = 16 << 20
BRINGUP_LOCK = "bringup.lock"
_LOCK = "acs.lock"
LOCK_DEADLINE_S = 30.0
"""How long to wait for another nodeprep: several applies of a whole node."""

_LOCK_POLL_S = 0.05
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_WORD = re.compile(r"[0-9a-f]{4}")


class StateStore:
    """One state folder and one run folder; without the second both are the first."""

    def __init__(self, state_dir: Path, run_dir: Path | None = None) -> None:
        self.state_dir = state_dir
        self.run_dir = state_dir if run_dir is None else run_dir

    @property
    def acs_file(self) -> Path:
        """Where the originals are saved."""
        return self.state_dir / ACS_STATE

    @contextmanager
    def lock(self, deadline_s: float = LOCK_DEADLINE_S, name: str = _LOCK) -> Iterator[int]:
        """Keeps boot unit, timer, events and a person from changing ACS at the same time.

        Gives the descriptor.  The kernel frees the lock when the last process that has it is gone:
        the holder, and a program that the holder gave it to.  Raises Refused at the deadline.
        """
        with _folder(self.run_dir, create=0o755) as folder:
            descriptor = _open_lock(self.run_dir / name, folder)
            try:
                _acquire(descriptor, deadline_s)
                yield descriptor
            finally:
                os.close(descriptor)

    def load_acs(self) -> AcsState | None:
        """The saved originals; None: nothing is saved. A damaged file stays where it is."""
        content = read_in(self.state_dir, ACS_STATE, _MAX_ACS_BYTES)
        if content is None:
            return None
        try:
            state = msgspec.json.decode(content, type=AcsState)
            _check_acs(state)
        except (msgspec.MsgspecError, ParseError, UnicodeDecodeError, RecursionError) as error:
            raise StateError(
                f"{self.acs_file} is damaged and was left as it is: {error}",
                hint="keep a copy and move it away; a reboot brings back the firmware's ACS words",
            ) from None
        return state

    def save_acs(self, state: AcsState) -> None:
        """On disk, name and content, when this returns."""
        content = msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n"
        self._write(self.state_dir, ACS_STATE, content, mode=0o600, folder_mode=0o700)

    def remove_acs(self) -> None:
        """Forgets the saved originals: no register holds a word of ours."""
        _remove(self.state_dir, ACS_STATE)

    def retire_acs(self) -> None:
        """Renames the saved originals away once every register holds its own again."""
        with _folder(self.state_dir) as folder, _file_errors(self.acs_file):
            os.rename(ACS_STATE, ACS_RETIRED, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def load_retired_acs(self) -> AcsState | None:
        """What the last `restore` retired; None: nothing, or not to be read."""
        with suppress(StateError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            content = read_in(self.state_dir, ACS_RETIRED, _MAX_ACS_BYTES)
            return None if content is None else msgspec.json.decode(content, type=AcsState)
        return None

    def write_report(self, content: bytes) -> Path:
        """The last report of this boot, readable by everybody."""
        self._write(self.run_dir, REPORT, content, mode=0o644, folder_mode=0o755)
        return self.run_dir / REPORT

    def read_report(self) -> bytes | None:
        return read_in(self.run_dir, REPORT, _MAX_REPORT_BYTES)

    def write_gate_history(self, content: bytes) -> None:
        """The measurements of this node, over boots."""
        folder = self.state_dir / HISTORY
        self._write(folder, GATE_HISTORY, content, mode=0o644, folder_mode=0o755)

    def read_gate_history(self) -> bytes | None:
        return read_in(self.state_dir / HISTORY, GATE_HISTORY, _MAX_HISTORY_BYTES)

    def write_ready(self, boot_id: str, *, simulated: bool = False) -> None:
        """The stamp that lets the load balancer in; the last thing a boot run writes.

        The boot id is its first line; a measurement that was simulated says so in a second one.
        """
        stamp = f"{boot_id}\nsimulated\n" if simulated else f"{boot_id}\n"
        self._write(self.run_dir, READY, stamp.encode(), mode=0o644, folder_mode=0o755)

    def remove_ready(self) -> None:
        """The first thing a boot run does."""
        _remove(self.run_dir, READY)

    def read_ready(self) -> str | None:
        """Boot id of the stamp; None: there is no stamp."""
        content = read_in(self.run_dir, READY, 4096)
        return None if content is None else content.decode("ascii", "replace").partition("\n")[0]

    def ready_is_simulated(self) -> bool:
        """Whether the stamp rests on a simulated measurement."""
        content = read_in(self.run_dir, READY, 4096) or b""
        return b"simulated" in content.split(b"\n")[1:]

    def _write(
        self, directory: Path, name: str, content: bytes, *, mode: int, folder_mode: int
    ) -> None:
        path = directory / name
        with _folder(directory, create=folder_mode) as folder, _file_errors(path):
            _refuse_link(folder, path)
            replace_in(folder, name, content, mode)


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644, fsync: bool = True) -> None:
    """Replaces a file in one step: a reader sees the old content or the new, never a part.

    fsync: name and content survive a power cut once this returns.  A link in the place of the file
    is replaced, not followed.  Raises StateError.
    """
    with _file_errors(path):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            replace_in(folder, path.name, data, mode, fsync=fsync)
        finally:
            os.close(folder)


def default_state_dir(machine: str | None) -> Path:
    """A private folder of this user for one replayed machine; not made until it is written to.

    `$XDG_STATE_HOME/nodeprep/MACHINE`, else `~/.local/state/nodeprep/MACHINE`; where neither can be
    written, a folder under the temporary directory that belongs to this user alone.
    """
    name = _folder_name(machine)
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        base = given if given.is_absolute() else Path.home() / ".local/state"
    except RuntimeError:
        base = None
    if base is not None and base.is_absolute() and _could_make(base / "nodeprep" / name):
        return base / "nodeprep" / name
    import tempfile

    private = Path(tempfile.gettempdir()) / f"nodeprep-{os.geteuid()}"
    with _folder(private, create=0o700):
        return private / name


def _folder_name(machine: str | None) -> str:
    """A name that is one harmless path component, and differs where the machine's name does."""
    if machine is None:
        return "snapshot"
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", machine):
        return machine
    import hashlib

    return "machine-" + hashlib.sha256(machine.encode("utf-8", "replace")).hexdigest()[:16]


def _could_make(path: Path) -> bool:
    """Whether this user can write in the folder, or make it."""
    try:
        nearest = next(place for place in (path, *path.parents) if place.exists())
        return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError:
        return False


@contextmanager
def _folder(path: Path, *, create: int | None = None) -> Iterator[int]:
    """A descriptor of a folder that only its trusted owner can change.

    create: mode of the folder if it has to be made.  Raises FileNotFoundError without it.
    """
    with _file_errors(path, missing_ok=create is None):
        if create is not None:
            path.mkdir(mode=create, parents=True, exist_ok=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    try:
        _check_trusted(os.fstat(descriptor), path)
        yield descriptor
    finally:
        os.close(descriptor)


def _check_trusted(info: os.stat_result, path: Path) -> None:
    if info.st_uid not in (0, os.geteuid()):
        raise StateError(
            f"{path} belongs to user {info.st_uid}", hint="choose another with --state-dir"
        )
    if info.st_mode & _OTHERS_MAY_WRITE:
        raise StateError(f"{path} can be changed by others", hint=f"run: chmod go-w {path}")


def _check_file(info: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise StateError(f"{path} is not a plain file", hint="remove it")
    _check_trusted(info, path)


@contextmanager
def _file_errors(path: Path, *, missing_ok: bool = False) -> Iterator[None]:
    """Turns what the operating system says into a StateError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        if missing_ok:
            raise
        raise StateError(f"{path}: {error.strerror}") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise StateError(
                f"{path} is a link, or not what it should be",
                hint="remove it, or choose another folder with --state-dir",
            ) from None
        hint = "run as root, or choose a folder of yours with --state-dir"
        raise StateError(
            f"{path}: {error.strerror}", hint=hint if error.errno in _NO_RIGHT else ""
        ) from None


_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


def _refuse_link(folder: int, path: Path) -> None:
    try:
        info = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    _check_file(info, path)


def replace_in(folder: int, name: str, data: bytes, mode: int, *, fsync: bool = True) -> None:
    """Replaces a file of an open folder in one step; its mode is right from the first moment."""
    temporary = f".{name}.{os.urandom(6).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if fsync:
                os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if fsync:
        os.fsync(folder)


def read_in(directory: Path, name: str, limit_bytes: int) -> bytes | None:
    """A whole small file of ours; None when it or its folder is not there."""
    path = directory / name
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with _folder(directory) as folder, _file_errors(path, missing_ok=True):
            descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        _check_file(os.fstat(descriptor), path)
        with _file_errors(path), os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(limit_bytes + 1)
    finally:
        os.close(descriptor)
    if len(content) > limit_bytes:
        raise StateError(f"{path} is over {limit_bytes >> 20} MiB: not a file of ours")
    return content


def _remove(directory: Path, name: str) -> None:
    with suppress(FileNotFoundError), _folder(directory) as folder:
        with _file_errors(directory / name, missing_ok=True):
            os.unlink(name, dir_fd=folder)
        os.fsync(folder)


def _open_lock(path: Path, folder: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with _file_errors(path):
        descriptor = os.open(path.name, flags, 0o600, dir_fd=folder)
    try:
        _check_file(os.fstat(descriptor), path)
    except StateError:
        os.close(descriptor)
        raise
    return descriptor


def _acquire(descriptor: int, deadline_s: float) -> None:
    """Takes the lock and leaves this process's number in it for whoever waits in vain."""
    end = time.monotonic() + deadline_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= end:
                holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                raise Refused(
                    f"another nodeprep (process {holder or 'unknown'}) is at work",
                    hint="wait for it to end, then try again",
                ) from None
            time.sleep(_LOCK_POLL_S)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _check_acs(state: AcsState) -> None:
    """What the types do not say: schema, addresses and register words. Raises ParseError."""
    if state.schema != ACS_SCHEMA:
        raise ParseError(f"schema {state.schema[:40]!r}, this nodeprep reads {ACS_SCHEMA}")
    for port in state.ports:
        _check_port(port)


def _check_port(port: SavedPort) -> None:
    for bdf in (port.bdf, *port.path):
        if parse_bdf(bdf) != bdf:
            raise ParseError(f"not a PCI address in its whole form: {bdf[:40]!r}")
    if not port.path or port.path[-1] != port.bdf:
        raise ParseError(f"the path of {port.bdf} does not end at it")
    for word in (port.original, port.written):
        if _WORD.fullmatch(word) is None:
            raise ParseError(f"not a register word: {word[:40]!r}")
