"""Matrices as nvidia-smi prints them, of any size, and what pastes make of them."""

from __future__ import annotations

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def level(a: int, b: int, width: int = 4) -> str:
    """Two GPUs a switch, `width` GPUs a socket; NVLink between the last two of a socket."""
    if a == b:
        return "X"
    if a // width != b // width:
        return "SYS"
    if {a % width, b % width} == {width - 2, width - 1}:
        return "NV18"
    return "PIX" if a // 2 == b // 2 else "NODE"


def topo(gpus: int = 8, nics: int = 2, *, affinity: bool = True, legend: bool = True) -> str:
    """`nvidia-smi topo -m` with its tabs."""
    names = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(nics)]
    tail = "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID" if affinity else ""
    lines = ["\t\x1b[4m" + "\t".join(names) + tail + "\x1b[0m"]
    for place, name in enumerate(names):
        cells = [_padded(level(place, other)) for other in range(len(names))]
        socket = place // 4
        end = f"\t{socket * 32}-{socket * 32 + 31}\t{socket}\t\tN/A" if affinity else ""
        lines.append("\t".join([name, *cells]) + (end if place < gpus else "\t" * 4))
    text = "\n".join(lines) + "\n"
    if legend:
        text += LEGEND
        if nics:
            text += "\nNIC Legend:\n\n" + "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(nics))
    return text


def p2p(gpus: int = 4, status: str = "OK") -> str:
    """`nvidia-smi topo -p2p r`: rows begin with a blank and end with a tab."""
    names = [f"GPU{n}" for n in range(gpus)]
    lines = [" \t" + "\t".join(names) + "\t"]
    for name in names:
        cells = ["X" if other == name else status for other in names]
        lines.append(" " + "\t".join([name, *cells]) + "\t")
    return "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  U    = Unknown\n"


def expected(gpus: int = 8, nics: int = 2) -> dict[str, dict[str, str]]:
    """The cells of `topo`."""
    names = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(nics)]
    return {a: {b: level(i, j) for j, b in enumerate(names)} for i, a in enumerate(names)}


def _padded(word: str) -> str:
    return " X " if word == "X" else word
