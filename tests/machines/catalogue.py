"""Every machine that ships: how it is built, and what its gate measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nodeprep.model.facts import NodeFacts
from nodeprep.model.snapshot import RecordedCommand
from tests.machines import direct, guest, h100, l40s, switched
from tests.machines.measure import for_each_state, measured, same_word, told
from tests.machines.node import Node

Runs = tuple[RecordedCommand, ...]
Measurements = Callable[[NodeFacts], Runs]

SKYLAKE_INTERCONNECT_GBPS = 10.0
"""NCCL's figure between two sockets of Skylake to Ice Lake (src/graph/topo.h)."""


@dataclass(frozen=True)
class Machine:
    name: str
    build: Callable[[], Node]
    measurements: Measurements


def _p2p(facts: NodeFacts) -> Runs:
    return (measured(facts),)


def _host_memory(facts: NodeFacts) -> Runs:
    return (measured(facts, transport="SHM"),)


def _intel_sockets(facts: NodeFacts) -> Runs:
    return (measured(facts, transport="SHM", interconnect_gbps=SKYLAKE_INTERCONNECT_GBPS),)


def _switch(facts: NodeFacts) -> Runs:
    return for_each_state(facts, l40s.PORTS, ("0011", "0000"))


def _tree(facts: NodeFacts) -> Runs:
    return for_each_state(facts, switched.REARMED_PORTS, ("0011", "0000"))


def _two_switches(facts: NodeFacts) -> Runs:
    """P2P inside each switch, host memory between the sockets.

    Freed: the ring is as fast as the one flow through host memory on each uplink, 0.6 of 24 GB/s.
    Redirecting: the flow of the pair climbs through the same uplink, so each has half of 24.
    """
    ring = ("P2P", "SHM", "P2P", "SHM")
    freed = [told(facts, 14.4, ring, words=same_word(switched.TWO_SWITCHES_PORTS, word))
             for word in ("0011", "0000")]  # fmt: skip
    return (*freed, told(facts, 12.0, ring))


def _guest(facts: NodeFacts) -> Runs:
    """Host memory as on bare metal: the guest shows no link to work a figure out from."""
    return (told(facts, 14.4, ("SHM", "SHM")),)


MACHINES_BUILT = (
    Machine("l40s-acs", l40s.acs, _switch),
    Machine("l40s-clean", l40s.clean, _p2p),
    Machine("l40s-vfio", l40s.vfio, _switch),
    Machine("l40s-narrow", l40s.narrow, _p2p),
    Machine("l40s-host", direct.host, _host_memory),
    Machine("l40s-two-switches", switched.two_switches, _two_switches),
    Machine("a100-nvlink", direct.a100_pair, lambda facts: (measured(facts, nvlink_gbps=208.0),)),
    Machine("h100-sxm8", h100.sxm8, lambda facts: (measured(facts, nvlink_gbps=475.0),)),
    Machine("broadcom-two-level", switched.broadcom_tree, _tree),
    Machine("geforce-gns", direct.geforce, _host_memory),
    Machine("epyc-nps4", direct.nps4, _host_memory),
    Machine("intel-cns", direct.intel, _intel_sockets),
    Machine("kvm-guest", guest.kvm, _guest),
)
