"""The guests, and what a run of them showed."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vm import image
from tests.vm.guest import Guest
from tests.vm.topology import fabric

_PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "sfdisk": "fdisk",
    "dpkg-deb": "dpkg",
}
_REQUIRED = os.environ.get("NODEPREP_REQUIRE_VM") == "1"


def _why_not() -> str | None:
    """Why no guest can be run here; None: it can."""
    if not _REQUIRED and os.environ.get("NODEPREP_VM") != "1":
        return "guests take minutes: set NODEPREP_VM=1 to run them"
    if platform.machine() != "x86_64":
        return "the guest is x86_64"
    missing = [package for name, package in _PROGRAMS.items() if shutil.which(name) is None]
    if missing:
        return f"missing for the guest: apt-get install {' '.join(missing)}"
    return None if os.geteuid() == 0 else "the guest's root folder is built as root"


@pytest.fixture(scope="session")
def parts() -> Path:
    """Kernels and root folder, from the cache or built."""
    why_not = _why_not()
    if why_not is not None:
        if _REQUIRED:
            pytest.fail(f"NODEPREP_REQUIRE_VM=1, and {why_not}")
        pytest.skip(why_not)
    return image.parts()


@pytest.fixture(scope="session")
def disk(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The guest's disk; every guest starts from it and leaves it as it is."""
    work = tmp_path_factory.mktemp("disk")
    yield image.build(parts, work)
    shutil.rmtree(work, ignore_errors=True)


Boot = Callable[..., Guest]


@pytest.fixture(scope="session")
def boot(parts: Path, disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """Boots a guest; the caller stops it."""

    def start(version: str, append: str = "") -> Guest:
        work = tmp_path_factory.mktemp("guest")
        guest = Guest(work, disk, image.kernel(parts, version), fabric())
        try:
            guest.start(append)
        except BaseException:
            guest.stop()
            raise
        return guest

    return start


@pytest.fixture(scope="session")
def guest(boot: Boot) -> Iterator[Guest]:
    """The guest that most tests share, on Linux 6.12."""
    running = boot("6.12")
    yield running
    running.stop()


class Table:
    """What registers held, step by step; printed at the end of the test run."""

    def __init__(self, tell: Callable[[str, object], None], title: str) -> None:
        self._tell = tell
        self._began = time.monotonic()
        self._tell("table", f"\n{title}")

    def row(self, what: str, *words: str) -> None:
        spent = time.monotonic() - self._began
        self._tell("table", f"  {what:<58} {' '.join(words)}  ({spent:.0f} s)")


@pytest.fixture
def table(record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> Table:
    return Table(record_property, request.node.name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tables reach the end of the run from any worker, as properties of the reports."""
    lines = [
        str(value)
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, ())
        for name, value in getattr(report, "user_properties", ())
        if name == "table"
    ]
    if lines:
        terminalreporter.section("registers of the guests")
        terminalreporter.write_line("\n".join(lines))
