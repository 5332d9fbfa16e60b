"""What stands around the table of nccl-tests: options, devices, footer, lines that tell a failure.

# nThread 1 nGpus 4 minBytes 8388608 maxBytes 67108864 step: 2(factor) ... validation: 1
#  Rank  0 Group  0 Pid  27157 on         node-a device  0 [0000:16:00] NVIDIA L40S
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 23.6777
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nodeprep.model.base import Record
from nodeprep.model.gate import NcclRank
from nodeprep.parse.nccl_rows import starts_row
from nodeprep.parse.nccl_text import Wording

_MAX_MESSAGES = 40
_MAX_TEXT = 300

_OPTIONS = Wording(r"\bminBytes:?\s+\d+\s+maxBytes:?\s+\d+", "maxBytes")
_OPTION = {
    "threads": Wording(r"\bnThreads?:?\s+(\d{1,6})\b", "nThread"),
    "gpus": Wording(r"\bnGpus(?:\(\w+\))?:?\s+(\d{1,6})\b", "nGpus"),
    "min_bytes": Wording(r"\bminBytes:?\s+(\d{1,19})\b", "minBytes"),
    "max_bytes": Wording(r"\bmaxBytes:?\s+(\d{1,19})\b", "maxBytes"),
    "step_factor": Wording(r"\bstep:\s*(\d{1,19})\(factor\)", "step:"),
    "step_bytes": Wording(r"\bstep:\s*(\d{1,19})\(bytes\)", "step:"),
    "validation": Wording(r"\bvalidation:\s*(\d{1,6})\b", "validation:"),
}
_REDUCED = Wording(r"Reducing maxBytes to (\d{1,19})\b", "Reducing maxBytes")
_RANK = Wording(
    r"\bRank\s+(?P<rank>\d{1,6})\b(?:\s+Group\s+\d+)?(?:\s+Pid\s+\d+)?(?:\s+on\s+(?P<host>\S{1,255}))?"
    r"\s+device\s+(?P<device>\d{1,4})\b(?:\s*\[(?P<bus>[0-9a-fA-Fx:.]{1,20})\]?)?\s*(?P<name>.{0,120})",
    "Rank",
)
_VERSIONS = Wording(
    r"nccl-tests version\s+(?P<tests>\d\S{0,30}(?: \(\w{1,40}\))?)", "nccl-tests version"
)
_LIBRARY = Wording(r"nccl-library=(\d{3,6})\b", "nccl-library=")
_NAMED = Wording(r"Collective test (?:starting|concluded):\s*(\S{1,80})", "Collective test")
_STARTING = Wording(r"Collective test starting:", "starting:")
_PROGRAM = re.compile(r"\b(\w{2,40})_perf(?:_mpi)?\b")
_SOURCE = Wording(r"Test (?:NCCL |CUDA )?failure (\w{2,40})\.cu:\d+", "failure")
_CLOSING = Wording(
    r"Collective test concluded:|GPU memory usage +:|pid \d+: Test failure",
    "concluded:",
    "GPU memory usage",
    "Test failure",
)
_OUT_OF_BOUNDS = Wording(
    r"Out of bounds values\s*:\s*(\d{1,18})\b\s*(OK|FAILED)?", "Out of bounds values"
)
_AVERAGE = Wording(
    r"Avg bus bandwidth\s*:\s*(\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?)", "Avg bus bandwidth"
)
_LABEL = re.compile(r"\W+|\d\S*|\S+[|>]|\S*\d\S*[:\])]|std(?:out|err)|[FP]")
_SIMULATED = Wording(r"^\W*SIMULATED\b", "SIMULATED")

TIMEOUT = Wording(
    r"Test timeout \(|DUE TO TIME LIMIT|timeout: sending signal",
    "Test timeout",
    "TIME LIMIT",
    "timeout: sending",
)
TOO_FEW_GPUS = Wording(
    r"Invalid number of GPUs: (\d+) requested but only (\d+) were found", "Invalid number of GPUs"
)
_LAUNCH_WORDS = (
    "Invalid number of GPUs", "invalid option", "unrecognized option", "invalid size specified",
    "error while loading shared libraries", "symbol lookup error", "command not found",
    "No such file or directory", "cannot execute binary file", "Permission denied",
    "not enough slots", "unable to launch", "unable to locate", "unable to find",
    "could not access or execute",
)  # fmt: skip
LAUNCH = Wording(
    "|".join((*map(re.escape, _LAUNCH_WORDS), r"^\W*USAGE:", r"version `\S+' not found")),
    *_LAUNCH_WORDS, "USAGE:", "' not found",
)  # fmt: skip
_FAILURE_WORDS = (
    "Test CUDA failure", "Test NCCL failure", "Test failure", "Segmentation fault", "core dumped",
    "Bus error", "terminate called", "Aborted", "exited on signal", "Caught signal",
    "NCCL WARN Cuda failure", "Killed", "non-zero status", "non-zero exit code",
)  # fmt: skip
FAILURE = Wording(
    "|".join((*(rf"\b{word}\b" for word in _FAILURE_WORDS), r"\b(?:Cuda|NCCL) failure \w+\.cu:\d")),
    *_FAILURE_WORDS,
    " failure ",
)
CUDA_OR_NCCL = Wording(
    r"(?:CUDA|Cuda|NCCL) failure \w+\.cu:\d+ '([^'\n]{1,200})"
    r"|NCCL WARN Cuda failure (?:\d+ )?'([^'\n]{1,200})",
    "failure",
)
"""`Test CUDA failure common.cu:422 'text'`; the first release wrote `Cuda failure`."""


class Options(Record, frozen=True):
    """The first line, as far as it is there."""

    threads: int | None
    gpus: int | None
    min_bytes: int | None
    max_bytes: int | None
    step_factor: int | None
    step_bytes: int | None
    validation: int | None


class Footer(Record, frozen=True):
    out_of_bounds: int | None
    out_of_bounds_ok: bool | None
    avg_busbw_gbps: float | None

    @property
    def present(self) -> bool:
        """Printed after the last row: the table above it is whole."""
        return self.out_of_bounds is not None or self.avg_busbw_gbps is not None


def prints_options(line: str) -> bool:
    """Whether a line prints the options, or stands above the line that does (2.16.9 and later)."""
    return any(one.search(line) for one in (_OPTIONS, _STARTING, _VERSIONS))


def prints_rank(line: str) -> bool:
    """Whether a line names the GPU of a rank."""
    return _RANK.search(line) is not None


def read_options(lines: Sequence[str]) -> Options:
    """Options from wherever they stand; the memory limit replaces the size asked for."""
    found = {name: _first_int(pattern, lines) for name, pattern in _OPTION.items()}
    reduced = _first_int(_REDUCED, lines)
    asked = found["max_bytes"]
    if reduced is not None and (asked is None or reduced < asked):
        found["max_bytes"] = reduced
    return Options(**found)


def read_ranks(lines: Iterable[str]) -> tuple[NcclRank, ...]:
    """Device lines; one that is cut before its device does not count."""
    return tuple(
        NcclRank(
            rank=int(match["rank"]),
            host=match["host"],
            device=int(match["device"]),
            bus_id=match["bus"],
            name=match["name"].strip() or None,
        )
        for match in _RANK.each(lines)
    )


def read_footer(lines: Sequence[str]) -> Footer:
    """What the program prints after its last row; a sentence that quotes it is none."""
    rows = [place for place, line in enumerate(lines) if starts_row(line)]
    after = lines[rows[-1] + 1 :] if rows else lines
    bounds, average = _first_own(_OUT_OF_BOUNDS, after), _first_own(_AVERAGE, after)
    word = bounds[2] if bounds else None
    return Footer(
        out_of_bounds=int(bounds[1]) if bounds else None,
        out_of_bounds_ok=None if word is None else word == "OK",
        avg_busbw_gbps=float(average[1]) if average else None,
    )


def _first_own(wording: Wording, lines: Iterable[str]) -> re.Match[str] | None:
    return next((match for line in lines if (match := _own(wording, line))), None)


def _own(wording: Wording, line: str) -> re.Match[str] | None:
    """The match, where nothing but the program's `#` and labels of a launcher stand before it.

    `0: #`, `> #`, `worker-0  |`, `2026-03-12T14:17:56Z stdout F #`.
    """
    match = wording.search(line)
    if match is None:
        return None
    before = line[: match.start()].rstrip()
    if before.endswith("#") or all(map(_LABEL.fullmatch, before.split())):
        return match
    return None


def read_tests_version(lines: Iterable[str]) -> str | None:
    return next((match["tests"] for match in _VERSIONS.each(lines)), None)


def read_library_version(lines: Sequence[str]) -> str | None:
    """`nccl-library=23203` is 2.32.3; before 2.9 the code had one digit less: 2804."""
    code = _first_int(_LIBRARY, lines)
    if code is None:
        return None
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def read_collective(lines: Iterable[str]) -> str | None:
    """`all_reduce`, by the program's own word (2.16.9 and later)."""
    named = {_bare(match[1]) for match in _NAMED.each(lines)}
    return named.pop() if len(named) == 1 else None


