"""A stand-in for nvidia-smi: the query, `topo -m` and `topo -p2p`, from a fabricated tree."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from nodeprep.facts.collect import collect
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gpu import Gpu
from nodeprep.model.tree import PciTree
from nodeprep.settings import Accelerators
from tests.simulator.double import Setup

_UNITS = {"memory.total": " [MiB]", "memory.used": " [MiB]"}
_QUERY = "--query-gpu="


def main(file: str, argv: Sequence[str]) -> int:
    setup = msgspec.json.decode(Path(file).read_bytes(), type=Setup)
    facts = collect(FabricatedHost(Path(setup.tree)), Accelerators(), names=False)
    if argv and argv[0].startswith(_QUERY):
        lines = query(setup, facts, argv[0][len(_QUERY) :].split(","), argv[1:])
    elif argv[:2] == ["topo", "-m"]:
        tree = PciTree(facts.functions)
        lines = matrix(facts, lambda a, b: getattr(tree.level(a.bdf, b.bdf), "value", "SYS"))
        lines += ["", "Legend:", "", "  X    = Self"]
    elif argv[:2] == ["topo", "-p2p"]:
        lines = [*matrix(facts, lambda _a, _b: setup.p2p), "", "Legend:", "", "  X    = Self",
                 "  OK   = Status Ok"]  # fmt: skip
    else:
        sys.stderr.write(f"Invalid combination of input arguments: {' '.join(argv)}\n")
        return 2
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def query(
    setup: Setup, facts: NodeFacts, fields: Sequence[str], options: Sequence[str]
) -> list[str]:
    """`--query-gpu=... --format=csv[,nounits]`."""
    bare = any("nounits" in option for option in options)
    rows = [", ".join(name + ("" if bare else _UNITS.get(name, "")) for name in fields)]
    for gpu in facts.gpus:
        values = {
            "index": str(gpu.index), "pci.bus_id": f"0000{gpu.bdf.upper()}", "name": setup.name,
            "uuid": f"GPU-00000000-0000-0000-0000-{gpu.index:012d}", "memory.total": "46068",
            "memory.used": "1", "compute_cap": "8.9", "mig.mode.current": "[N/A]", "pstate": "P8",
        }  # fmt: skip
        rows.append(", ".join(values.get(name, "[N/A]") for name in fields))
    return rows


def matrix(facts: NodeFacts, cell: Callable[[Gpu, Gpu], str]) -> list[str]:
    """Tab-separated columns, as `topo` prints them."""
    names = [f"GPU{gpu.index}" for gpu in facts.gpus]
    lines = ["\t" + "\t".join(names)]
    for row in facts.gpus:
        cells = [" X " if row is column else cell(row, column) for column in facts.gpus]
        lines.append("\t".join([f"GPU{row.index}", *cells]))
    return lines
