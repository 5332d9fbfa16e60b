from __future__ import annotations

import io
import re

import pytest

from nodeprep.output.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_stage_is_shown_and_wiped() -> None:
    stream = Terminal()
    with progress(stream, {"TERM": "xterm"}, width=80) as shown, shown.stage("gate") as step:
        step.note("all_reduce_perf on 4 GPUs")
    lines = stream.getvalue().split("\r\x1b[K")
    assert lines == ["", "gate  0 s", "gate  all_reduce_perf on 4 GPUs  0 s", ""]


def test_a_stage_that_fails_is_wiped_too() -> None:
    stream = Terminal()
    shown = progress(stream, {"TERM": "xterm"}, width=80)
    with pytest.raises(ValueError, match="no"), shown.stage("gate"):
        raise ValueError("no")
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("stream", "env"),
    [(io.StringIO(), {"TERM": "xterm"}), (Terminal(), {"TERM": "dumb"}), (Terminal(), {})],
)
def test_it_is_silent_where_a_line_cannot_be_rewritten(
    stream: io.StringIO, env: dict[str, str]
) -> None:
    with progress(stream, env).stage("gate") as step:
        step.note("x")
    assert stream.getvalue() == ""


def test_notes_are_safe_and_keep_to_one_line() -> None:
    stream = Terminal()
    with progress(stream, {"TERM": "xterm"}, width=40).stage("gate") as step:
        step.note("\x1b[2J\n" + "x" * 100)
    lines = stream.getvalue().split("\r\x1b[K")
    assert all(len(line) < 40 and line.isprintable() for line in lines)
    assert any(re.search(r"\\x1b\[2J\\nx+\.\.\.", line) for line in lines)
