"""A stand-in for all_reduce_perf that is a real program: it prints, hangs, forks, crashes.

What it prints follows from a fabricated tree (`DIR/devices/...`) as its registers are at that
moment: bandwidth from links, flows and ACS words, transports from NCCL's own policy, peer status
and NCCL_P2P_DISABLE or NCCL_P2P_LEVEL.  Its first line says SIMULATED.

The gate starts it with an empty environment, so everything about it stands in a file: see Setup.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nodeprep.facts.collect import collect
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.model.facts import NodeFacts
from nodeprep.model.nccl_policy import p2p_limit, within
from nodeprep.model.pci import Bdf
from nodeprep.model.topology import PathLevel
from nodeprep.model.tree import PciTree
from nodeprep.settings import Accelerators
from nodeprep.units import parse_size_bytes
from tests.simulator.nccl import (
    SIMULATED_LINE,
    footer_lines,
    head_lines,
    header_lines,
    log_lines,
    model_busbw_gbps,
    rank_line,
    row_line,
)

MODES = (
    "ok", "hang", "ignore-term", "fork", "new-session", "crash", "abort", "wrong-data",
    "unknown-option", "truncated", "not-initialized", "busy", "too-few-gpus", "no-library",
    "silent-mid-run",
)  # fmt: skip
_KNOWN_OPTIONS = ("-b", "-e", "-f", "-g", "-w", "-n", "-c")
_FOR_EVER_S = 3600.0


class Setup(msgspec.Struct, forbid_unknown_fields=True):
    """The file beside the program."""

    tree: str
    mode: str = "ok"
    version: str = "2.19.6"
    nccl_version: str = "2.27.7"
    cpu_vendor: str = "AuthenticAMD"
    p2p: str = "OK"
    """What NVML says of every pair."""
    only_p2p: bool = False
    """The mode counts only where some way of the ring is peer-to-peer."""
    only_pairs: list[list[int]] = []
    """The mode counts only where one of these neighbours is joined; empty: always."""
    times: int | None = None
    """How many runs the mode counts for; then the program works."""
    takes_s: float = 0.0
    slow_gpus: dict[str, float] = {}
    """GPU -> factor on the bandwidth of every ring it is in."""
    slow_runs: list[float] = []
    """Factors for the first, second... run."""
    name: str = "NVIDIA L40S"


class Ring(msgspec.Struct):
    """The GPUs of one run, in bus order."""

    gpus: list[int]
    bdfs: list[Bdf]
    transports: list[str]
    busbw_gbps: float


def main(file: str, argv: Sequence[str]) -> int:
    setup = msgspec.json.decode(Path(file).read_bytes(), type=Setup)
    run = _count(Path(file))
    options = dict(zip(argv[::2], argv[1::2], strict=False))
    unknown = [name for name in options if name not in _KNOWN_OPTIONS]
    if unknown or setup.mode == "unknown-option":
        say(f"invalid option '{(unknown or ['-J'])[0]}'", "USAGE: all_reduce_perf ")
        return 0
    if setup.mode == "no-library":
        sys.stderr.write("all_reduce_perf: error while loading shared libraries: libnccl.so.2\n")
        return 127
    ring = ring_of(setup, run)
    asked = int(options.get("-g", "1"))
    if asked > len(ring.gpus) or setup.mode == "too-few-gpus":
        found = min(len(ring.gpus), asked - 1)
        sys.stderr.write(
            f"Invalid number of GPUs: {asked} requested but only {found} were found.\n"
        )
        return 5
    mode = setup.mode if _counts(setup, ring, run) else "ok"
    return _Run(setup, ring, options).play(mode)


def ring_of(setup: Setup, run: int = 0) -> Ring:
    """The visible GPUs, the way between each and the next, and what that reaches."""
    facts = collect(FabricatedHost(Path(setup.tree)), Accelerators(), names=False)
    tree = PciTree(facts.functions)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    wanted = [gpu.index for gpu in facts.gpus]
    if visible is not None:
        wanted = [int(name) for name in visible.split(",") if name.isdecimal()]
    bdfs = [gpu.bdf for gpu in facts.gpus if gpu.index in wanted]
    transports = [
        transport_of(setup, facts, tree, a, b, len(bdfs))
        for a, b in zip(bdfs, [*bdfs[1:], bdfs[0]], strict=True)
    ]
    busbw = model_busbw_gbps(tree, bdfs, transport=transports) if len(bdfs) > 1 else 0.0
    for gpu in wanted:
        busbw *= setup.slow_gpus.get(str(gpu), 1.0)
    if run < len(setup.slow_runs):
        busbw *= setup.slow_runs[run]
    return Ring(gpus=wanted, bdfs=bdfs, transports=transports, busbw_gbps=busbw)


def transport_of(setup: Setup, facts: NodeFacts, tree: PciTree, a: Bdf, b: Bdf, count: int) -> str:
    """NCCL's choice for a pair by level, version, CPU vendor, peer status and its own switches."""
    version = setup.nccl_version.split(".")
    limit = p2p_limit(setup.cpu_vendor, count, (int(version[0]), int(version[1])))
    if level := os.environ.get("NCCL_P2P_LEVEL"):
        limit = PathLevel.SELF if level == "LOC" else PathLevel(level)
    distance = tree.level(a, b)
    denied = setup.p2p != "OK" or os.environ.get("NCCL_P2P_DISABLE") == "1"
    return "SHM" if denied or distance is None or not within(distance, limit) else "P2P"


