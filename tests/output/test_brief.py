from __future__ import annotations

import pytest

from nodeprep.model.base import Record
from nodeprep.model.finding import Finding, Severity
from nodeprep.model.report import GateReport, NodeVerdict
from nodeprep.output.brief import brief
from tests.output import documents
from tests.output.documents.boots import READY, bringup
from tests.output.documents.changes import acs_report
from tests.output.documents.gates import GATE_SLOW
from tests.output.documents.head import head
from tests.output.hostile import poisoned

NAMES = list(documents.ALL)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_strings_forge_no_line(name: str) -> None:
    plain, text = brief(documents.ALL[name]), brief(poisoned(documents.ALL[name]))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.count("\n") == plain.count("\n")
    assert not any(line.startswith("READY forged") for line in text.split("\n"))


@pytest.mark.parametrize("name", NAMES)
def test_our_own_words_are_ascii(name: str) -> None:
    assert brief(documents.ALL[name]).isascii()


def test_the_verdict_comes_first_and_says_what_it_is_not() -> None:
    first = brief(READY).splitlines()[0]
    assert first.startswith("READY [SIMULATED] l40s-acs: 24.3 of 22 GB/s, 4 ports freed, ")
    assert "exit status" not in first


def test_a_finding_is_one_line() -> None:
    finding = Finding(
        id="x-y", severity=Severity.CRITICAL, subject="GPU0", summary="bad", cause="c"
    )
    report = bringup(NodeVerdict.NOT_READY, findings=(finding,))
    assert "CRITICAL x-y GPU0: bad" in brief(report).splitlines()


def test_a_kernel_parameter_is_never_cut() -> None:
    parameter = "pci=disable_acs_redir=" + ";".join(f"0000:{bus:02x}:00.0" for bus in range(200))
    report = acs_report(kernel_parameter=parameter)
    assert parameter in brief(report)


def test_a_document_built_on_another_has_its_form() -> None:
    fields = {name: getattr(GATE_SLOW, name) for name in GATE_SLOW.__struct_fields__}
    assert brief(GateReport(**head("gate"), **fields)) == brief(GATE_SLOW)


def test_an_unknown_document_is_a_mistake_of_ours() -> None:
    class Strange(Record, frozen=True):
        pass

    with pytest.raises(TypeError, match="Strange"):
        brief(Strange())
