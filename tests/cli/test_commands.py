"""The commands as a user calls them: statuses, documents, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nodeprep.errors import Exit


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the real program with a state folder of its own."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)

    def call(*arguments: str, text: str | None = None) -> Outcome:
        stateful = {"bringup", "audit", "explain", "acs", "gate", "plan", "render"}
        extra = ["--state-dir", str(state)] if arguments[0] in stateful else []
        result = subprocess.run(
            [sys.executable, "-m", "nodeprep", *arguments, *extra],
            capture_output=True,
            text=True,
            input=text,
            timeout=120,
            cwd=tmp_path,
        )
        assert "Traceback" not in result.stderr, result.stderr
        return Outcome(result.returncode, result.stdout, result.stderr)

    return call


def test_bringup_of_the_source_document(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = run("bringup", "--machine", "l40s-acs", "--format", "json", "-o", str(out))
    report = outcome.document
    assert outcome.status == Exit.OK
    assert report["schema"] == "nodeprep.report/1"
    assert report["verdict"] == "ready"
    assert report["simulated"] is True
    assert report["gate"]["simulated"] is True
    finding = next(one for one in report["findings"] if one["id"] == "acs-redirect-on-gpu-path")
    assert finding["resolved"] is True
    ports = {"0000:42:00.0", "0000:42:04.0", "0000:42:08.0", "0000:42:0c.0"}
    assert set(finding["subject"].split(", ")) == ports
    assert {action["bdf"] for action in report["acs"]["actions"]} == ports
    for action in report["acs"]["actions"]:
        before, after = int(action["before"], 16), int(action["after"], 16)
        assert after == before & ~0x2C
    assert report["memory"]["model"] == "meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic"
    assert report["memory"]["tensor_parallel"] == 4
    names = {Path(path).name for path in report["rendered"]}
    assert {"vllm.yaml", "vllm.env", "docker-run.sh", "vllm.service"} <= names
    assert all(Path(path).is_file() for path in report["rendered"])

    plan = run("acs", "plan", "--machine", "l40s-acs", "--format", "json").document
    assert plan["actions"] == []
    restored = run("acs", "restore", "--machine", "l40s-acs", "--format", "json").document
    assert {(one["write"]["bdf"], one["read_back"]) for one in restored["applied"]} == {
        (port, "001d") for port in ports
    }
    again = run("acs", "plan", "--machine", "l40s-acs", "--format", "json").document
    assert len(again["actions"]) == 4
    assert not list(tmp_path.rglob("ready"))


def test_a_refusal_changes_nothing(run: Run, tmp_path: Path) -> None:
    outcome = run("bringup", "--machine", "l40s-vfio", "--format", "json")
    assert outcome.status == Exit.REFUSED
    assert outcome.document["verdict"] == "not-ready"
    assert outcome.document["acs"]["applied"] == []
    assert not list(tmp_path.rglob("registers.json"))
    assert not list(tmp_path.rglob("acs-state.json"))


def test_a_dry_run_changes_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = run(
        "bringup", "--machine", "l40s-acs", "--dry-run", "--format", "json", "-o", str(out)
    )
    report = outcome.document
    assert report["verdict"] == "not-ready"
    assert len(report["acs"]["actions"]) == 4
    assert report["acs"]["applied"] == []
    assert report["rendered"] == []
    assert not out.exists()
    assert not list(tmp_path.rglob("registers.json"))


def test_audit_and_fail_on(run: Run) -> None:
    assert run("audit", "--machine", "l40s-acs", "--format", "json").status == Exit.FINDINGS
    assert run("audit", "--machine", "l40s-acs", "--fail-on", "never").status == Exit.OK
    clean = run("audit", "--machine", "l40s-clean", "--format", "json", "--fail-on", "warning")
    assert clean.status == Exit.OK
    assert clean.document["findings"][0]["id"] == "healthy"
    assert clean.document["facts"]["gpus"][0]["driver_grade"] == "nvidia-smi"


def test_explain_a_pair_and_a_finding(run: Run) -> None:
    pair = run("explain", "GPU0", "44:00.0", "--machine", "l40s-acs", "--format", "json").document
    assert pair["pair"] == ["GPU0", "GPU1"]
    assert pair["level"] == {"tree": "PIX", "driver": "PIX"}
    assert [hop["bdf"] for hop in pair["hops"]][2] == "0000:41:00.0"
    page = run("explain", "acs-redirect-on-gpu-path")
    assert page.status == Exit.OK
    assert page.out.startswith("# acs-redirect-on-gpu-path")
    document = run("explain", "acs-redirect-on-gpu-path", "--format", "json").document
    assert document["schema"] == "nodeprep.finding-page/1"
    assert document["text"] == page.out


def test_what_is_not_verified_is_shown_against_what_should_be(run: Run) -> None:
    report = run("acs", "verify", "--machine", "l40s-acs", "--format", "json")
    assert report.status == Exit.UNVERIFIED
    assert {(one["found"], one["expected"]) for one in report.document["ports"]} == {
        ("001d", "0011")
    }
    text = run("acs", "verify", "--machine", "l40s-acs", "--format", "text").out
    assert "$ nodeprep acs apply --machine l40s-acs" in text


def test_forcing_needs_a_reason(run: Run) -> None:
    plain = run("acs", "apply", "--machine", "l40s-vfio", "--force")
    assert plain.status == Exit.USAGE
    forced = run(
        "acs", "apply", "--machine", "l40s-vfio", "--force", "--reason", "a test",
        "--format", "json",
    )  # fmt: skip
    assert forced.status == Exit.OK
    assert forced.document["plan"]["forced_reason"] == "a test"


def test_all_bits_only_when_asked(run: Run) -> None:
    plan = run("acs", "plan", "--machine", "l40s-acs", "--all-bits", "--format", "json").document
    assert {action["after"] for action in plan["actions"]} == {"0000"}


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["audit", "--machine", "l40s-acss"], Exit.USAGE, "did you mean l40s-acs?"),
        (["audit", "--machine", "x", "--snapshot", "y"], Exit.USAGE, "give one of"),
        (["audit", "--snapshot", "/no/such/file"], Exit.ERROR, "/no/such/file"),
        (["audit", "--sysfs-root", "/no/such/tree"], Exit.ERROR, "/no/such/tree"),
        (["audit", "--config", "/no/such.toml"], Exit.USAGE, "/no/such.toml"),
        (["explain", "0", "9", "--machine", "l40s-acs"], Exit.USAGE, "4 GPUs"),
        (["explain", "no-such-finding"], Exit.USAGE, "no finding"),
        (["explain", "0"], Exit.USAGE, "name a second GPU"),
        (["explain", "43:00.0"], Exit.USAGE, "name a second GPU"),
        (["parse", "topo", "/dev/null"], Exit.ERROR, ""),
        (["parse", "nonsense", "/dev/null"], Exit.USAGE, "known:"),
        (["plan", "no-such-model", "--gpu", "L40S:4"], Exit.USAGE, "no-such-model"),
        (["plan", "/no/such/config.json", "--gpu", "L40S:4"], Exit.USAGE, "/no/such/config.json"),
        (["nonsense"], Exit.USAGE, "nonsense"),
        (["acs", "plan", "--pairs", "0-0", "--machine", "l40s-acs"], Exit.USAGE, "0-0"),
        (["schema", "nonsense"], Exit.USAGE, "known:"),
    ],
)
def test_bad_input_is_one_clear_line(
    run: Run, arguments: list[str], status: Exit, says: str
) -> None:
    outcome = run(*arguments)
    assert outcome.status == status
    assert says in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert outcome.err.startswith("nodeprep: ")


def test_an_error_is_a_document_too(run: Run) -> None:
    outcome = run("audit", "--machine", "nowhere", "--format", "json")
    assert outcome.status == Exit.USAGE
    assert outcome.document["schema"] == "nodeprep.error/1"
    assert outcome.document["status"] == int(Exit.USAGE)


def test_hostile_snapshots_are_refused(run: Run, tmp_path: Path) -> None:
    for name, content in {
        "empty": b"",
        "binary": bytes(range(256)),
        "foreign": b'{"schema": "other/1"}',
        "deep": b'{"schema": "nodeprep.snapshot/1", "files": ' + b"[" * 100000,
        "wrong": b'{"schema": "nodeprep.snapshot/1", "machine": 7}',
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        outcome = run("audit", "--snapshot", str(path))
        assert outcome.status == Exit.ERROR, name
        assert len(outcome.err.strip().splitlines()) == 1, name


def test_parse_reads_standard_input(run: Run) -> None:
    text = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n"
    matrix = run("parse", "topo", "-", text=text).document["matrices"][0]
    assert matrix["cells"]["GPU0"]["GPU1"] == "PIX"
    assert matrix["complete"] is True


def test_this_computer_without_gpus_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "devices").mkdir(parents=True)
    outcome = run("bringup", "--sysfs-root", str(tree))
    assert outcome.status == Exit.ERROR
    assert "no accelerator among 0 PCI functions" in outcome.err


def test_plan_and_machines_and_schema(run: Run) -> None:
    plan = run("plan", "llama-3.3-70b-instruct-fp8-dynamic", "--gpu", "L40S:4", "--format", "json")
    assert plan.status == Exit.OK
    assert plan.document["schema"] == "nodeprep.plan/1"
    assert len(plan.document["ranks"]) == 4
    machines = run("machines", "--format", "json").document["machines"]
    told = {machine["name"]: machine for machine in machines}
    assert told["l40s-acs"]["gpus"] == "4 x NVIDIA L40S"
    assert told["l40s-vfio"]["exit_status"] == Exit.REFUSED
    assert all(0 < len(machine["summary"]) <= 100 and machine["notes"] for machine in machines)
    lines = run("machines", "--format", "text").out.splitlines()
    assert sum(line.startswith("  ") for line in lines) == len(machines) + 1
    assert "constructed from public facts" in run("machines", "-v").out
    assert "properties" in run("schema", "report").out


def test_no_command_runs_without_arguments_it_needs(run: Run) -> None:
    help_text = run("--help").out
    for status in Exit:
        assert f"{status.value}" in help_text
    assert run("--version").out.startswith("nodeprep ")
