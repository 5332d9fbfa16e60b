from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nodeprep.errors import UsageError
from nodeprep.output.choose import choose_format, render, wants_color, wants_unicode
from tests.output.documents.others import ERROR
from tests.output.hostile import poisoned

HEAVY = ("rich", "jinja2", "pynvml", "psutil", "pyudev", "yaml", "prometheus_client", "urllib")


@pytest.mark.parametrize(
    ("fmt", "tty", "chosen"),
    [
        ("auto", True, "text"),
        ("auto", False, "brief"),
        ("text", False, "text"),
        ("brief", True, "brief"),
        ("json", True, "json"),
        ("json", False, "json"),
    ],
)
def test_auto_is_text_on_a_terminal_and_brief_elsewhere(fmt: str, tty: bool, chosen: str) -> None:
    assert choose_format(fmt, stream_is_tty=tty) == chosen


@pytest.mark.parametrize(
    ("color", "tty", "env", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_colour_is_asked_for_or_right(
    color: str, tty: bool, env: dict[str, str], wanted: bool
) -> None:
    assert wants_color(color, stream_is_tty=tty, env=env) is wanted


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, True),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "C.utf8"}, True),
        ({"LANG": "C"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, True),
    ],
)
def test_the_character_set_is_that_of_the_locale(env: dict[str, str], wanted: bool) -> None:
    assert wants_unicode(env) is wanted


@pytest.mark.parametrize("fmt", ["text", "brief", "json"])
def test_another_character_set_gets_ascii(fmt: str) -> None:
    text = render(
        poisoned(ERROR), fmt, stream_is_tty=True, color="never", env={"LANG": "C"}, width=80
    )
    assert text.isascii()


def test_json_is_the_same_for_every_stream() -> None:
    documents = {
        render(ERROR, "json", stream_is_tty=tty, color=color, env={}, width=width)
        for tty in (True, False)
        for color in ("always", "never")
        for width in (40, 200)
    }
    assert len(documents) == 1
    assert json.loads(documents.pop())["status"] == 1


def test_a_wrong_name_is_an_error_with_a_hint() -> None:
    with pytest.raises(UsageError, match="unknown format") as error:
        choose_format("xml", stream_is_tty=True)
    assert "brief" in error.value.hint
    with pytest.raises(UsageError, match="unknown colour"):
        wants_color("red", stream_is_tty=True, env={})


@pytest.mark.parametrize("fmt", ["brief", "json"])
def test_nothing_heavy_is_loaded_but_for_text(fmt: str) -> None:
    program = (
        "import sys\n"
        "from nodeprep.output.choose import render\n"
        "from nodeprep.model.report import ErrorReport\n"
        "report = ErrorReport(schema='nodeprep.error/1', tool_version='0', boot_id=None,\n"
        "                     collected_at='', error='e', hint='h', status=1, name='error')\n"
        f"render(report, {fmt!r}, stream_is_tty=True, color='auto', env={{}}, width=80)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
