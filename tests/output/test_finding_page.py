from __future__ import annotations

import json

from nodeprep.audit.pages import page, page_ids
from nodeprep.model.report import ExplainFindingReport
from nodeprep.output.brief import brief
from nodeprep.output.json import dump
from nodeprep.output.text import render_text
from tests.output.documents.head import head

TEXT = """# some-finding

First line of a paragraph
and its second with `code` and a [page](other.md).

Another paragraph.

## What to do
    nodeprep acs plan        # two   spaces stay
    sudo nodeprep acs apply

- one item
  over two lines
- another
"""
REPORT = ExplainFindingReport(**head("finding-page"), id="some-finding", text=TEXT)


def shown(report: ExplainFindingReport, width: int = 80) -> list[str]:
    return render_text(report, color=False, width=width).splitlines()


def test_the_page_reads_without_marks() -> None:
    assert shown(REPORT) == [
        "some-finding",
        "",
        "  First line of a paragraph and its second with code and a page (other.md).",
        "",
        "  Another paragraph.",
        "",
        "WHAT TO DO",
        "    nodeprep acs plan        # two   spaces stay",
        "    sudo nodeprep acs apply",
        "",
        "  \u00b7 one item over two lines",
        "  \u00b7 another",
    ]


def test_every_page_keeps_every_word() -> None:
    for finding_id in page_ids():
        text = page(finding_id)
        report = ExplainFindingReport(**head("finding-page"), id=finding_id, text=text)
        words = " ".join(shown(report, 120)).replace("`", "").upper().split()
        for word in text.replace("`", "").upper().split():
            assert word in words or word in ("-", "#", "##") or "](" in word, (finding_id, word)


def test_json_is_one_document_and_brief_the_page_itself() -> None:
    document = json.loads(dump(REPORT))
    assert (document["schema"], document["id"]) == ("nodeprep.finding-page/1", "some-finding")
    assert document["text"] == TEXT
    assert brief(REPORT) == TEXT


def test_a_page_cannot_move_the_cursor() -> None:
    hostile = ExplainFindingReport(**head("finding-page"), id="a", text="\x1b[2J\n\n    \x07\n")
    assert all(char.isprintable() or char == "\n" for char in "\n".join(shown(hostile)))
