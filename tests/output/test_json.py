from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.base import Record
from nodeprep.output.json import dump, dump_text
from tests.output import documents
from tests.output.hostile import PAYLOAD, poisoned, with_strings

NAMES = list(documents.ALL)


@pytest.mark.parametrize("name", NAMES)
def test_a_document_survives_the_way_through_json(name: str) -> None:
    document = documents.ALL[name]
    assert msgspec.json.decode(dump(document), type=type(document)) == document


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_indented_and_ends_its_last_line(name: str) -> None:
    text = dump(documents.ALL[name]).decode()
    assert text.startswith('{\n  "')
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("name", NAMES)
def test_hostile_strings_are_escaped_and_still_mean_the_same(name: str) -> None:
    text = dump(poisoned(documents.ALL[name])).decode()
    assert all(char.isprintable() or char == "\n" for char in text)
    kept = PAYLOAD.replace("\ud800", "\\ud800")  # no JSON text may hold a lone surrogate
    read = msgspec.json.decode(text, type=type(documents.ALL[name]))
    assert read == with_strings(documents.ALL[name], lambda one: one + kept)


@given(st.text(st.characters(codec="utf-8")))
def test_ascii_json_says_the_same(text: str) -> None:
    class Document(Record, frozen=True):
        text: str

    shown = dump_text(Document(text=text), ascii_only=True)
    assert shown.isascii()
    assert json.loads(shown) == {"text": text}
