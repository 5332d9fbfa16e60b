"""The gate against a real process: a stand-in for all_reduce_perf that prints, hangs or dies."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nodeprep.gate.run import GateRequest, run_gate
from nodeprep.host.live import LiveHost
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.settings import GatePolicy
from tests.gate.nodes import on_switch
from tests.simulator.nccl import simulate_all_reduce

NODE = on_switch(4)
GROUP = tuple(gpu.index for gpu in NODE.gpus)


def stand_in(folder: Path, body: str) -> str:
    """An executable that finds its arguments in `argv` and its output in `text`."""
    text = simulate_all_reduce(
        "2.19.6", [(gpu.index, gpu.bdf) for gpu in NODE.gpus], ["NVIDIA L40S"] * 4, 24.0
    )
    program = folder / "all_reduce_perf"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nargv = sys.argv[1:]\ntext = {text!r}\n{body}\n"
    )
    program.chmod(0o755)
    return str(program)


def measure(program: str, *, allow_simulated: bool = True, deadline_s: float = 60) -> GateResult:
    policy = GatePolicy(binaries=(program,), deadline_s=deadline_s)
    request = GateRequest(allow_simulated=allow_simulated)
    return run_gate(LiveHost(), NODE, GROUP, policy, request)


def test_a_run_is_judged(tmp_path: Path) -> None:
    body = """
assert argv == "-b 8M -e 512M -f 2 -g 4 -w 5 -n 20 -c 1".split()
assert os.environ["NCCL_DEBUG"] == "INFO" and os.environ["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
sys.stdout.write(text)
"""
    program = stand_in(tmp_path, body)
    result = measure(program)
    assert (result.verdict, result.simulated) == (GateVerdict.PASS, True)
    assert result.binary == program
    assert result.duration_s is not None
    assert result.duration_s > 0
    assert measure(program, allow_simulated=False).verdict is GateVerdict.INVALID_OUTPUT


def test_settings_of_the_caller_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    body = """
foreign = [name for name in os.environ if name.startswith(("NCCL_P2P", "NCCL_ALGO"))]
sys.stdout.write(text if not foreign else str(foreign))
"""
    assert measure(stand_in(tmp_path, body)).verdict is GateVerdict.PASS


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("sys.stdout.write(text[:900]); sys.stdout.flush(); time.sleep(60)", GateVerdict.HUNG),
        ("sys.stdout.write(text[:900]); os.abort()", GateVerdict.CRASHED),
        ("sys.exit(0)", GateVerdict.INVALID_OUTPUT),
        ("print('invalid option'); print('USAGE: all_reduce_perf')", GateVerdict.INVALID_OUTPUT),
        (
            "sys.exit('Invalid number of GPUs: 4 requested but only 3 were found.')",
            GateVerdict.PRECONDITION,
        ),
    ],
)
def test_what_goes_wrong(tmp_path: Path, body: str, verdict: GateVerdict) -> None:
    result = measure(stand_in(tmp_path, body), deadline_s=2)
    assert result.verdict is verdict
    assert result.measured_gbps is None


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    program = tmp_path / "all_reduce_perf"
    program.write_text("not executable")
    assert measure(str(program)).verdict is GateVerdict.NO_BINARY
    program.write_bytes(b"\x7fELF broken")
    program.chmod(0o755)
    assert measure(str(program)).verdict is GateVerdict.NO_BINARY
