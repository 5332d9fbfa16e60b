"""A program that is watched while it runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodeprep.errors import NotFound
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.host.live import LiveHost
from nodeprep.host.recording import RecordingHost
from nodeprep.host.replay import ReplayHost
from nodeprep.host.supervision import MAX_LINE_BYTES, processes
from nodeprep.model.readings import Stopped
from nodeprep.model.snapshot import Missing, decisive
from tests.host.test_live import script


def test_lines_come_while_it_runs(tmp_path: Path) -> None:
    program = script(
        tmp_path, "p",
        "import time\nfor n in range(3): print('row', n, flush=True); time.sleep(0.4)",
    )  # fmt: skip
    seen: list[tuple[float, str]] = []

    def look(line: str) -> bool:
        seen.append((time.monotonic(), line))
        return True

    result = LiveHost().watch((program,), deadline_s=20, silence_s=5, on_line=look)
    assert (result.status, result.stopped) == (0, None)
    assert [line for _, line in seen] == ["row 0", "row 1", "row 2"]
    assert seen[2][0] - seen[0][0] > 0.5
    assert result.stdout == "row 0\nrow 1\nrow 2\n"


def test_silence_stops_it_and_keeps_what_it_said(tmp_path: Path) -> None:
    program = script(
        tmp_path, "p", "import time\nprint('head', flush=True)\nwhile 1: time.sleep(1)"
    )
    started = time.monotonic()
    result = LiveHost().watch((program,), deadline_s=60, silence_s=1.0)
    assert result.stopped is Stopped.SILENCE
    assert result.stdout == "head\n"
    assert result.status == -15
    assert time.monotonic() - started < 10


def test_only_signs_of_life_count(tmp_path: Path) -> None:
    """Chatter without a row is silence."""
    program = script(
        tmp_path, "p", "import time\nwhile 1: print('chatter', flush=True); time.sleep(0.1)"
    )
    result = LiveHost().watch(
        (program,), deadline_s=60, silence_s=1.0, on_line=lambda line: line.startswith("row")
    )
    assert result.stopped is Stopped.SILENCE


def test_the_deadline_holds_whatever_comes(tmp_path: Path) -> None:
    program = script(
        tmp_path, "p", "import time\nwhile 1: print('row', flush=True); time.sleep(0.05)"
    )
    result = LiveHost().watch((program,), deadline_s=1.0, silence_s=30)
    assert result.stopped is Stopped.DEADLINE


def test_a_program_that_closes_its_output_is_still_watched(tmp_path: Path) -> None:
    program = script(tmp_path, "p", "import os, time\nos.close(1); os.close(2); time.sleep(60)")
    started = time.monotonic()
    result = LiveHost().watch((program,), deadline_s=60, silence_s=1.0)
    assert result.stopped is Stopped.SILENCE
    assert time.monotonic() - started < 10


def test_an_endless_line_is_no_endless_memory(tmp_path: Path) -> None:
    lengths: list[int] = []

    def look(line: str) -> bool:
        lengths.append(len(line))
        return True

    program = script(tmp_path, "p", f"print('x' * {5 * MAX_LINE_BYTES})")
    LiveHost().watch((program,), deadline_s=30, on_line=look)
    assert max(lengths) <= 2 * MAX_LINE_BYTES


def test_a_look_that_raises_ends_the_program(tmp_path: Path) -> None:
    """Ctrl-C while it runs: nothing is left behind."""
    program = script(
        tmp_path, "p", "import time\nprint('row', flush=True)\ntime.sleep(600)  # to be ended"
    )

    def look(_: str) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LiveHost().watch((program,), deadline_s=60, on_line=look)
    left = []
    for one in processes():
        try:
            line = Path(f"/proc/{one.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if program.encode() in line and one.alive:
            left.append(one)
    assert left == []


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "devices").mkdir()
    with pytest.raises(NotFound):
        LiveHost().watch(("no-such-program-anywhere",), deadline_s=1)
    with pytest.raises(NotFound):
        FabricatedHost(tmp_path).watch(("nvidia-smi",), deadline_s=1)


def test_a_recording_answers_by_the_settings_that_decide(tmp_path: Path) -> None:
    """The same program with peer-to-peer off is another question."""
    program = script(tmp_path, "p", "import os; print('P2P', 'NCCL_P2P_DISABLE' in os.environ)")
    recording = RecordingHost(LiveHost())
    off = {"NCCL_P2P_DISABLE": "1", "NCCL_DEBUG": "INFO"}
    recording.watch((program,), deadline_s=30, env={"NCCL_DEBUG": "INFO"})
    recording.watch((program,), deadline_s=30, env=off)
    snapshot = recording.snapshot(
        tool_version="1", collected_at="2026-01-01", boot_id=None, notes=()
    )
    host = ReplayHost(snapshot)
    lines: list[str] = []

    def look(line: str) -> bool:
        lines.append(line)
        return True

    assert host.watch((program,), deadline_s=1, env=off, on_line=look).stdout == "P2P True\n"
    assert host.run((program,), deadline_s=1).stdout == "P2P False\n"
    assert lines == ["P2P True"]
    assert decisive(None) == {}


def test_a_stopped_run_is_recorded_as_such(tmp_path: Path) -> None:
    program = script(tmp_path, "p", "import time; time.sleep(60)")
    recording = RecordingHost(LiveHost())
    recording.watch((program,), deadline_s=0.5)
    snapshot = recording.snapshot(
        tool_version="1", collected_at="2026-01-01", boot_id=None, notes=()
    )
    assert [command.error for command in snapshot.commands] == [Missing.TIMED_OUT]