def read_hint(lines: Sequence[str]) -> str | None:
    """The collective by the source file of a failure, else by the program named last above the
    rows."""
    sources = {match[1] for match in _SOURCE.each(lines)} - {"common", "util"}
    if sources:
        return sources.pop() if len(sources) == 1 else None
    named: list[str] = []
    for line in lines:
        if starts_row(line):
            break
        if "_perf" in line:
            named += [match[1] for match in _PROGRAM.finditer(line)]
    return named[-1] if named else None


def ends_run(line: str) -> bool:
    """Whether a line belongs to the end of a run: its footer, or what follows a failed check."""
    own = _own(_OUT_OF_BOUNDS, line) or _own(_AVERAGE, line)
    return own is not None or _CLOSING.search(line) is not None


def is_simulated(lines: Sequence[str]) -> bool:
    return any(_SIMULATED.each(lines))


def tells_failure(line: str) -> bool:
    return any(wording.search(line) for wording in (TIMEOUT, LAUNCH, FAILURE))


def failure_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Lines that explain a failure, each once, in order."""
    kept = [line.strip()[:_MAX_TEXT] for line in lines if tells_failure(line)]
    return tuple(dict.fromkeys(kept))[:_MAX_MESSAGES]


def _bare(program: str) -> str:
    return program.rpartition("/")[2].removesuffix("_mpi").removesuffix("_perf")


def _first_int(wording: Wording, lines: Iterable[str]) -> int | None:
    return next((int(match[1]) for match in wording.each(lines)), None)
