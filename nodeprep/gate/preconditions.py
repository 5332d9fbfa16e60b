"""Reasons not to start a run: it would measure nothing, or disturb somebody."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from nodeprep.errors import HostError
from nodeprep.facts.gpus import ask_driver, merge
from nodeprep.gate.command import PCIE_SIZE, free_bytes, members, need_bytes
from nodeprep.gate.judge import listed
from nodeprep.gate.nvlink import has_nvlink
from nodeprep.host.base import Host
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.gpu import Gpu
from nodeprep.settings import GatePolicy
from nodeprep.units import GIB

_FABRIC_STATES = {1: "not started", 2: "in progress"}
_FABRIC_HINT = "nvidia-fabricmanager has to bring the NVLink fabric up"


class Obstacle(Record, frozen=True):
    reason: str
    passing: bool
    """It may go away by itself: a fabric that comes up, a process that ends."""


def obstacle(
    facts: NodeFacts, group: Sequence[int], *, expected_count: int | None = None
) -> Obstacle | None:
    """The first reason not to run over these GPUs; None: nothing known speaks against it."""
    return next(_obstacles(facts, group, expected_count), None)


def await_clear(
    host: Host,
    facts: NodeFacts,
    group: Sequence[int],
    policy: GatePolicy,
    *,
    expected_count: int | None,
    tell: Callable[[str], None],
) -> tuple[NodeFacts, Obstacle | None]:
    """Facts once nothing speaks against a run, or with what still does when the wait is over."""
    end = time.monotonic() + policy.wait_s
    while True:
        found = obstacle(facts, group, expected_count=expected_count)
        late = time.monotonic() + policy.retry_every_s > end
        if found is None or not found.passing or late or host.simulates:
            return facts, found
        tell(f"waiting: {found.reason}")
        time.sleep(policy.retry_every_s)
        facts = asked_again(host, facts)


def asked_again(host: Host, facts: NodeFacts) -> NodeFacts:
    """The same facts with what the driver says of its GPUs at this moment."""
    try:
        gpus, pairs = merge(tuple(gpu.bdf for gpu in facts.gpus), ask_driver(host), facts.functions)
    except HostError:
        return facts
    return replace(facts, gpus=gpus, pairs=pairs)


def _obstacles(
    facts: NodeFacts, group: Sequence[int], expected_count: int | None
) -> Iterator[Obstacle]:
    found = members(facts, group)
    if absent := sorted(set(group) - {gpu.index for gpu in found}):
        yield _lasting(f"there is no GPU {listed(absent)} here: {len(facts.gpus)} were found")
        return
    if expected_count is not None and len(facts.gpus) != expected_count:
        yield _lasting(f"{len(facts.gpus)} GPUs, expected are {expected_count}")
    yield from _unknown_to_driver(facts, found)
    fabric = _uses_fabric(facts, group)
    for gpu in found:
        yield from _gpu_obstacles(gpu, fabric=fabric)


def _unknown_to_driver(facts: NodeFacts, found: Sequence[Gpu]) -> Iterator[Obstacle]:
    """GPUs on the bus that the driver does not list: lost, or not bound to it."""
    if facts.origin is Origin.LIVE and all(gpu.driver_grade == "pci" for gpu in found):
        yield _passing("no NVIDIA driver answers for these GPUs")
    spoken_for = any(gpu.driver_grade in ("nvml", "nvidia-smi") for gpu in facts.gpus)
    lost = [f"GPU{gpu.index} {gpu.bdf}" for gpu in found if gpu.driver_grade == "pci"]
    if spoken_for and lost:
        yield _lasting(f"the driver does not list {listed(lost)}, which the bus has")


def _gpu_obstacles(gpu: Gpu, *, fabric: bool) -> Iterator[Obstacle]:
    name = f"GPU{gpu.index} {gpu.bdf}"
    if gpu.mig_enabled:
        yield _lasting(f"{name} is in MIG mode, which has no peer-to-peer")
    if fabric and gpu.fabric_state in _FABRIC_STATES:
        state = _FABRIC_STATES[gpu.fabric_state]
        yield _passing(f"the fabric of {name} is {state}: {_FABRIC_HINT}")
    if gpu.processes:
        pids = listed([process.pid for process in gpu.processes])
        yield _passing(f"{name} is in use by process {pids}")
    free, need = free_bytes(gpu), need_bytes(PCIE_SIZE)
    if free is not None and free < need:
        yield _passing(f"{name} has {free / GIB:.1f} GiB free, the test needs {need / GIB:.1f}")


def _uses_fabric(facts: NodeFacts, group: Sequence[int]) -> bool:
    """Whether NVLink joins GPUs of the group; a fabric that is down shows none, so one pair, or a
    fabric state at all, will do."""
    pairs = [pair for pair in facts.pairs if pair.a in group and pair.b in group]
    states = [gpu.fabric_state for gpu in members(facts, group)]
    return any(has_nvlink(pair) for pair in pairs) or any(state in (1, 2, 3) for state in states)


def _lasting(reason: str) -> Obstacle:
    return Obstacle(reason=reason, passing=False)


def _passing(reason: str) -> Obstacle:
    return Obstacle(reason=reason, passing=True)
