"""Boot runs."""

from __future__ import annotations

from typing import Any

from nodeprep.model.acs import AppliedWrite, Refusal
from nodeprep.model.finding import Finding, Severity
from nodeprep.model.gate import GateVerdict
from nodeprep.model.report import AcsSection, NodeVerdict, Report, Stage, StageStatus
from tests.output.documents.changes import PARAMETER, WRITES
from tests.output.documents.findings import FABRIC_UNKNOWN, NOTE, REDIRECT
from tests.output.documents.gates import gate_result
from tests.output.documents.head import head
from tests.output.documents.others import KNOBS
from tests.output.documents.plans import memory_plan


def bringup(verdict: NodeVerdict, **fields: Any) -> Report:
    defaults: dict[str, Any] = {
        "exit_status": 0,
        "machine": None,
        "dry_run": False,
        "simulated": False,
        "stages": (),
        "findings": (),
        "unknown": (),
        "acs": AcsSection(),
        "gate": None,
        "memory": None,
        "knobs": (),
        "rendered": (),
        "reasons": (),
    }
    return Report(**head("report"), verdict=verdict, **(defaults | fields))


def stage(
    name: str, duration_s: float, status: StageStatus = StageStatus.OK, detail: str = ""
) -> Stage:
    return Stage(name=name, status=status, duration_s=duration_s, detail=detail)


REPAIRED = Finding(
    id=REDIRECT.id, severity=REDIRECT.severity, subject=REDIRECT.subject, summary=REDIRECT.summary,
    cause=REDIRECT.cause, resolved=True,
)  # fmt: skip
WAIVED = Finding(
    id="pcie-width-narrow", severity=Severity.WARNING, subject="0000:44:00.0",
    summary="GPU1 runs at x8 in a x16 slot", cause="", waived=True,
)  # fmt: skip
READY = bringup(
    NodeVerdict.READY,
    machine="l40s-acs",
    simulated=True,
    stages=(
        stage("collect", 0.42, detail="6 functions, 4 GPUs"),
        stage("audit", 0.01, detail="1 critical, 1 warning"),
        stage("acs-apply", 0.08, detail="4 ports written"),
        stage("gate", 3.4, detail="24.31 GB/s"),
        stage("memory", 0.02),
        stage("render", 0.05, detail="5 files"),
    ),
    findings=(REPAIRED, WAIVED),
    acs=AcsSection(
        actions=WRITES,
        applied=tuple(AppliedWrite(write=one, read_back="0011", ok=True) for one in WRITES),
        kernel_parameter=PARAMETER,
        verified=True,
    ),
    gate=gate_result(GateVerdict.PASS, 24.31, simulated=True),
    memory=memory_plan(),
    knobs=KNOBS,
    rendered=("/etc/nodeprep/rendered/vllm.yaml", "/etc/nodeprep/rendered/vllm.service"),
)
NOT_READY = bringup(
    NodeVerdict.NOT_READY,
    exit_status=5,
    stages=(
        stage("collect", 0.42, detail="6 functions, 4 GPUs"),
        stage("audit", 0.01),
        stage("acs-plan", 0.0, StageStatus.REFUSED,
              "kernel lockdown (integrity): nobody may write"),
        stage("gate", 183.0, StageStatus.FAILED, "6.12 GB/s at 512 MiB is below 22.00 GB/s"),
        stage("memory", 0.0, StageStatus.SKIPPED),
        stage("render", 0.0, StageStatus.SKIPPED),
    ),
    findings=(REDIRECT, NOTE),
    unknown=(FABRIC_UNKNOWN,),
    acs=AcsSection(
        actions=(Refusal(subject="lockdown", reason="the kernel refuses writes to configuration "
                         "space", hint="use the kernel parameter: nodeprep acs persist"),),
    ),
    gate=gate_result(GateVerdict.FAIL_BANDWIDTH, 6.12,
                     reason="6.12 GB/s at 512 MiB is below 22.00 GB/s"),
    reasons=("gate: 6.12 GB/s at 512 MiB is below 22.00 GB/s",
             "acs: refused, the kernel is locked down"),
)  # fmt: skip
SLOW = bringup(
    NodeVerdict.NOT_READY,
    exit_status=5,
    machine="l40s-narrow",
    simulated=True,
    stages=(
        stage("collect", 0.42, detail="6 functions, 4 GPUs"),
        stage("audit", 0.01, detail="1 finding"),
        stage("acs-plan", 0.0, detail="0 ports to write"),
        stage("gate", 3.0, StageStatus.FAILED, "fail-bandwidth: 6.12 GB/s at 512 MiB"),
        stage("memory", 0.1, detail="285,728 KV tokens at TP 4"),
        stage("render", 0.0, StageStatus.SKIPPED, "the node has not passed"),
    ),
    findings=(NOTE,),
    gate=gate_result(GateVerdict.FAIL_BANDWIDTH, 6.12, simulated=True,
                     reason="6.12 GB/s at 512 MiB is below 22.00 GB/s"),
    memory=memory_plan(),
    reasons=("gate: fail-bandwidth: 6.12 GB/s at 512 MiB is below 22.00 GB/s",),
)  # fmt: skip
