"""The machine itself; the only module that runs programs."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from nodeprep.errors import HostError, NotFound, TimedOut
from nodeprep.host.base import OnLine, ReadAt, asking
from nodeprep.host.supervision import MAX_OUTPUT_BYTES as MAX_OUTPUT_BYTES
from nodeprep.host.supervision import Drain, end_group, signals_held
from nodeprep.model.facts import Origin
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading, Stopped

MAX_TEXT_BYTES = 1 << 20
_POLL_S = 0.05
_REAP_S = 2.0
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LiveHost:
    """This computer."""

    origin = Origin.LIVE
    machine: str | None = None
    constructed = False
    simulates = False

    def __init__(self) -> None:
        self.on_run: Callable[[tuple[str, ...]], None] | None = None
        """Told of every program before it runs."""
        self._held: tuple[int, ...] = ()
        self._search_path = _trusted_search_path(os.environ.get("PATH", _SYSTEM_PATH))

    @property
    def is_root(self) -> bool | None:
        return os.geteuid() == 0

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        def read() -> bytes:
            wanted = MAX_TEXT_BYTES if length is None else length
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.pread(descriptor, wanted, offset)
            finally:
                os.close(descriptor)

        return asking(path, read)

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        return _Opened(path)

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        def write() -> int:
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                return os.pwrite(descriptor, data, offset)
            finally:
                os.close(descriptor)

        written = asking(path, write)
        if written != len(data):
            raise HostError(f"{path}: {written} of {len(data)} bytes were written")

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "replace").rstrip("\n\0")

    def list_dir(self, path: str) -> tuple[str, ...]:
        return asking(path, lambda: tuple(sorted(os.listdir(path))))  # noqa: PTH208

    def read_link(self, path: str) -> str:
        return asking(path, lambda: os.readlink(path))  # noqa: PTH115

    def has_program(self, name: str) -> bool:
        return self._program(name) is not None

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        result = self._start(argv, env, deadline_s)
        if result.stopped is not None:
            tail = (
                "; it does not die (state D): the node needs a reboot" if result.survivors else ""
            )
            raise TimedOut(f"{argv[0]} gave no answer within {deadline_s:g} s{tail}")
        return result

    def watch(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        silence_s: float | None = None,
        on_line: OnLine | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        return self._start(argv, env, deadline_s, silence_s, on_line)

    def _start(
        self,
        argv: Sequence[str],
        env: dict[str, str] | None,
        deadline_s: float,
        silence_s: float | None = None,
        on_line: OnLine | None = None,
    ) -> CommandResult:
        program = self._program(argv[0])
        if program is None:
            raise NotFound(f"no program {argv[0]}", hint=_package_hint(argv[0]))
        if self.on_run is not None:
            self.on_run(tuple(argv))
        return _supervised(
            (program, *argv[1:]),
            shown=tuple(argv),
            env={"PATH": self._search_path, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
            | (env or {}),
            deadline_s=deadline_s,
            silence_s=silence_s,
            on_line=on_line,
            held=self._held,
        )

    @contextmanager
    def holding(self, descriptor: int) -> Iterator[None]:
        before, self._held = self._held, (*self._held, descriptor)
        try:
            yield
        finally:
            self._held = before

    def nvml(self) -> NvmlReading:
        from nodeprep.host.nvml import read_nvml

        return read_nvml()

    def resources(self) -> ResourcesReading:
        from nodeprep.host.resources import read_resources

        return read_resources()

    def _program(self, name: str) -> str | None:
        return shutil.which(name, path=self._search_path)


class _Opened:
    """A file kept open between reads: configuration space is read in a dozen small pieces."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> ReadAt:
        self._descriptor = asking(
            self._path, lambda: os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        )
        return self._read

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def _read(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise HostError(f"{self._path}: {error}") from error


def _trusted_search_path(path: str) -> str:
    """The search path without relative, missing and world-writable directories."""

    def trusted(entry: str) -> bool:
        if not entry.startswith("/"):
            return False
        try:
            return not Path(entry).stat().st_mode & stat.S_IWOTH
        except OSError:
            return False

    return ":".join(filter(trusted, path.split(":"))) or _SYSTEM_PATH


def _package_hint(program: str) -> str:
    packages = {"setpci": "pciutils", "lspci": "pciutils", "nvidia-smi": "the NVIDIA driver"}
    package = packages.get(program)
    return f"install {package}" if package else ""


def _supervised(
    argv: tuple[str, ...],
    *,
    shown: tuple[str, ...],
    env: dict[str, str],
    deadline_s: float,
    silence_s: float | None = None,
    on_line: OnLine | None = None,
    held: tuple[int, ...] = (),
) -> CommandResult:
    """Runs a program in its own process group; nothing of the group outlives this call."""
    started = time.monotonic()
    lines: SimpleQueue[str | None] = SimpleQueue()
    process: subprocess.Popen[bytes] | None = None
    survivors: tuple[str, ...] = ()
    try:
        with signals_held():
            process = _spawned(argv, shown[0], env, held)
            assert process.stdout is not None
            assert process.stderr is not None
            output, errors = Drain(process.stdout, lines), Drain(process.stderr)
        stopped = _follow(process, lines, deadline_s, silence_s, on_line)
    finally:
        if process is not None:
            survivors = end_group(process.pid, process.poll)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.0 if survivors else _REAP_S)
    return CommandResult(
        argv=shown,
        status=-signal.SIGKILL if process.returncode is None else process.returncode,
        stdout=output.finish(),
        stderr=errors.finish(),
        truncated=output.truncated or errors.truncated,
        duration_s=time.monotonic() - started,
        stopped=stopped,
        survivors=survivors,
    )


def _spawned(
    argv: tuple[str, ...], name: str, env: dict[str, str], held: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """The program in a session of its own."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd="/",
            start_new_session=True,
            pass_fds=held,
        )
    except OSError as error:
        raise NotFound(f"cannot start {name}: {error.strerror}") from error
    _no_core_file(process.pid)
    return process


def _follow(
    process: subprocess.Popen[bytes],
    lines: SimpleQueue[str | None],
    deadline_s: float,
    silence_s: float | None,
    on_line: OnLine | None,
) -> Stopped | None:
    """Passes lines on until the program ends (None) or a limit is met."""
    began = alive = time.monotonic()
    while True:
        now = time.monotonic()
        if now - began >= deadline_s:
            return Stopped.DEADLINE
        if silence_s is not None and now - alive >= silence_s:
            return Stopped.SILENCE
        try:
            line = lines.get(timeout=min(_POLL_S, deadline_s))
        except Empty:
            if process.poll() is not None:
                return None
            continue
        if line is None:
            rest = deadline_s - (time.monotonic() - began)
            limit = rest if silence_s is None else min(rest, silence_s - (now - alive))
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(limit, 0.0))
                return None
        elif on_line is None or on_line(line):
            alive = time.monotonic()


def _no_core_file(pid: int) -> None:
    """A program that crashes leaves no image of itself on the disk."""
    with suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
