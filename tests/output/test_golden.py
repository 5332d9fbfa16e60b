"""Every page as it is printed.  NODEPREP_UPDATE_GOLDEN=1 writes the files anew: read the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeprep.output.choose import render
from tests.output import documents

GOLDEN = Path(__file__).parent / "golden"
FORMS = {
    "text80": ("text", "never", 80),
    "text120": ("text", "never", 120),
    "color80": ("text", "always", 80),
    "brief": ("brief", "never", 80),
}
CASES = [(form, name) for form in FORMS for name in documents.ALL]


@pytest.mark.parametrize(("form", "name"), CASES)
def test_a_page_looks_as_it_did(form: str, name: str) -> None:
    fmt, color, width = FORMS[form]
    text = render(documents.ALL[name], fmt, stream_is_tty=False, color=color, env={}, width=width)
    path = GOLDEN / form / f"{name}.txt"
    if os.environ.get("NODEPREP_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_its_document() -> None:
    files = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.txt")}
    assert files == {f"{form}/{name}.txt" for form, name in CASES}
