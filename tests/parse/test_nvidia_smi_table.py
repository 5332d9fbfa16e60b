"""The plain table of nvidia-smi."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.parse.nvidia_smi_table import parse_nvidia_smi_table
from nodeprep.units import MIB

WHOLE = """\
Mon Jan  5 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.124.06             Driver Version: 570.124.06     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA L40S                    On  |   00000000:43:00.0 Off |                    0 |
| N/A   41C    P0             96W /  350W |     636MiB /  46068MiB |    100%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 4090        Off |   00000000:44:00.0  On |                  Off |
| 30%   35C    P8             12W /  450W |    1200MiB /  24564MiB |      3%      Default |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|=========================================================================================|
|    0   N/A  N/A            4711      C   VLLM::Worker_TP0                        626MiB |
|    1   N/A  N/A            1912      G   /usr/lib/xorg/Xorg                       80MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_the_whole_table() -> None:
    table = parse_nvidia_smi_table(WHOLE)
    assert (table.driver_version, table.cuda_version) == ("570.124.06", "12.8")
    first, second = table.gpus
    assert (first.index, first.name, first.bdf) == (0, "NVIDIA L40S", "0000:43:00.0")
    assert first.memory_used_bytes == 636 * MIB
    assert first.memory_total_bytes == 46068 * MIB
    assert (first.utilization_percent, first.performance_state) == (100, 0)
    assert (second.power_w, second.power_limit_w) == (12.0, 450.0)
    assert [(one.gpu_index, one.pid, one.kind, one.name) for one in table.processes] == [
        (0, 4711, "C", "VLLM::Worker_TP0"),
        (1, 1912, "G", "/usr/lib/xorg/Xorg"),
    ]
    assert table.processes[0].memory_bytes == 626 * MIB


def test_rows_alone_and_quoted() -> None:
    rows = "\n".join(f"> {line}" for line in WHOLE.splitlines()[7:9])
    (gpu,) = parse_nvidia_smi_table(rows).gpus
    assert gpu.memory_used_bytes == 636 * MIB


@pytest.mark.parametrize(
    "line",
    [
        "Failed to initialize NVML: Driver/library version mismatch",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "No devices were found",
    ],
)
def test_an_error_in_its_place(line: str) -> None:
    table = parse_nvidia_smi_table(f"{line}\n")
    assert table.error is not None
    assert table.error in line
    assert table.gpus == ()


@given(st.text(max_size=400))
def test_any_text_gives_a_table_or_a_parse_error(text: str) -> None:
    try:
        parse_nvidia_smi_table(text)
    except ParseError as error:
        assert error.hint  # noqa: PT017
