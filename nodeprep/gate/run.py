"""The gate: preconditions, one tool, as many runs as it takes, and what stood around them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from nodeprep.facts.asking import text_or_none
from nodeprep.gate.around import Surroundings
from nodeprep.gate.command import P2P_OFF as P2P_OFF
from nodeprep.gate.command import PROGRAM, find_binary, find_engine
from nodeprep.gate.command import gate_argv as gate_argv
from nodeprep.gate.command import gate_environment as gate_environment
from nodeprep.gate.command import largest_size as largest_size
from nodeprep.gate.copies import copy_figures, outliers
from nodeprep.gate.diagnose import FAILURES, diagnose, p2p_off
from nodeprep.gate.health import link_errors, link_warnings, throttling
from nodeprep.gate.judge import MEASURED
from nodeprep.gate.measure import Bench, Tool, no_run, told
from nodeprep.gate.neighbours import explained, neighbours
from nodeprep.gate.preconditions import await_clear
from nodeprep.gate.suspects import NO_GAIN, veto
from nodeprep.gate.threshold import threshold
from nodeprep.gate.torch_fallback import find_python
from nodeprep.host.base import Host
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import GateResult, GateVerdict, Threshold
from nodeprep.settings import GatePolicy
from nodeprep.units import parse_size_bytes

_NCCL_CONF = "/etc/nccl.conf"


class GateRequest(Record, frozen=True):
    """What one command asks of the gate, before the policy."""

    binary: str | None = None
    image: str | None = None
    min_busbw_gbps: float | None = None
    allow_simulated: bool = False
    force: bool = False
    """Run although other processes use the GPUs."""
    two_arms: bool | None = None
    """None: where the policy says so."""
    at_boot: bool = False
    """Then two arms are the default where peer-to-peer is expected."""
    diagnose: bool = False
    torch: bool = False
    """Measure with PyTorch, one process for each GPU, even where nccl-tests is installed."""
    expected_count: int | None = None
    """GPUs this node must have."""


def run_gate(
    host: Host,
    facts: NodeFacts,
    group: tuple[int, ...],
    policy: GatePolicy,
    request: GateRequest,
    tell: Callable[[str], None] = lambda _: None,
) -> GateResult:
    """Measures the GPUs with these indices and judges the result.

    `tell` gets a few words on what is going on.  Nothing the machine does is raised; what could not
    be measured is a verdict.
    """
    return replace(_verdict(host, facts, group, policy, request, tell), gpus=group)


def _verdict(
    host: Host,
    facts: NodeFacts,
    group: tuple[int, ...],
    policy: GatePolicy,
    request: GateRequest,
    tell: Callable[[str], None],
) -> GateResult:
    size_bytes = parse_size_bytes(largest_size(facts, group))
    mark = threshold(facts, group, policy, request.min_busbw_gbps, None, size_bytes)
    if len(group) < 2:
        reason = f"{len(group)} GPU: there is no pair to measure"
        return no_run(GateVerdict.NOT_APPLICABLE, reason, mark)
    if not request.force:
        facts, obstacle = await_clear(
            host, facts, group, policy, expected_count=request.expected_count, tell=tell
        )
        if obstacle is not None:
            return no_run(GateVerdict.PRECONDITION, obstacle.reason, mark)
    tool, missing = find_tool(host, policy, request)
    if tool is None:
        return no_run(GateVerdict.NO_BINARY, missing, mark)
    bench = Bench(
        host, facts, policy, tool,
        min_busbw_gbps=request.min_busbw_gbps, allow_simulated=request.allow_simulated, tell=tell,
    )  # fmt: skip
    return _measured(bench, group, request, mark)


def find_tool(host: Host, policy: GatePolicy, request: GateRequest) -> tuple[Tool | None, str]:
    """What measures, or why nothing does: a container image that is asked for, else nccl-tests of
    the node, else PyTorch."""
    image = request.image or (policy.image if request.binary is None else None)
    if image is not None:
        engine = find_engine(host, policy)
        if engine is None:
            return None, f"no docker or podman to run {image}"
        program = "python3" if request.torch else request.binary or policy.container_program
        return Tool(program=program, container=(engine, image), torch=request.torch), ""
    binary = None if request.torch else find_binary(host, policy, request.binary)
    if binary is not None:
        return Tool(program=binary), ""
    where = request.binary or f"{', '.join(policy.binaries)} and the search path"
    missing = f"no {PROGRAM}: looked at {where}"
    if request.binary is not None or host.simulates:
        return None, missing
    python = find_python(host, policy)
    if python is None:
        return None, f"{missing}; no PyTorch either: {', '.join(policy.torch_python)}"
    return Tool(program=python, torch=True), ""


def _measured(
    bench: Bench, group: tuple[int, ...], request: GateRequest, mark: Threshold
) -> GateResult:
    size = largest_size(bench.facts, group)
    around = Surroundings(bench.host, bench.facts, group, parse_size_bytes(size))
    result = bench.repeated(group, size, around.on_row)
    counters, clocks = around.finish()
    result = _with_ways(bench, group, result, mark)
    result = replace(
        result,
        counters=counters,
        clocks=clocks,
        findings=(*link_errors(counters), *throttling(clocks)),
        warnings=(*result.warnings, *link_warnings(around.links()), *_nccl_conf(bench.host)),
    )
    off = None
    if _wants_two_arms(bench.policy, request, mark, result) and bench.has_time(size):
        off = p2p_off(bench, group, size)
        result = _with_arm(result, off)
    if request.diagnose and result.verdict in FAILURES and not result.survivors:
        result = diagnose(bench, group, size, result, off)
    if off is not None and result.veto is not None and bench.policy.allow_host_memory:
        result = _served_without_p2p(result, off)
    return _with_copies(bench, group, result)


def _wants_two_arms(
    policy: GatePolicy, request: GateRequest, mark: Threshold, result: GateResult
) -> bool:
    """A run that never came to measure has nothing to be compared with."""
    if result.verdict not in (*MEASURED, *FAILURES) or result.survivors:
        return False
    asked = policy.two_arms if request.two_arms is None else request.two_arms
    return request.at_boot and mark.expected_transport == "P2P" if asked is None else asked


def _with_ways(
    bench: Bench, group: tuple[int, ...], result: GateResult, mark: Threshold
) -> GateResult:
    """Every neighbour pair with its transport; a failure names pair, peer status and ACS state."""
    ways = neighbours(bench.facts, group, result.transports)
    result = replace(result, neighbours=ways)
    why = explained(result, mark.expected_transport)
    return replace(result, reason=f"{result.reason} [{why}]") if why else result


def _with_arm(result: GateResult, off: GateResult) -> GateResult:
    if off.verdict is GateVerdict.PRECONDITION:
        return result  # a recording that lacks this arm
    warnings = list(result.warnings)
    on_gbps, off_gbps = result.measured_gbps, off.measured_gbps
    direct = {one.transport.partition("/")[0] for one in result.neighbours} == {"P2P"}
    if direct and on_gbps and off_gbps and on_gbps < NO_GAIN * off_gbps:
        warnings.append(
            f"peer-to-peer ({on_gbps:.1f} GB/s) is hardly faster than host memory "
            f"({off_gbps:.1f}): its traffic may go through the root complex"
        )
    return replace(
        result,
        arms=(told("p2p-on", result), told("p2p-off", off)),
        veto=veto(result, off),
        warnings=tuple(warnings),
    )


def _served_without_p2p(result: GateResult, off: GateResult) -> GateResult:
    """The figure through host memory counts, since the configuration allows such a node."""
    return replace(
        off,
        reason=f"peer-to-peer is vetoed: {result.veto}. Without it: {off.reason}",
        runs=result.runs, arms=result.arms, veto=result.veto, findings=result.findings,
        pair_runs=result.pair_runs, counters=result.counters, clocks=result.clocks,
        warnings=(*result.warnings, *off.warnings),
    )  # fmt: skip


def _with_copies(bench: Bench, group: tuple[int, ...], result: GateResult) -> GateResult:
    """Single copies are worth their seconds only on a node that can measure at all."""
    if not bench.policy.copies or bench.host.simulates or result.verdict not in MEASURED:
        return result
    copies, problem = copy_figures(bench.host, bench.facts, group)
    return replace(
        result,
        copies=copies,
        findings=(*result.findings, *outliers(copies)),
        warnings=(*result.warnings, *((problem,) if problem else ())),
    )


def _nccl_conf(host: Host) -> tuple[str, ...]:
    """NCCL reads this file whatever the environment says."""
    lines = (text_or_none(host, _NCCL_CONF) or "").splitlines()
    set_here = [line.strip() for line in lines if line.strip().startswith("NCCL_")]
    return (f"{_NCCL_CONF} sets {', '.join(set_here[:8])}",) if set_here else ()
