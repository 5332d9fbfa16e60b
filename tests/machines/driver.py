"""What the NVIDIA driver says of a built node: an NVML reading, or the text of nvidia-smi."""

from __future__ import annotations

from collections.abc import Callable

from nodeprep.facts.gpus import APPS, QUERY
from nodeprep.model.readings import NvmlGpu, NvmlPair, NvmlReading
from nodeprep.units import MIB
from tests.machines.boards import DRIVER
from tests.machines.node import Node
from tests.machines.parts import Card

Level = Callable[[int, int], str]
_ANCESTOR = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
_STATUS = {"OK": 0, "CNS": 1, "GNS": 2, "TNS": 3, "DR": 4, "NS": 5, "U": 6}


def nvml(
    card: Card,
    bus_ids: list[str],
    *,
    level: Level,
    driver: str = DRIVER,
    p2p: str = "OK",
    nvlinks: int | None = None,
) -> NvmlReading:
    """One NVML reading of equal GPUs; nvlinks: of one GPU, all of them to each of the others."""
    count = len(bus_ids)
    return NvmlReading(
        driver_version=driver,
        gpus=tuple(
            NvmlGpu(
                bus_id=f"0000{bus_id.upper()}",
                name=card.product,
                uuid=_uuid(index),
                memory_total_bytes=card.memory_mib * MIB,
                memory_used_bytes=4 * MIB,
                bar1_total_bytes=card.bar1_mib * MIB,
                compute_capability=card.capability,
                mig_current=0,
                performance_state=0,
                nvlinks_active=nvlinks,
                processes=(),
            )
            for index, bus_id in enumerate(bus_ids)
        ),
        pairs=tuple(
            NvmlPair(
                a=a,
                b=b,
                common_ancestor=_ANCESTOR[level(a, b)],
                p2p_read=_STATUS[p2p],
                p2p_write=_STATUS[p2p],
                nvlinks=nvlinks or 0,
            )
            for a in range(count)
            for b in range(a + 1, count)
        ),
    )


def nvidia_smi(
    node: Node,
    card: Card,
    bus_ids: list[str],
    *,
    affinity: Callable[[int], tuple[str, str]],
    level: Level,
    p2p: str = "OK",
) -> None:
    """The answers of nvidia-smi for equal GPUs: the query, the level matrix, the P2P matrices."""
    header = "index, pci.bus_id, name, uuid, memory.total [MiB], memory.used [MiB], compute_cap, "
    rows = "".join(
        f"{index}, 0000{bus_id.upper()}, {card.product}, {_uuid(index)}, {card.memory_mib}, 4, "
        f"{'.'.join(map(str, card.capability))}, [N/A], P8\n"
        for index, bus_id in enumerate(bus_ids)
    )
    node.answer(
        ("nvidia-smi", QUERY, "--format=csv,nounits"),
        f"{header}mig.mode.current, pstate\n{rows}",
    )
    node.answer(
        ("nvidia-smi", APPS, "--format=csv,nounits"),
        "gpu_uuid, pid, used_gpu_memory [MiB], name\n",
    )
    node.answer(("nvidia-smi", "topo", "-m"), _levels(len(bus_ids), level, affinity))
    for letter in ("r", "w"):
        node.answer(("nvidia-smi", "topo", "-p2p", letter), _p2p(len(bus_ids), p2p))


def _levels(count: int, level: Level, affinity: Callable[[int], tuple[str, str]]) -> str:
    names = [f"GPU{index}" for index in range(count)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for a, name in enumerate(names):
        cells = [" X " if a == b else level(min(a, b), max(a, b)) for b in range(count)]
        cpus, numa = affinity(a)
        lines.append("\t".join([name, *cells, cpus, numa, "", "N/A"]))
    legend = (
        "\nLegend:\n\n  X    = Self\n"
        "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\n"
        "  PIX  = Connection traversing at most a single PCIe bridge\n"
    )
    return "\n".join(lines) + "\n" + legend


def _p2p(count: int, status: str) -> str:
    names = [f"GPU{index}" for index in range(count)]
    lines = [" \t" + "\t".join(names) + "\t"]
    for a, name in enumerate(names):
        cells = ["X" if a == b else status for b in range(count)]
        lines.append(f" {name}\t" + "\t".join(cells) + "\t")
    return "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-4000-8000-{index:012d}"
