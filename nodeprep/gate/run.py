"""Runs all_reduce_perf over a group of GPUs and judges it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from nodeprep.errors import Denied, HostError, NotFound, NotRecorded, ParseError, TimedOut
from nodeprep.gate.judge import judge
from nodeprep.gate.nvlink import has_nvlink
from nodeprep.gate.threshold import threshold
from nodeprep.host.base import Host
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import GateResult, GateVerdict, Threshold
from nodeprep.model.gpu import Gpu
from nodeprep.model.readings import CommandResult
from nodeprep.parse.nccl_tests import parse_nccl
from nodeprep.settings import GatePolicy
from nodeprep.units import GIB, MIB

PROGRAM = "all_reduce_perf"
MIN_SIZE = "8M"
PCIE_SIZE = "512M"
NVLINK_SIZE = "8G"
"""NVLink is not yet saturated at 512 MiB."""
_SIZE_BYTES = {PCIE_SIZE: 512 * MIB, NVLINK_SIZE: 8 * GIB}
_NVLINK_PATIENCE = 3
"""16 times the data: a node that lost NVLink needs 250 s, and is slow, not hung."""
_BUFFERS = 3
"""nccl-tests keeps three buffers of the largest size on each GPU (-c 1)."""
_SPARE_BYTES = 2 * GIB


def run_gate(
    host: Host,
    facts: NodeFacts,
    group: tuple[int, ...],
    policy: GatePolicy,
    *,
    binary: str | None = None,
    min_busbw_gbps: float | None = None,
    allow_simulated: bool,
    force: bool = False,
) -> GateResult:
    """Measures the GPUs with these indices and judges the result.

    `binary` and `min_busbw_gbps` override the policy. `force`: run although other processes use
    the GPUs.  Nothing the machine does is raised; what could not be measured is a verdict.
    """
    mark = threshold(facts, group, policy, min_busbw_gbps, None)
    if len(group) < 2:
        return _no_run(
            GateVerdict.NOT_APPLICABLE, f"{len(group)} GPU: there is no pair to measure", mark
        )
    obstacle = None if force else _obstacle(facts, group)
    if obstacle:
        return _no_run(GateVerdict.PRECONDITION, obstacle, mark)
    program = find_binary(host, policy, binary)
    if program is None:
        where = binary or f"{', '.join(policy.binaries)} and the search path"
        return _no_run(GateVerdict.NO_BINARY, f"no {PROGRAM}: looked at {where}", mark)
    size = largest_size(facts, group)
    argv = gate_argv(program, group, size)
    deadline_s = policy.deadline_s * (_NVLINK_PATIENCE if size == NVLINK_SIZE else 1)
    try:
        answer = host.run(argv, deadline_s=deadline_s, env=gate_environment(facts, group))
    except HostError as error:
        result = _failed_run(error, mark, len(group), policy)
        return msgspec.structs.replace(result, binary=program)
    result = _judge_answer(answer, facts, group, policy, min_busbw_gbps, allow_simulated)
    return msgspec.structs.replace(result, binary=program, duration_s=answer.duration_s)


def find_binary(host: Host, policy: GatePolicy, binary: str | None = None) -> str | None:
    """The program to run: the one named, else the first of the policy, else by the search path."""
    if binary is not None:
        return binary if host.has_program(binary) else None
    return next((path for path in (*policy.binaries, PROGRAM) if host.has_program(path)), None)


def gate_argv(program: str, group: Sequence[int], max_size: str = PCIE_SIZE) -> tuple[str, ...]:
    """The command line.  No option that an old binary lacks: it would print its usage and end 0.

    -w and -n are given because their defaults changed between versions.
    """
    return (program, "-b", MIN_SIZE, "-e", max_size, "-f", "2", "-g", str(len(group)),
            "-w", "5", "-n", "20", "-c", "1")  # fmt: skip


def largest_size(facts: NodeFacts, group: Sequence[int]) -> str:
    """`8G` when NVLink joins the whole group of more than a pair and memory allows, else `512M`."""
    pairs = [pair for pair in facts.pairs if pair.a in group and pair.b in group]
    joined = len(group) > 2 and bool(pairs) and all(has_nvlink(pair) for pair in pairs)
    free = [_free_bytes(gpu) for gpu in _members(facts, group)]
    roomy = all(size is not None and size >= _need_bytes(NVLINK_SIZE) for size in free)
    return NVLINK_SIZE if joined and roomy else PCIE_SIZE


def gate_environment(facts: NodeFacts, group: Sequence[int]) -> dict[str, str]:
    """The environment beside the host's own small one.

    Bootstrap goes over loopback, so the gate works before the network is up, and no network card
    stands in for a GPU's way.  Nothing that would choose algorithm or transport is set, and nothing
    of the caller's NCCL settings is passed on.
    """
    members = _members(facts, group)
    uuids = [gpu.uuid for gpu in members if gpu.uuid]
    whole = len(uuids) == len(members) > 0
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(uuids if whole else map(str, sorted(group))),
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,P2P,SHM,NET,GRAPH,ENV",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
    }
    libraries = os.environ.get("LD_LIBRARY_PATH")
    return environment | ({"LD_LIBRARY_PATH": libraries} if libraries else {})


def _judge_answer(
    answer: CommandResult,
    facts: NodeFacts,
    group: tuple[int, ...],
    policy: GatePolicy,
    min_busbw_gbps: float | None,
    allow_simulated: bool,
) -> GateResult:
    """The verdict over what the program printed; NCCL's log stands in the same text."""
    try:
        report = parse_nccl(f"{answer.stdout}\n{answer.stderr}")
    except ParseError as error:
        mark = threshold(facts, group, policy, min_busbw_gbps, None)
        return _no_run(GateVerdict.INVALID_OUTPUT, error.message, mark)
    report = msgspec.structs.replace(report, simulated=report.simulated or answer.simulated)
    mark = threshold(facts, group, policy, min_busbw_gbps, report.nccl_version)
    result = judge(report, answer.status, mark, len(group), policy, allow_simulated=allow_simulated)
    if answer.truncated:
        cut = "the program printed more than is kept"
        return msgspec.structs.replace(result, warnings=(*result.warnings, cut))
    return result