class _Run:
    """What one run does, line by line."""

    def __init__(self, setup: Setup, ring: Ring, options: dict[str, str]) -> None:
        self._setup = setup
        self._ring = ring
        self._ranks = int(options.get("-g", "1"))
        size, last = parse_size_bytes(options["-b"]), parse_size_bytes(options["-e"])
        self._sizes: list[int] = []
        while size <= last:
            self._sizes.append(size)
            size *= 2

    def play(self, mode: str) -> int:
        self._head()
        if mode in ("not-initialized", "busy", "crash"):
            return self._cuda_failure(mode)
        self._log()
        say(*header_lines(self._setup.version))
        match mode:
            case "hang" | "ignore-term" | "fork" | "new-session":
                _hang(mode)
            case "abort":
                os.abort()
        return self._table(mode)

    def _head(self) -> None:
        setup, ring = self._setup, self._ring
        say(SIMULATED_LINE)
        say(*head_lines(setup.version, self._sizes, self._ranks, 1, setup.nccl_version))
        for rank in range(self._ranks):
            say(rank_line(setup.version, rank, os.getpid(), "node-a", rank, ring.bdfs[rank],
                          setup.name))  # fmt: skip

    def _log(self) -> None:
        """NCCL's log, in the file that NCCL_DEBUG_FILE names (%h host, %p process)."""
        setup = self._setup
        lines = log_lines("node-a", os.getpid(), self._ranks, self._ring.transports, 2,
                          setup.nccl_version)  # fmt: skip
        place = os.environ.get("NCCL_DEBUG_FILE")
        if place is None:
            say(*lines)
        else:
            file = place.replace("%h", "node-a").replace("%p", str(os.getpid()))
            Path(file).write_text("\n".join(lines) + "\n")

    def _cuda_failure(self, mode: str) -> int:
        """nccl-tests ends 2 after a CUDA error."""
        words = {
            "not-initialized": "system not yet initialized",
            "busy": "all CUDA-capable devices are busy or unavailable",
            "crash": "an illegal memory access was encountered",
        }
        say(f"node-a: Test CUDA failure common.cu:1005 '{words[mode]}'",
            f" .. node-a pid {os.getpid()}: Test failure common.cu:891")  # fmt: skip
        return 2

    def _table(self, mode: str) -> int:
        setup, ranks = self._setup, self._ranks
        factor = 2 * (ranks - 1) / ranks
        figures: list[float] = []
        for size in self._sizes:
            time.sleep(setup.takes_s / len(self._sizes))
            last = size == self._sizes[-1]
            if mode == "truncated" and last:
                return 0
            if mode == "silent-mid-run" and size > self._sizes[1]:
                time.sleep(_FOR_EVER_S)
            busbw = self._ring.busbw_gbps or 500.0
            slower = 40.0 * (1 - size / self._sizes[-1])
            time_us = size * (factor or 1.0) / busbw / 1e3 + slower
            wrong = 96 if mode == "wrong-data" and last else 0
            say(row_line(setup.version, size, time_us, time_us, ranks, wrong))
            figures += [size * factor / time_us / 1e3] * 2
        bad = 192 if mode == "wrong-data" else 0
        say(*footer_lines(setup.version, sum(figures) / len(figures), bad))
        old = setup.version.startswith("2.13")
        return (1 if old else 7) if bad else 0


def _counts(setup: Setup, ring: Ring, run: int) -> bool:
    """Whether this run meets what the mode is limited to."""
    if setup.times is not None and run >= setup.times:
        return False
    neighbours = list(zip(ring.gpus, [*ring.gpus[1:], ring.gpus[0]], ring.transports, strict=False))
    if setup.only_p2p and not any(via == "P2P" for _, _, via in neighbours):
        return False
    pairs = [sorted(pair) for pair in setup.only_pairs]
    return not pairs or any(sorted((a, b)) in pairs for a, b, _ in neighbours)


def _count(file: Path) -> int:
    """How many runs there were before this one."""
    place = file.with_suffix(".runs")
    run = int(place.read_text()) if place.exists() else 0
    place.write_text(str(run + 1))
    return run


def _hang(mode: str) -> None:
    if mode in ("fork", "new-session") and os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if mode == "new-session":
            os.setsid()
    elif mode == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.fork()
    time.sleep(_FOR_EVER_S)


def say(*lines: str) -> None:
    """nccl-tests sets its output to be flushed at every line."""
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
