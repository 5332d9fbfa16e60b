"""PyTorch in the place of nccl-tests: its JSON, and its script where PyTorch is installed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nodeprep.errors import ParseError
from nodeprep.gate.attempt import Limits, attempt, row_of
from nodeprep.gate.command import members
from nodeprep.gate.judge import judge
from nodeprep.gate.run import GateRequest, find_tool, run_gate
from nodeprep.gate.threshold import threshold
from nodeprep.gate.torch_all_reduce import SCHEMA
from nodeprep.gate.torch_fallback import find_python, parse_torch, torch_command
from nodeprep.host.live import LiveHost
from nodeprep.model.gate import GateVerdict, NcclReport
from nodeprep.settings import GatePolicy
from tests.gate.nodes import on_switch
from tests.gate.test_run import GateHost, printing
from tests.simulator.nccl import log_lines

MIB = 1 << 20
PYTHON = "/opt/vllm/bin/python"


def document(ranks: int = 4, busbw: float = 23.5, **fields: Any) -> str:
    factor = 2 * (ranks - 1) / ranks
    rows = [
        {"size_bytes": size, "time_us": size * factor / busbw / 1e3, "algbw_gbps": busbw / factor,
         "busbw_gbps": busbw, "wrong": 0}
        for size in (128 * MIB, 256 * MIB, 512 * MIB)
    ]  # fmt: skip
    devices = [
        {"rank": rank, "device": rank, "name": "NVIDIA L40S", "bus_id": f"0000:4{rank + 3}:00"}
        for rank in range(ranks)
    ]
    whole = {
        "schema": SCHEMA, "measurement": True, "note": "", "backend": "nccl",
        "torch_version": "2.9.1", "nccl_version": "2.27.7", "ranks": ranks, "devices": devices,
        "rows": rows,
    }  # fmt: skip
    return json.dumps(whole | fields)


def read(text: str, log: str = "") -> NcclReport:
    return parse_torch(text, f"{text}\n{log}")


def verdict(text: str, status: int = 0) -> GateVerdict:
    node = on_switch(4)
    log = "\n".join(log_lines("n", 7, 4, "P2P", 2, "2.27.7"))
    mark = threshold(node, (0, 1, 2, 3), GatePolicy(), None, None)
    return judge(read(text, log), status, mark, 4, GatePolicy()).verdict


def test_its_figures_are_judged_as_those_of_nccl_tests() -> None:
    assert verdict(document()) is GateVerdict.PASS
    assert verdict(document(busbw=6.0)) is GateVerdict.FAIL_BANDWIDTH
    report = read(document())
    assert report.nccl_version == "2.27.7"
    assert [rank.rank for rank in report.ranks] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"measurement": False, "note": "gloo on the CPU"}, GateVerdict.INVALID_OUTPUT),
        ({"rows": []}, GateVerdict.INVALID_OUTPUT),
        ({"devices": []}, GateVerdict.INVALID_OUTPUT),
        ({"ranks": 2, "devices": json.loads(document(2))["devices"]}, GateVerdict.INVALID_OUTPUT),
    ],
)
def test_what_is_no_measurement(fields: dict[str, Any], expected: GateVerdict) -> None:
    assert verdict(document(**fields)) is expected


def test_wrong_values() -> None:
    rows = json.loads(document())["rows"]
    rows[-1]["wrong"] = 5
    assert verdict(document(rows=rows)) is GateVerdict.WRONG_DATA


def test_two_ranks_on_one_gpu() -> None:
    devices = json.loads(document())["devices"]
    devices[1]["bus_id"] = devices[0]["bus_id"]
    assert verdict(document(devices=devices)) is GateVerdict.INVALID_OUTPUT


def test_texts_that_are_no_document() -> None:
    assert verdict("Traceback (most recent call last):", 1) is GateVerdict.CRASHED
    assert verdict("", 0) is GateVerdict.INVALID_OUTPUT
    for text in ('{"schema": 1}', '{"a": ' * 200, document(schema="other/1")):
        with pytest.raises(ParseError):
            read(text)


def test_it_is_found_only_where_nccl_tests_is_missing() -> None:
    host = GateHost(printing(""), programs=(PYTHON, "all_reduce_perf"))
    tool, _ = find_tool(host, GatePolicy(), GateRequest())
    assert tool is not None
    assert tool.source == "nccl-tests"
    asked, _ = find_tool(host, GatePolicy(), GateRequest(torch=True))
    assert asked is not None
    assert (asked.source, asked.program) == ("torch", PYTHON)
    without = GateHost(printing("", 1), programs=(PYTHON,))
    assert find_tool(without, GatePolicy(), GateRequest())[0] is None


def test_a_run_through_the_host() -> None:
    node = on_switch(4)
    log = "\n".join(log_lines("n", 7, 4, "P2P", 2, "2.27.7"))
    host = GateHost(printing(f"{log}\n{document()}"), programs=(PYTHON,))
    result = run_gate(host, node, (0, 1, 2, 3), GatePolicy(repeats=0), GateRequest())
    assert (result.verdict, result.source) == (GateVerdict.PASS, "torch")
    (argv, _, env) = host.ran[-1]
    assert argv[:3] == (PYTHON, "-m", "torch.distributed.run")
    assert "--nproc-per-node=4" in argv
    assert env["NCCL_SOCKET_IFNAME"] == env["GLOO_SOCKET_IFNAME"] == "lo"


def test_one_gpu_is_not_applicable() -> None:
    node = on_switch(2)
    host = GateHost(printing(""), programs=(PYTHON,))
    request = GateRequest(torch=True)
    result = run_gate(host, node, (0,), GatePolicy(), request)
    assert result.verdict is GateVerdict.NOT_APPLICABLE
    assert members(node, (0,))[0].index == 0


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with PyTorch: NODEPREP_TORCH_PYTHON, else the one that runs the tests."""
    named = os.environ.get("NODEPREP_TORCH_PYTHON", sys.executable)
    found = find_python(LiveHost(), GatePolicy(torch_python=(named,)))
    if found is None:
        pytest.skip(f"{Path(named).name} has no PyTorch (a CPU build will do)")
    return found