def _failed_run(
    error: HostError, mark: Threshold, group_size: int, policy: GatePolicy
) -> GateResult:
    if isinstance(error, TimedOut):
        result = judge(parse_nccl(""), None, mark, group_size, policy, hung=True)
        return msgspec.structs.replace(result, reason=f"{result.reason}: {error.message}")
    if isinstance(error, (NotFound, Denied)):
        return _no_run(GateVerdict.NO_BINARY, error.message, mark)
    if isinstance(error, NotRecorded):
        return _no_run(GateVerdict.PRECONDITION, f"nothing was measured: {error.message}", mark)
    return _no_run(GateVerdict.CRASHED, error.message, mark)


def _obstacle(facts: NodeFacts, group: Sequence[int]) -> str | None:
    """Why a run would measure nothing, or would disturb somebody; None: nothing known."""
    members = _members(facts, group)
    if len(members) != len(set(group)):
        return f"the group names GPUs that are not there: {', '.join(map(str, sorted(group)))}"
    for gpu in members:
        name = f"GPU{gpu.index} {gpu.bdf}"
        if gpu.mig_enabled:
            return f"{name} is in MIG mode, which has no peer-to-peer"
        if gpu.processes:
            pids = ", ".join(str(process.pid) for process in gpu.processes[:8])
            return f"{name} is in use by process {pids}"
        free = _free_bytes(gpu)
        if free is not None and free < _need_bytes(PCIE_SIZE):
            return f"{name} has {free / GIB:.1f} GiB free, the test needs {_need_gib():.1f}"
    return None


def _members(facts: NodeFacts, group: Sequence[int]) -> list[Gpu]:
    return [gpu for gpu in facts.gpus if gpu.index in set(group)]


def _free_bytes(gpu: Gpu) -> int | None:
    if gpu.memory_total_bytes is None:
        return None
    return gpu.memory_total_bytes - (gpu.memory_used_bytes or 0)


def _need_bytes(size: str) -> int:
    return _BUFFERS * _SIZE_BYTES[size] + _SPARE_BYTES


def _need_gib() -> float:
    return _need_bytes(PCIE_SIZE) / GIB


def _no_run(verdict: GateVerdict, reason: str, mark: Threshold) -> GateResult:
    """A verdict without figures, still with what would have been asked."""
    return GateResult(
        verdict=verdict,
        reason=reason,
        threshold_gbps=mark.threshold_gbps,
        threshold_source=mark.source,
        expected_gbps=mark.expected_gbps,
        limiting_hop=mark.limiting_hop,
        reasoning=mark.reasoning,
    )
