"""What every check looks at: the facts, the tree, and every pair with its way."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.groups import group_pairs
from nodeprep.model.pci import PciFunction
from nodeprep.model.topology import GpuPair, PathLevel
from nodeprep.model.tree import PciTree, Route
from nodeprep.settings import Settings


class PairPath(Record, frozen=True):
    """A GPU pair, the way between its two cards, and the level the tree implies."""

    pair: GpuPair
    route: Route
    level: PathLevel | None

    @property
    def name(self) -> str:
        return f"GPU{self.pair.a}-GPU{self.pair.b}"

    @property
    def over_nvlink(self) -> bool:
        """NVLink joins the two: the way over PCIe does not matter."""
        return bool(self.pair.nvlinks)


class View:
    """One node, prepared for the checks."""

    def __init__(self, facts: NodeFacts, settings: Settings) -> None:
        self.facts = facts
        self.settings = settings
        self.tree = PciTree(facts.functions)
        self.paths = tuple(
            PairPath(pair=pair, route=self.tree.route(a, b), level=self.tree.level(a, b))
            for pair in facts.pairs
            if (a := facts.gpus[pair.a].bdf) in facts.functions
            and (b := facts.gpus[pair.b].bdf) in facts.functions
        )

    def wanted(self, path: PairPath) -> bool:
        """Whether one tensor-parallel group uses both GPUs; with other pairs asked for, any."""
        if self.settings.acs.pairs != "group":
            return True
        size = self.settings.serving.tensor_parallel
        return (path.pair.a, path.pair.b) in group_pairs(len(self.facts.gpus), size)

    @property
    def guest(self) -> bool:
        """Known to be a virtual machine."""
        return self.facts.platform.virtualization not in (None, "none")

    def gpu_ports(self) -> tuple[PciFunction, ...]:
        """Every bridge above a GPU, once, in bus order."""
        ports = {
            bridge.bdf: bridge for gpu in self.facts.gpus for bridge in self.tree.chain(gpu.bdf)
        }
        return tuple(ports[bdf] for bdf in sorted(ports))


def pair_names(paths: Iterable[PairPath], most: int = 6) -> str:
    """`GPU0-GPU1, GPU0-GPU2`, or the first few and how many more."""
    names = [path.name for path in paths]
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
