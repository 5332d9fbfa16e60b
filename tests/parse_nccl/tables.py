"""Tables of the simulator, without its confession."""

from __future__ import annotations

from typing import Any

from nodeprep.model.gate import NcclReport
from nodeprep.parse.nccl_tests import largest_row
from tests.simulator.nccl import simulate_all_reduce

FOUR = [(index, f"0000:{0x43 + index:02x}:00.0") for index in range(4)]
NAMES = ["NVIDIA L40S"] * 4


def simulated(version: str = "2.19.6", **options: Any) -> str:
    return simulate_all_reduce(version, FOUR, NAMES, 24.0, simulated_line=False, **options)


def top(report: NcclReport) -> tuple[float | None, float | None]:
    row = largest_row(report.rows)
    assert row is not None
    out, inside = row.out_of_place, row.in_place
    return out.busbw_gbps if out else None, inside.busbw_gbps if inside else None
