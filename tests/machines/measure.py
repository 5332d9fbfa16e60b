"""The gate's measurement of a built node, computed for each state of its ACS registers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nodeprep.gate.run import gate_argv, largest_size
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import AcsFlag, Bdf, PciFunction
from nodeprep.model.snapshot import RecordedCommand
from nodeprep.model.tree import PciTree
from nodeprep.units import parse_size_bytes
from tests.simulator.nccl import model_busbw_gbps, simulate_all_reduce

BINARY = "/opt/nccl-tests/build/all_reduce_perf"
VERSION = "2.17.9"


def measured(
    facts: NodeFacts,
    *,
    words: dict[Bdf, str] | None = None,
    transport: str = "P2P",
    nvlink_gbps: float | None = None,
) -> RecordedCommand:
    """One run over all GPUs while the ports hold these control words; None: whatever they hold."""
    group = tuple(gpu.index for gpu in facts.gpus)
    largest = largest_size(facts, group)
    tree = PciTree(facts.functions if words is None else _with_words(facts, words))
    bdfs = [gpu.bdf for gpu in facts.gpus]
    busbw = model_busbw_gbps(tree, bdfs, transport=transport, nvlink_gbps=nvlink_gbps)
    return RecordedCommand(
        argv=gate_argv(BINARY, group, largest),
        stdout=simulate_all_reduce(
            VERSION,
            list(enumerate(bdfs)),
            [gpu.name or "NVIDIA GPU" for gpu in facts.gpus],
            busbw,
            sizes=_sizes(largest),
            transport=transport,
        ),
        while_registers=words or {},
        simulated=True,
    )


def for_each_state(
    facts: NodeFacts, ports: Sequence[str], states: Sequence[str]
) -> tuple[RecordedCommand, ...]:
    """A run for each word that all the ports may hold together, then one for the recorded state."""
    runs = [measured(facts, words=dict.fromkeys(map(Bdf, ports), word)) for word in states]
    return (*runs, measured(facts))


def _with_words(facts: NodeFacts, words: dict[Bdf, str]) -> dict[Bdf, PciFunction]:
    changed = dict(facts.functions)
    for bdf, word in words.items():
        port = changed[bdf]
        assert port.acs is not None
        control = AcsFlag(int(word, 16))
        changed[bdf] = replace(port, acs=replace(port.acs, control=control))
    return changed


def _sizes(largest: str) -> tuple[int, ...]:
    size, last = parse_size_bytes("8M"), parse_size_bytes(largest)
    sizes = []
    while size <= last:
        sizes.append(size)
        size *= 2
    return tuple(sizes)
