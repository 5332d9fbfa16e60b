from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodeprep.model.acs import Refusal
from nodeprep.model.finding import Finding, Remedy, Severity, Unknown
from nodeprep.model.gate import GateVerdict
from nodeprep.model.report import AcsSection, NodeVerdict, Report, StageStatus
from nodeprep.output.pasting import pastable
from nodeprep.output.verdict import audit_line, run_line
from nodeprep.output.words import on_machine
from tests.output.documents.audits import audit_of, two_socket_facts
from tests.output.documents.boots import READY, bringup, stage
from tests.output.documents.findings import FABRIC_UNKNOWN, NARROW, NOTE, REDIRECT
from tests.output.documents.gates import gate_result
from tests.output.documents.plans import PLAN_TOO_BIG

NODE = two_socket_facts()
HEALTHY = Finding(
    id="healthy", severity=Severity.INFO, subject="node",
    summary="nothing wrong in what was read: 3 GPUs", cause="no check found a fault",
)  # fmt: skip
PRODUCT_LIMIT = Finding(
    id="p2p-gpu-not-supported", severity=Severity.WARNING, subject="GPU0-GPU1",
    summary="these GPUs offer no PCIe P2P (GNS)", cause="", remedy=Remedy(text="live with it"),
)  # fmt: skip
WORKED = Unknown(subject="gpu-driver", reason="NVML: no; the text of nvidia-smi was read instead")
SLOW = gate_result(GateVerdict.FAIL_BANDWIDTH, 6.12, reason="6.12 GB/s is below 22 GB/s")
REFUSED = AcsSection(
    actions=(
        Refusal(
            subject="0000:47:00.0",
            reason="0000:47:00.0 is a guest's: its isolation would break",
            hint="release it",
        ),
    )
)
FAILED_GATE = stage("gate", 3.0, StageStatus.FAILED, "fail-bandwidth")


def not_ready(**fields: object) -> Report:
    return bringup(NodeVerdict.NOT_READY, **({"exit_status": 3} | fields))


def test_a_critical_finding_keeps_the_node_out() -> None:
    line = audit_line(audit_of(NODE, NARROW, REDIRECT, NOTE))
    assert line.word == "DO NOT REGISTER"
    assert line.reason == "ACS redirect is on at 2 switch ports between GPU0 and GPU1"
    assert line.command == "nodeprep acs plan"


def test_warnings_gaps_and_nothing_have_their_own_words() -> None:
    assert audit_line(audit_of(NODE, NARROW)).word == "WARNING"
    assert audit_line(audit_of(NODE, HEALTHY, unknown=(FABRIC_UNKNOWN,))).word == "INCOMPLETE"
    line = audit_line(audit_of(NODE, HEALTHY))
    assert line == ("NOTHING WRONG", "in what was read: 3 GPUs", "", "")


def test_settled_findings_give_no_verdict() -> None:
    settled = replace(REDIRECT, resolved=True), replace(NARROW, waived=True)
    assert audit_line(audit_of(NODE, *settled)).word == "NOTHING WRONG"


def test_nothing_is_advised_where_nothing_can_be_done() -> None:
    assert audit_line(audit_of(NODE, PRODUCT_LIMIT))[2:] == ("", "")
    assert audit_line(audit_of(NODE, unknown=(WORKED,)))[2:] == ("", "")


def test_a_ready_run_says_its_figures_and_no_exit_status() -> None:
    line = run_line(READY)
    assert line == ("READY", "24.3 of 22 GB/s, 4 ports freed, 285,728 KV tokens, 2 files", "", "")


@pytest.mark.parametrize(
    ("report", "reason", "step"),
    [
        (not_ready(acs=REFUSED, stages=(FAILED_GATE,), gate=SLOW, findings=(REDIRECT,)),
         "0000:47:00.0 is a guest's", "0000:47:00.0: release it"),
        (not_ready(stages=(stage("acs-apply", 0.1, StageStatus.FAILED, "rolled back"),),
                   findings=(REDIRECT,)),
         "rolled back", "see what the ports hold"),
        (not_ready(stages=(FAILED_GATE,), gate=SLOW, findings=(REDIRECT, NOTE)),
         "fail-bandwidth: 6.12 GB/s is below 22 GB/s", "find the pair, port or link that is slow"),
        (not_ready(findings=(NARROW, REDIRECT)),
         "ACS redirect is on at 2 switch ports between GPU0 and GPU1",
         "Clear ReqRedir, CmpltRedir and EgressCtrl on these two ports and read them back."),
        (not_ready(findings=(NARROW,)), "GPU1 runs at x8 in a x16 slot",
         "Reseat the card or its riser; read the width again."),
        (not_ready(findings=(NOTE,), memory=PLAN_TOO_BIG),
         f"the model does not fit: {PLAN_TOO_BIG.limit}", ""),
        (not_ready(findings=(NOTE,), stages=(stage("render", 0.1, StageStatus.FAILED, "no room"),)),
         "no room", ""),
        (not_ready(findings=(NOTE,), reasons=("something else",)), "something else", ""),
    ],
    ids=["refusal", "acs", "gate", "critical", "warning", "memory", "stage", "reason"],
)  # fmt: skip
def test_the_first_cause_of_a_failure_is_named(report: Report, reason: str, step: str) -> None:
    line = run_line(report)
    assert (line.word, line.reason, line.step) == ("NOT READY", reason, step)


def test_a_finding_of_the_gate_says_more_than_its_verdict() -> None:
    found = replace(NARROW, remedy=Remedy(text="reseat GPU2", commands=("lspci",)))
    report = not_ready(stages=(FAILED_GATE,), gate=replace(SLOW, findings=(found,)))
    assert run_line(report)[2:] == ("reseat GPU2", "lspci")


def test_a_dry_run_is_followed_by_the_run_unless_it_would_refuse() -> None:
    assert (
        run_line(not_ready(dry_run=True, findings=(REDIRECT,))).command == "sudo nodeprep bringup"
    )
    assert run_line(not_ready(dry_run=True, acs=REFUSED)).command == "nodeprep acs plan"


@pytest.mark.parametrize(
    ("command", "machine", "shown"),
    [
        ("sudo nodeprep acs apply", "l40s-acs", "nodeprep acs apply --machine l40s-acs"),
        ("sudo nodeprep acs apply", None, "sudo nodeprep acs apply"),
        ("nodeprep acs plan", "a-node-of-mine", "nodeprep acs plan"),
        ("nodeprep acs plan", "../l40s-acs", "nodeprep acs plan"),
        ("nodeprep machines", "l40s-acs", "nodeprep machines"),
        ("nvidia-smi -L", "l40s-acs", "nvidia-smi -L"),
        ("nodeprep audit --machine x", "l40s-acs", "nodeprep audit --machine x"),
    ],
)
def test_commands_name_the_replayed_machine(command: str, machine: str | None, shown: str) -> None:
    assert on_machine(command, machine) == shown
    assert on_machine(shown, machine) == shown


def test_remedies_are_pasted_on_the_machine_that_was_given() -> None:
    report = not_ready(machine="l40s-acs", findings=(REDIRECT, NOTE),
                       gate=replace(SLOW, findings=(REDIRECT,)))  # fmt: skip
    shown = pastable(report)
    assert shown.gate is not None
    for one in (shown.findings[0], shown.gate.findings[0]):
        assert one.remedy is not None
        assert one.remedy.commands[0] == "nodeprep acs plan --machine l40s-acs"
    assert pastable(not_ready(findings=(REDIRECT,))).findings == (REDIRECT,)
