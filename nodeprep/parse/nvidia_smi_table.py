"""Plain `nvidia-smi`, whole or only rows of it.

|   0  NVIDIA L40S                    On  |   00000000:01:00.0 Off |                    0 |
| N/A   41C    P0             96W /  350W |     636MiB /  46068MiB |    100%      Default |
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from nodeprep.errors import ParseError
from nodeprep.model.nvidia_smi_table import SmiGpu, SmiProcess, SmiTable
from nodeprep.model.pci import parse_bdf
from nodeprep.parse.text import clean_lines
from nodeprep.units import MIB

MAX_ROWS = 4_096

_VERSIONS = re.compile(
    r"Driver Version: *(?P<driver>[\d.]{3,20})"
    r"(?:.{0,40}?CUDA(?: UMD)? Version: *(?P<cuda>[\d.]{3,10}))?"
)
_GPU = re.compile(
    r"\|? *(?P<index>\d{1,3}) +(?P<name>\S.{0,60}?) +(?:On|Off|N/A|\w{1,8}) *\|"
    r" *(?P<bdf>[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])",
    re.IGNORECASE,
)
_FIGURES = re.compile(
    r"\|? *(?:N/A|ERR!|\d{1,3}%)? +(?:N/A|ERR!|\d{1,3}C) +(?P<state>P\d{1,2}|N/A) +"
    r"(?P<power>N/A|[\d.]{1,6}W) */ *(?P<limit>N/A|[\d.]{1,6}W) *\|"
    r" *(?P<used>\d{1,9})MiB */ *(?P<total>\d{1,9})MiB *\| *(?P<busy>\d{1,3}%|N/A)?"
)
_PROCESS = re.compile(
    r"\|? *(?P<gpu>\d{1,3}) +(?:(?:N/A|\d{1,3}) +(?:N/A|\d{1,3}) +)?(?P<pid>\d{1,10}) +"
    r"(?P<kind>C\+G|M\+C|[CGM]) +(?P<name>\S.{0,200}?) +(?P<memory>\d{1,9}MiB|N/A) *\|?"
)
_ERRORS = re.compile(
    r"Failed to initialize NVML.{0,120}|NVIDIA-SMI has failed.{0,160}|No devices were found"
    r"|Unable to determine the device handle.{0,160}",
    re.IGNORECASE,
)


def parse_nvidia_smi_table(text: str) -> SmiTable:
    """GPUs and processes of the table, or the error printed in its place.

    Raises ParseError where neither a row nor a known error can be read.
    """
    gpus: list[SmiGpu] = []
    processes: list[SmiProcess] = []
    driver = cuda = error = None
    for line in clean_lines(text):
        if (match := _GPU.match(line)) is not None:
            gpus.append(_gpu(match))
        elif (match := _FIGURES.match(line)) is not None and gpus:
            gpus[-1] = _with_figures(gpus[-1], match)
        elif (match := _PROCESS.match(line)) is not None:
            processes.append(_process(match))
        elif (match := _VERSIONS.search(line)) is not None:
            driver, cuda = match["driver"], match["cuda"]
        elif (match := _ERRORS.search(line)) is not None:
            error = error or match[0].strip()
        if len(gpus) + len(processes) > MAX_ROWS:
            raise ParseError(f"more than {MAX_ROWS} rows", hint="keep the output of one command")
    if not (gpus or processes or driver or error):
        raise ParseError("no row of nvidia-smi", hint="paste the output of: nvidia-smi")
    return SmiTable(
        driver_version=driver,
        cuda_version=cuda,
        gpus=tuple(gpus),
        processes=tuple(processes),
        error=error,
    )


def _gpu(match: re.Match[str]) -> SmiGpu:
    return SmiGpu(
        index=int(match["index"]),
        name=match["name"].strip(),
        bdf=parse_bdf(match["bdf"]),
    )


def _with_figures(gpu: SmiGpu, match: re.Match[str]) -> SmiGpu:
    busy = match["busy"]
    return replace(
        gpu,
        memory_used_bytes=int(match["used"]) * MIB,
        memory_total_bytes=int(match["total"]) * MIB,
        utilization_percent=int(busy[:-1]) if busy and busy != "N/A" else None,
        performance_state=None if match["state"] == "N/A" else int(match["state"][1:]),
        power_w=_watts(match["power"]),
        power_limit_w=_watts(match["limit"]),
    )


def _watts(text: str) -> float | None:
    try:
        return None if text == "N/A" else float(text[:-1])
    except ValueError:
        return None


def _process(match: re.Match[str]) -> SmiProcess:
    memory = match["memory"]
    return SmiProcess(
        gpu_index=int(match["gpu"]),
        pid=int(match["pid"]),
        kind=match["kind"],
        name=match["name"].strip(),
        memory_bytes=None if memory == "N/A" else int(memory[:-3]) * MIB,
    )