def test_two_processes_with_gloo(python: str) -> None:
    """Plumbing only: rendezvous over loopback, timing, checked values, one JSON."""
    node = on_switch(2)
    command = torch_command(node, (0, 1), python, "16M", backend="gloo")
    told: list[str] = []
    limits = Limits(deadline_s=120, silence_s=110)
    done = attempt(LiveHost(), command, limits, tell=told.append)
    assert done.answer.status == 0, done.text
    assert len(told) == 2
    report = parse_torch(done.answer.stdout, done.text)
    assert [row.size_bytes for row in report.rows] == [8 * MIB, 16 * MIB]
    assert all(row.in_place is not None and row.in_place.wrong == 0 for row in report.rows)
    assert any("not a measurement" in problem for problem in report.problems)
    mark = threshold(node, (0, 1), GatePolicy(), 0.001, None)
    assert judge(report, 0, mark, 2, GatePolicy()).verdict is GateVerdict.INVALID_OUTPUT


def test_real_nccl_on_one_gpu(python: str) -> None:
    """NCCL starts up on a real GPU; a single one has no pair to judge."""
    ask = "import torch; raise SystemExit(not torch.cuda.is_available())"
    if LiveHost().run((python, "-c", ask), deadline_s=60).status:
        pytest.skip("no CUDA device in this computer")
    node = on_switch(1)
    command = torch_command(node, (0,), python, "16M")
    done = attempt(LiveHost(), command, Limits(deadline_s=300, silence_s=290), tell=lambda _: None)
    report = parse_torch(done.answer.stdout, done.text)
    assert len(report.rows) == 2
    assert report.nccl_version
    mark = threshold(node, (0,), GatePolicy(), None, None)
    assert judge(report, 0, mark, 1, GatePolicy()).verdict is GateVerdict.NOT_APPLICABLE


def test_a_row_as_it_comes() -> None:
    new = "    8388608       2097152     float     sum      -1    524.3   16.00   24.00       0"
    assert row_of(new) == (8 * MIB, "24.00 GB/s")
    old = "     8388608       2097152   float     sum    524.3   16.00   24.00    1e-07"
    assert row_of(old) == (8 * MIB, "24.00 GB/s")
    for other in ("", "# nThread 1 nGpus 4", "#  Rank  0 Group  0", "n:1:1 [0] NCCL INFO x"):
        assert row_of(other) is None
