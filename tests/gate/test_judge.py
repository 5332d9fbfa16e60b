"""Verdicts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nodeprep.gate.judge import judge, wrong_transports
from nodeprep.model.gate import GateResult, GateVerdict, Threshold
from nodeprep.parse.nccl_tests import parse_nccl
from nodeprep.settings import GatePolicy
from tests.simulator.nccl import simulate_all_reduce

FOUR = [(index, f"0000:{0x43 + index:02x}:00.0") for index in range(4)]
NAMES = ["NVIDIA L40S"] * 4


def asked(gbps: float | None = 22.0, transport: str | None = "P2P", **fields: Any) -> Threshold:
    defaults: dict[str, Any] = {
        "expected_gbps": 24.0, "source": "table: pcie4-switch-p2p", "verified": True,
        "link_class": "pcie4-switch-p2p", "limiting_hop": "a link", "reasoning": ("because",),
    }  # fmt: skip
    return Threshold(threshold_gbps=gbps, expected_transport=transport, **(defaults | fields))


def output(busbw: float = 24.0, **options: Any) -> str:
    options = {"simulated_line": False} | options
    return simulate_all_reduce("2.19.6", FOUR, NAMES, busbw, **options)


def verdict(
    text: str, status: int | None = 0, mark: Threshold | None = None, **options: Any
) -> GateResult:
    size = options.pop("group_size", 4)
    return judge(parse_nccl(text), status, mark or asked(), size, GatePolicy(), **options)


def test_pass() -> None:
    result = verdict(output(24.0))
    assert result.verdict is GateVerdict.PASS
    assert result.measured_gbps == 24.0
    assert (result.threshold_gbps, result.expected_gbps) == (22.0, 24.0)
    assert result.transports["0->1"] == "P2P/direct pointer"
    assert result.limiting_hop == "a link"
    assert result.reasoning == ("because",)
    assert result.warnings == ()
    assert not result.simulated


def test_the_value_is_the_mean_of_both_halves_at_the_largest_size() -> None:
    text = output(24.0)
    row = next(line for line in text.splitlines() if line.startswith("   536870912"))
    slower = row.replace("33561.1   16.00   24.00", "40265.3   13.33   20.00")
    assert slower != row
    changed = text.replace(row, slower)
    average = (23.5334 * 14 - 4.0) / 14
    changed = re.sub(r"bandwidth    : \S+", f"bandwidth    : {average:g}", changed)
    result = verdict(changed)
    assert result.measured_gbps == 22.0
    assert result.verdict is GateVerdict.PASS
    assert any("differ by" in warning for warning in result.warnings)


def test_a_good_average_does_not_save_a_slow_top() -> None:
    """Bandwidth that collapses at large sizes: the average still looks well."""
    text = output(24.0)
    lines = [line for line in text.splitlines() if not line.startswith("   536870912")]
    slow = "   536870912     134217728     float     sum      -1  134218    4.00    6.00       0"
    place = next(i for i, line in enumerate(lines) if line.startswith("# Out"))
    lines.insert(place, slow + "  134218    4.00    6.00       0")
    average = (23.5334 * 14 - 2 * 18.0) / 14
    text = re.sub(r"bandwidth    : \S+", f"bandwidth    : {average:g}", "\n".join(lines))
    result = verdict(text)
    assert result.verdict is GateVerdict.FAIL_BANDWIDTH
    assert result.measured_gbps == 6.0
    assert any("falls 75%" in warning for warning in result.warnings)
    assert any("spread" in warning for warning in result.warnings)


def test_slow_peer_to_peer_points_at_the_path() -> None:
    result = verdict(output(6.0))
    assert result.verdict is GateVerdict.FAIL_BANDWIDTH
    assert "ACS" in result.reason


def test_wrong_transport_is_the_cause_of_a_failure() -> None:
    result = verdict(output(9.0, transport="SHM"))
    assert result.verdict is GateVerdict.FAIL_TRANSPORT
    assert "0->1 SHM/direct/direct" in result.reason


def test_wrong_transport_that_passes_is_a_warning() -> None:
    result = verdict(output(23.9, transport="SHM"))
    assert result.verdict is GateVerdict.PASS
    assert any("unexpected transport" in warning for warning in result.warnings)


def test_network_inside_a_node_is_wrong_for_every_class() -> None:
    result = verdict(output(2.3, transport="NET"), mark=asked(12.0, "SHM"))
    assert result.verdict is GateVerdict.FAIL_TRANSPORT
    report = parse_nccl(output(2.3, transport="NET"))
    assert len(wrong_transports(report, None)) == 4
    assert wrong_transports(parse_nccl(output(transport="SHM")), "SHM") == ()


def test_transport_that_was_not_logged_is_not_proved() -> None:
    text = "\n".join(line for line in output().splitlines() if "NCCL INFO" not in line)
    result = verdict(text)
    assert result.verdict is GateVerdict.PASS
    assert result.transports == {}
    assert any("not proved" in warning for warning in result.warnings)


def test_low_pass_is_told() -> None:
    result = verdict(output(22.5), mark=asked(22.0, warn_below_gbps=24.0))
    assert result.verdict is GateVerdict.PASS
    assert any("less than the 24" in warning for warning in result.warnings)


def test_unverified_class_is_told() -> None:
    result = verdict(output(), mark=asked(verified=False))
    assert any("no public recording" in warning for warning in result.warnings)
    by_hand = verdict(output(), mark=asked(verified=False, source="--min-busbw"))
    assert by_hand.warnings == ()


def test_no_threshold_is_not_a_pass() -> None:
    result = verdict(output(), mark=asked(None, source="none"))
    assert result.verdict is GateVerdict.NO_THRESHOLD
    assert result.measured_gbps == 24.0


@pytest.mark.parametrize("size", [0, 1])
def test_nothing_to_measure(size: int) -> None:
    assert verdict(output(), group_size=size).verdict is GateVerdict.NOT_APPLICABLE


def test_wrong_data_beats_bandwidth() -> None:
    result = verdict(output(24.0, wrong=96), status=7)
    assert result.verdict is GateVerdict.WRONG_DATA
    assert result.measured_gbps is None


@pytest.mark.parametrize("status", [1, 7])
def test_the_check_of_the_program_decides_nothing(status: int) -> None:
    result = verdict(output(24.0), status=status)
    assert result.verdict is GateVerdict.PASS
    assert any("own check" in warning for warning in result.warnings)


@pytest.mark.parametrize("status", [2, 3, 139, -11, -9])
def test_a_crash_after_the_table_is_a_crash(status: int) -> None:
    assert verdict(output(24.0), status=status).verdict is GateVerdict.CRASHED


def test_status_zero_proves_nothing() -> None:
    usage = "invalid option '?'\nUSAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>]\n"
    assert verdict(usage, status=0).verdict is GateVerdict.INVALID_OUTPUT
    assert verdict("", status=0).verdict is GateVerdict.INVALID_OUTPUT
    assert verdict(output(validation=0)).verdict is GateVerdict.INVALID_OUTPUT
    one = simulate_all_reduce("2.19.6", FOUR[:2], NAMES[:2], 24.0, simulated_line=False)
    result = verdict(one)
    assert result.verdict is GateVerdict.INVALID_OUTPUT
    assert "2 ranks" in result.reason


def test_cut_and_changed_tables_are_invalid() -> None:
    text = output()
    assert verdict(text[: text.index("   268435456")]).verdict is GateVerdict.INVALID_OUTPUT
    lost = re.sub(r"(?m)^    33554432 .*\n", "", text)
    assert verdict(lost).verdict is GateVerdict.INVALID_OUTPUT
    other = text.replace("all_reduce_perf", "all_gather_perf")
    assert verdict(other).verdict is GateVerdict.INVALID_OUTPUT


def test_hang() -> None:
    text = output()
    header = text[: text.index("     8388608")]
    result = verdict(header, status=None, hung=True)
    assert result.verdict is GateVerdict.HUNG
    assert "before its first row" in result.reason
    rows = verdict(text[: text.index("    67108864")], status=-15, hung=True)
    assert "after 3 rows" in rows.reason
    assert verdict(header, status=124).verdict is GateVerdict.HUNG
    assert verdict(header + "node-a: Test timeout (3s) common.cu:319\n", status=4).verdict is (
        GateVerdict.HUNG
    )


@pytest.mark.parametrize(
    ("text", "status", "verdict_", "words"),
    [
        ("n: Test CUDA failure util.cu:674 'system not yet initialized'", 2, "crashed", "fabric"),
        ("n: Test CUDA failure common.cu:4 'uncorrectable ECC error'", 2, "crashed", "hardware"),
        ("Invalid number of GPUs: 8 requested but only 7 were found.", 5, "precondition", "MIG"),
        ("x: error while loading shared libraries: libnccl.so.2: no", 127, "no-binary", "libr"),
        ("", 127, "no-binary", "missing"),
        ("", -11, "crashed", "signal 11"),
        ("", 255, "crashed", "status 255"),
    ],
)
def test_failures_say_what_they_mean(text: str, status: int, verdict_: str, words: str) -> None:
    result = verdict(text, status=status)
    assert result.verdict.value == verdict_
    assert words in result.reason
    assert result.measured_gbps is None


def test_simulated_output_counts_only_where_allowed() -> None:
    text = output(simulated_line=True)
    allowed = verdict(text)
    assert (allowed.verdict, allowed.simulated) == (GateVerdict.PASS, True)
    refused = verdict(text, allow_simulated=False)
    assert refused.verdict is GateVerdict.INVALID_OUTPUT
    assert refused.simulated
    assert "simulated" in refused.reason
    assert refused.measured_gbps is None


EXPECTED = {
    "ok_g4": "pass", "minbw_pass": "pass", "minbw_within10pct": "pass", "minbw_fail": "pass",
    "info_p2p": "pass", "info_shm": "fail-transport", "timestamps": "pass", "periter": "pass",
    "memory": "pass", "json_fail": "crashed", "stepbytes_forgot_f": "pass", "fast": "pass",
    "threads": "fail-bandwidth", "c0": "invalid-output", "g1": "not-applicable",
    "cputime": "invalid-output", "cycles2": "invalid-output", "dall": "invalid-output",
    "opall": "invalid-output", "badopt": "invalid-output", "badsize": "invalid-output",
    "too_many_gpus": "precondition", "v2.13.10_too_many_gpus": "crashed", "no_device": "crashed",
    "not_initialized": "crashed", "init_fails": "crashed", "coll_fails": "crashed",
    "hang_T3": "hung", "hang_noT_killed": "hung",
}  # fmt: skip


def test_genuine_outputs_with_their_exit_statuses(shared: Path) -> None:
    folder = shared / "corpus" / "nccl-formats"
    runs = [line.split() for line in (folder / "RUNS.tsv").read_text().splitlines()]
    assert len(runs) > 40
    for name, status, *command in runs:
        text = (folder / f"{name}.stdout").read_text()
        errors = folder / f"{name}.stderr"
        text += "\n" + errors.read_text() if errors.exists() else ""
        asked_for = command[command.index("-g") + 1] if "-g" in command else "4"
        threads = command[command.index("-t") + 1] if "-t" in command else "1"
        result = verdict(
            text, status=int(status), mark=asked(20.0), group_size=int(asked_for) * int(threads)
        )
        kind = name.partition("_")[2]
        assert result.verdict.value == EXPECTED.get(name, EXPECTED[kind]), (name, result.reason)
