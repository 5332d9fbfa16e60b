"""Results of the bandwidth gate."""

from __future__ import annotations

from typing import Any

from nodeprep.model.gate import GateResult, GateVerdict, NcclHalf, NcclRow

SIZES_MIB = (8, 16, 32, 64, 128, 256, 512)


def rows(largest_gbps: float, wrong: float | None = 0) -> tuple[NcclRow, ...]:
    return tuple(
        NcclRow(
            size_bytes=size << 20,
            count=(size << 20) // 4,
            dtype="float",
            redop="sum",
            out_of_place=half(size, largest_gbps, wrong),
            in_place=half(size, largest_gbps * 0.99, wrong),
        )
        for size in SIZES_MIB
    )


def half(size_mib: int, largest_gbps: float, wrong: float | None) -> NcclHalf:
    busbw = largest_gbps * (1 - 0.5 / size_mib)
    return NcclHalf(
        time_us=size_mib * 50.0, algbw_gbps=round(busbw / 1.5, 2), busbw_gbps=round(busbw, 2),
        wrong=wrong,
    )  # fmt: skip


def gate_result(verdict: GateVerdict, measured: float | None, **fields: Any) -> GateResult:
    defaults: dict[str, Any] = {
        "reason": "the largest size reaches the threshold",
        "threshold_gbps": 22.0,
        "threshold_source": "table: PCIe Gen4 x16, one switch tree",
        "expected_gbps": 24.0,
        "limiting_hop": "PCIe Gen4 x16",
        "reasoning": ("4 GPUs under one switch", "Gen4 x16 carries 24 GB/s by NCCL's own figure"),
        "rows": () if measured is None else rows(measured),
        "transports": {"0->1": "P2P/CUMEM", "1->2": "P2P/CUMEM", "2->3": "P2P/CUMEM",
                       "3->0": "P2P/CUMEM"},
        "avg_busbw_gbps": measured,
        "binary": "/opt/nccl-tests/build/all_reduce_perf",
        "duration_s": 3.4,
    }  # fmt: skip
    return GateResult(verdict=verdict, measured_gbps=measured, **(defaults | fields))


GATE_PASS = gate_result(GateVerdict.PASS, 24.31)
GATE_SLOW = gate_result(
    GateVerdict.FAIL_BANDWIDTH,
    6.12,
    reason="6.12 GB/s at 512 MiB is below 22.00 GB/s",
    transports={"0->1": "SHM/direct", "1->2": "P2P/CUMEM", "2->3": "P2P/CUMEM"},
    warnings=("bandwidth falls by 31 % from its peak at large sizes",),
    simulated=True,
)
GATE_NO_BINARY = GateResult(verdict=GateVerdict.NO_BINARY, reason="all_reduce_perf was not found")
