"""Counters, clocks and links around a run; copies by nvbandwidth."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodeprep.errors import NotFound, ParseError
from nodeprep.gate.around import throttle_names
from nodeprep.gate.copies import HOST_TESTS, PAIR_TEST, copy_figures, figures, outliers
from nodeprep.gate.health import link_errors, throttling
from nodeprep.gate.run import GateRequest, run_gate
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Severity
from nodeprep.model.gate import ClockReading, CounterDelta, GateResult, GateVerdict
from nodeprep.model.readings import NvmlGpu, NvmlReading
from nodeprep.parse.aer import parse_aer, parse_aer_total
from nodeprep.parse.nvbandwidth import parse_nvbandwidth
from nodeprep.settings import GatePolicy
from tests.gate.doubles import kinds
from tests.gate.nodes import on_switch
from tests.gate.test_run import BINARY, GateHost, printing, table

NODE = on_switch(4)
GPU = NODE.gpus[1].bdf
AER = "RxErr {0}\nBadTLP 0\nBadDLLP 1\nRollover 0\nTimeout 0\nNonFatalErr 0\nTOTAL_ERR_COR {1}\n"


class MovingHost(GateHost):
    """A node whose counters, clocks and links change while the program runs."""

    def __init__(self, node: NodeFacts, *, errors: int = 0, mask: int = 0, width: int = 16) -> None:
        super().__init__(printing(table(node)))
        self._errors, self._mask, self._width = errors, mask, width

    def read_text(self, path: str) -> str:
        ran = bool(self.ran)
        if path == f"/sys/bus/pci/devices/{GPU}/aer_dev_correctable":
            return AER.format(0, 1 + (self._errors if ran else 0))
        if path == f"/sys/bus/pci/devices/{GPU}/aer_dev_fatal":
            return "TOTAL_ERR_FATAL 0"
        names = {
            "current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe",
            "current_link_width": str(self._width), "max_link_width": "16",
        }  # fmt: skip
        if path.startswith("/sys/bus/pci/devices/") and path.rpartition("/")[2] in names:
            return names[path.rpartition("/")[2]]
        raise NotFound(path)

    def nvml(self) -> NvmlReading:
        ran = bool(self.ran)
        gpus = tuple(
            NvmlGpu(
                bus_id=f"0000{gpu.bdf}",
                sm_clock_mhz=2100 if ran else 210,
                throttle_reasons=self._mask | 0x1 if ran else 0x1,
                pcie_replays=7 + (self._errors if ran else 0),
            )
            for gpu in NODE.gpus
        )
        return NvmlReading(driver_version="580.1", gpus=gpus, pairs=())


def measured(host: GateHost) -> GateResult:
    return run_gate(host, NODE, (0, 1, 2, 3), GatePolicy(repeats=0), GateRequest())


def test_a_quiet_run() -> None:
    result = measured(MovingHost(NODE))
    assert result.verdict is GateVerdict.PASS
    names = {(one.subject, one.name): (one.before, one.after) for one in result.counters}
    assert names[GPU, "aer_dev_correctable"] == (1, 1)
    assert names[GPU, "replays"] == (7, 7)
    assert [one.sm_mhz for one in result.clocks] == [(210, 2100, 2100)] * 4
    assert all(one.throttles == () for one in result.clocks)
    assert (result.findings, result.warnings) == ((), UNVERIFIED)


UNVERIFIED = ("no public recording verifies the threshold of this class",)


@pytest.mark.parametrize(
    ("errors", "severity"),
    [(1, Severity.WARNING), (80, Severity.WARNING), (81, Severity.CRITICAL)],
)
def test_errors_during_the_run(errors: int, severity: Severity) -> None:
    result = measured(MovingHost(NODE, errors=errors))
    gpu = [one for one in result.findings if one.subject == GPU]
    assert [(one.id, one.severity) for one in gpu] == [("pcie-link-errors", severity)]
    assert any(line.text == f"1 -> {1 + errors}" for line in gpu[0].evidence)


def test_one_error_that_cannot_be_corrected_is_grave() -> None:
    one = CounterDelta(subject=GPU, name="aer_dev_nonfatal", before=0, after=1)
    assert [found.severity for found in link_errors([one])] == [Severity.CRITICAL]
    assert list(link_errors([CounterDelta(GPU, "replays", 5, 5)])) == []
    assert list(link_errors([CounterDelta(GPU, "replays", 5, 0)])) == []


@pytest.mark.parametrize(
    ("mask", "severity"),
    [(0x40, Severity.CRITICAL), (0x80, Severity.CRITICAL), (0x4, Severity.INFO)],
)
def test_clocks_that_are_held_back(mask: int, severity: Severity) -> None:
    result = measured(MovingHost(NODE, mask=mask))
    assert [(one.id, one.severity) for one in result.findings] == [("gpu-throttled", severity)]
    assert list(throttling([ClockReading(0, (None, None, None), ())])) == []
    assert throttle_names(0x1 | 0x2 | 0x10 | 0x100) == ()


def test_a_link_that_stays_narrow_under_load() -> None:
    result = measured(MovingHost(NODE, width=8))
    assert any(
        f"the link of {GPU} ran at Gen4 x8 under load, it can do Gen4 x16" in warning
        for warning in result.warnings
    )


def test_what_nobody_tells_stays_unknown() -> None:
    result = measured(GateHost(printing(table(NODE)), programs=(BINARY,)))
    assert (result.counters, result.clocks, result.copies) == ((), (), ())


def test_aer_files() -> None:
    assert parse_aer(AER.format(3, 4))["BadDLLP"] == 1
    assert parse_aer_total(AER.format(3, 4)) == 4
    assert parse_aer_total("RxErr 2\nBadTLP 1") == 3
    assert parse_aer_total("") is None
    assert parse_aer_total("nothing of the kind") is None


# nvbandwidth


def bandwidths(pair: list[list[str]], up: str = "24.9") -> str:
    cases: list[dict[str, Any]] = [
        {"name": name, "status": "Passed", "bandwidth_matrix": [["25.0", "25.1", up, "24.8"]]}
        for name in HOST_TESTS
    ]
    cases.append({"name": PAIR_TEST, "status": "Passed", "bandwidth_matrix": pair})
    cases.append({"name": "device_local_copy", "status": "Waived"})
    return "\n" + json.dumps({"nvbandwidth": {"version": "v0.8", "testcases": cases}}, indent=1)


def square(slow: str = "25.5") -> list[list[str]]:
    return [
        ["N/A" if row == column else slow if {row, column} == {0, 3} else "25.6"
         for column in range(4)]
        for row in range(4)
    ]  # fmt: skip


def test_copies_and_their_outliers() -> None:
    host = GateHost(printing(bandwidths(square("13.2"), up="12.0")), programs=("nvbandwidth",))
    copies, problem = copy_figures(host, NODE, (0, 1, 2, 3))
    assert problem is None
    assert len(copies) == 4 + 4 + 12
    assert copies[0].source == "host"
    assert {one.hop_class for one in copies} == {"Gen4 x16", "PIX"}
    found = list(outliers(copies))
    assert [one.id for one in found] == ["copy-bandwidth-outlier"] * 3
    assert found[0].subject == "host->GPU2"
    assert found[2].subject == "GPU3->GPU0, GPU0->GPU3"
    even, _ = copy_figures(GateHost(printing(bandwidths(square())), ("nvbandwidth",)), NODE, (0,))
    assert list(outliers(even)) == []


def test_copies_that_were_not_measured() -> None:
    assert copy_figures(GateHost(printing("")), NODE, (0, 1)) == ((), None)
    broken = GateHost(printing("CUDA_ERROR_SYSTEM_NOT_READY"), programs=("nvbandwidth",))
    copies, problem = copy_figures(broken, NODE, (0, 1))
    assert copies == ()
    assert problem is not None
    assert "not measured" in problem


def test_texts_of_nvbandwidth() -> None:
    tables = parse_nvbandwidth(bandwidths(square()))
    assert [table.name for table in tables] == [*HOST_TESTS, PAIR_TEST]
    assert tables[2].cells[0][0] is None
    assert list(figures(NODE, (), tables)) == []
    for text in (
        "",
        "{",
        '{"nvbandwidth": {"error": "no CUDA"}}',
        '{"nvbandwidth": 1}',
        "[" * 9999,
    ):
        with pytest.raises(ParseError):
            parse_nvbandwidth(text)


def test_copies_in_the_result() -> None:
    program = BINARY

    def answer(argv: tuple[str, ...]) -> Any:
        text = table(NODE) if argv[0] == program else bandwidths(square("13.2"))
        return printing(text)(argv)

    result = measured(GateHost(answer, programs=(program, "nvbandwidth")))
    assert len(result.copies) == 20
    assert kinds(result) == ["copy-bandwidth-outlier"]
    off = run_gate(
        GateHost(answer, programs=(program, "nvbandwidth")), NODE, (0, 1, 2, 3),
        GatePolicy(copies=False, repeats=0), GateRequest(),
    )  # fmt: skip
    assert off.copies == ()
