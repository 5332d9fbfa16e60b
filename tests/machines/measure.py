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
from tests.simulator.nccl import AMD_INTERCONNECT_GBPS, model_busbw_gbps, simulate_all_reduce

BINARY = "/opt/nccl-tests/build/all_reduce_perf"
VERSION = "2.17.9"

Words = dict[Bdf, str]


def measured(
    facts: NodeFacts,
    *,
    words: Words | None = None,
    transport: str = "P2P",
    nvlink_gbps: float | None = None,
    interconnect_gbps: float = AMD_INTERCONNECT_GBPS,
) -> RecordedCommand:
    """One run over all GPUs while the ports hold these control words; None: whatever they hold."""
    tree = PciTree(facts.functions if words is None else _with_words(facts, words))
    busbw = model_busbw_gbps(
        tree,
        [gpu.bdf for gpu in facts.gpus],
        transport=transport,
        nvlink_gbps=nvlink_gbps,
        interconnect_gbps=interconnect_gbps,
    )
    return told(facts, busbw, [transport] * len(facts.gpus), words=words)


def told(
    facts: NodeFacts, busbw_gbps: float, ring: Sequence[str], *, words: Words | None = None
) -> RecordedCommand:
    """A run with a figure worked out by hand; ring: the transport from each GPU to the next."""
    group = tuple(gpu.index for gpu in facts.gpus)
    largest = largest_size(facts, group)
    texts = {
        transport: simulate_all_reduce(
            VERSION,
            [(gpu.index, gpu.bdf) for gpu in facts.gpus],
            [gpu.name or "NVIDIA GPU" for gpu in facts.gpus],
            busbw_gbps,
            sizes=_sizes(largest),
            transport=transport,
        )
        for transport in dict.fromkeys(ring)
    }
    return RecordedCommand(
        argv=gate_argv(BINARY, group, largest),
        stdout=_joined(texts, ring),
        while_registers=words or {},
        simulated=True,
    )


def for_each_state(
    facts: NodeFacts, ports: Sequence[str], states: Sequence[str]
) -> tuple[RecordedCommand, ...]:
    """A run for each word that all the ports may hold together, then one for the recorded state."""
    runs = [measured(facts, words=same_word(ports, word)) for word in states]
    return (*runs, measured(facts))


def same_word(ports: Sequence[str], word: str) -> Words:
    return dict.fromkeys(map(Bdf, ports), word)


def _joined(texts: dict[str, str], ring: Sequence[str]) -> str:
    """One output of several that differ in nothing but the transport in NCCL's log."""
    lines = {transport: text.split("\n") for transport, text in texts.items()}
    joined = list(lines[ring[0]])
    for rank, transport in enumerate(ring):
        for place, line in enumerate(lines[transport]):
            if f" : {rank}[{rank}] -> " in line:
                joined[place] = line
    return "\n".join(joined)


def _with_words(facts: NodeFacts, words: Words) -> dict[Bdf, PciFunction]:
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
