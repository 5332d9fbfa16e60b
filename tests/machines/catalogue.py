"""Every machine that ships: how it is built, and what its gate measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nodeprep.model.facts import NodeFacts
from nodeprep.model.snapshot import RecordedCommand
from tests.machines import h100, l40s
from tests.machines.measure import for_each_state, measured
from tests.machines.node import Node

Measurements = Callable[[NodeFacts], tuple[RecordedCommand, ...]]


@dataclass(frozen=True)
class Machine:
    name: str
    build: Callable[[], Node]
    measurements: Measurements


def _switch(facts: NodeFacts) -> tuple[RecordedCommand, ...]:
    return for_each_state(facts, l40s.PORTS, ("0011", "0000"))


MACHINES_BUILT = (
    Machine("l40s-acs", l40s.acs, _switch),
    Machine("l40s-clean", l40s.clean, lambda facts: (measured(facts),)),
    Machine("l40s-vfio", l40s.vfio, _switch),
    Machine("h100-sxm8", h100.sxm8, lambda facts: (measured(facts, nvlink_gbps=475.0),)),
)
