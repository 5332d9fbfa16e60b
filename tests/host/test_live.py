"""The live door: supervised programs, bounded reads, honest errors."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import pytest

from nodeprep.errors import Denied, HostError, NotFound, TimedOut
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.host.live import MAX_OUTPUT_BYTES, LiveHost


def script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(path)


def test_output_status_and_closed_stdin(tmp_path: Path) -> None:
    program = script(tmp_path, "p", "import sys; print(sys.stdin.read() == ''); sys.exit(7)")
    result = LiveHost().run((program,), deadline_s=20)
    assert (result.status, result.stdout.strip()) == (7, "True")


def test_the_environment_is_small_and_explicit(tmp_path: Path) -> None:
    os.environ["NODEPREP_TEST_SECRET"] = "x"
    program = script(tmp_path, "p", "import os; print(sorted(os.environ))")
    result = LiveHost().run((program,), deadline_s=20, env={"NCCL_DEBUG": "INFO"})
    assert "NODEPREP_TEST_SECRET" not in result.stdout
    assert "NCCL_DEBUG" in result.stdout
    assert "LC_ALL" in result.stdout


def test_a_deadline_ends_the_whole_group(tmp_path: Path) -> None:
    """The child ignores TERM and has a child of its own; none of the two survives."""
    mark = tmp_path / "pids"
    program = script(
        tmp_path,
        "p",
        f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    open({str(mark)!r}, "w").write(f"{{os.getpid()}} {{child}}")
time.sleep(600)
""",
    )
    started = time.monotonic()
    with pytest.raises(TimedOut, match="within 1 s"):
        LiveHost().run((program,), deadline_s=1)
    assert time.monotonic() - started < 30
    for pid in mark.read_text().split():
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().split()[2] == "Z"


def test_output_is_bounded(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "p",
        f"import sys\nfor _ in range(3): sys.stdout.write('x' * {MAX_OUTPUT_BYTES // 2})",
    )
    result = LiveHost().run((program,), deadline_s=60)
    assert result.truncated
    assert len(result.stdout) == MAX_OUTPUT_BYTES


def test_what_is_not_there() -> None:
    host = LiveHost()
    with pytest.raises(NotFound):
        host.run(("no-such-program-anywhere",), deadline_s=1)
    with pytest.raises(NotFound):
        host.read_text("/no/such/file")
    with pytest.raises(NotFound):
        host.list_dir("/no/such/directory")
    with pytest.raises(HostError):
        host.read_text("/proc")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    with pytest.raises(Denied):
        LiveHost().read_text(str(secret))


def test_a_search_path_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    script(folder, "planted-program", "print('planted')")
    folder.chmod(folder.stat().st_mode | stat.S_IWOTH)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    try:
        assert not LiveHost().has_program("planted-program")
    finally:
        os.environ["PATH"] = before


def test_every_program_is_told_before_it_runs(tmp_path: Path) -> None:
    host = LiveHost()
    told: list[tuple[str, ...]] = []
    host.on_run = told.append
    program = script(tmp_path, "p", "pass")
    host.run((program, "a b"), deadline_s=20)
    assert told == [(program, "a b")]


def test_a_fabricated_tree_says_nothing_of_this_computer(tmp_path: Path) -> None:
    (tmp_path / "devices").mkdir()
    host = FabricatedHost(tmp_path)
    assert host.is_root is None
    assert host.list_dir("/sys/bus/pci/devices") == ()
    for path in ("/proc/cmdline", "/sys/bus/pci/../../etc/passwd", "/etc/hostname"):
        with pytest.raises(NotFound):
            host.read_text(path)
    with pytest.raises(NotFound):
        host.nvml()
    with pytest.raises(NotFound):
        host.resources()
    assert not host.has_program("nvidia-smi")


def test_a_tree_without_devices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="devices"):
        FabricatedHost(tmp_path)
