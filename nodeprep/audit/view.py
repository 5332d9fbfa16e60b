"""What every check looks at: the facts, the tree, and every pair with its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.groups import group_pairs
from nodeprep.model.pci import PciFunction
from nodeprep.model.topology import GpuPair, PathLevel, pairs_text, ranges
from nodeprep.model.tree import Route
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

    def __init__(
        self, facts: NodeFacts, settings: Settings, only: tuple[int, int] | None = None
    ) -> None:
        """`only`: two GPU indices; the checks then see nothing but this pair and its way."""
        self.facts = facts
        self.settings = settings
        self.only = only
        self.tree = facts.tree
        self.gpus = tuple(gpu for gpu in facts.gpus if only is None or gpu.index in only)
        self.paths = tuple(
            PairPath(pair=pair, route=self.tree.route(a, b), level=self.tree.level(a, b))
            for pair in facts.pairs
            if (only is None or {pair.a, pair.b} == set(only))
            and (a := facts.gpus[pair.a].bdf) in facts.functions
            and (b := facts.gpus[pair.b].bdf) in facts.functions
        )

    def wanted(self, path: PairPath) -> bool:
        """Whether one tensor-parallel group uses both GPUs; with other pairs asked for, any."""
        if self.settings.acs.pairs != "group":
            return True
        size = self.settings.serving.tensor_parallel
        count = len(self.facts.gpus)
        if size is not None and size > count:
            return True
        return (path.pair.a, path.pair.b) in group_pairs(count, size)

    @property
    def guest(self) -> bool:
        """Known to be a virtual machine."""
        return self.facts.platform.virtualization not in (None, "none")

    def gpu_ports(self) -> tuple[PciFunction, ...]:
        """Every bridge above a GPU, once, in bus order."""
        ports = {bridge.bdf: bridge for gpu in self.gpus for bridge in self.tree.chain(gpu.bdf)}
        return tuple(ports[bdf] for bdf in sorted(ports))

    def held_for_guests(self) -> tuple[PciFunction, ...]:
        """Functions below the GPUs' ports on the root bus that a guest has or is to get."""
        tops = {self.tree.path(gpu.bdf)[0] for gpu in self.gpus if self.tree.chain(gpu.bdf)}
        below = (one for top in sorted(tops) for one in self.tree.below(top))
        held = (one for one in below if given_away(one.driver) or given_away(one.driver_override))
        return tuple(sorted(held, key=lambda one: one.bdf))


def given_away(driver: str | None) -> bool:
    """Whether a driver hands its functions to guests: vfio-pci, its variants, xen-pciback."""
    return driver is not None and ("vfio" in driver or "pciback" in driver)


def pair_subject(paths: Iterable[PairPath]) -> str:
    """Every pair by its own name, for a subject: `GPU0-GPU1, GPU0-GPU2`."""
    return ", ".join(path.name for path in paths)


def pair_names(paths: Iterable[PairPath], most: int = 6) -> str:
    """For a sentence: `every pair of GPU0-GPU3`, a few by name, else `22 pairs of GPU0-GPU7`."""
    every = list(paths)
    names = [path.name for path in every]
    folded = pairs_text(names)
    if len(names) <= most or folded != ", ".join(names):
        return folded
    gpus = {index for path in every for index in (path.pair.a, path.pair.b)}
    return f"{len(names)} pairs of {ranges(gpus, 'GPU')}"


def alike(paths: Iterable[PairPath], key: Callable[[PairPath], str]) -> dict[str, list[PairPath]]:
    """Pairs by what `key` says of them, in the order of the first of each."""
    groups: dict[str, list[PairPath]] = {}
    for path in paths:
        groups.setdefault(key(path), []).append(path)
    return groups
