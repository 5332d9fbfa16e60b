"""The PCI tree of one node, and the way between two functions in it; geometry only, no verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.model.base import Record
from nodeprep.model.pci import Bdf, PciFunction
from nodeprep.model.topology import PathLevel


class Route(Record, frozen=True):
    """The way from function `a` to function `b`."""

    a: PciFunction
    b: PciFunction
    below_a: tuple[PciFunction, ...]
    """Bridges above `a` and below the turning point, nearest to `a` first."""
    below_b: tuple[PciFunction, ...]
    common: PciFunction | None
    """The lowest bridge above both; None: they meet in the root complex."""

    @property
    def ports(self) -> tuple[PciFunction, ...]:
        """Every bridge below the turning point, on both sides: where redirection is decided."""
        return self.below_a + self.below_b

    @property
    def directly_attached(self) -> bool:
        """No switch joins the two: they meet in the root complex."""
        return self.common is None

    @property
    def redirecting(self) -> tuple[PciFunction, ...]:
        """Ports whose control word sends peer traffic upwards."""
        return tuple(port for port in self.ports if port.acs is not None and port.acs.redirects)


class PciTree:
    """All functions of a node, by address and by place."""

    def __init__(self, functions: Mapping[Bdf, PciFunction]) -> None:
        self.functions = functions
        self._children: dict[Bdf, list[PciFunction]] = {}
        for function in functions.values():
            if function.parent is not None:
                self._children.setdefault(function.parent, []).append(function)

    def chain(self, bdf: Bdf) -> tuple[PciFunction, ...]:
        """The bridges above a function, nearest first, up to the port on the root bus."""
        bridges: list[PciFunction] = []
        seen = {bdf}
        here = self.functions.get(bdf)
        while here is not None and here.parent is not None and here.parent not in seen:
            seen.add(here.parent)
            here = self.functions.get(here.parent)
            if here is not None:
                bridges.append(here)
        return tuple(bridges)

    def broken(self, bdf: Bdf) -> bool:
        """Whether the way up from a function cannot be told for sure.

        A function that is not listed, a parent that is not listed or is no bridge, a circle, or no
        known root bus at the top.  What hangs on such a way is unknown, never free.
        """
        here = self.functions.get(bdf)
        seen: set[Bdf] = set()
        while here is not None and here.parent is not None and here.bdf not in seen:
            seen.add(here.bdf)
            here = self.functions.get(here.parent)
            if here is not None and not here.is_bridge:
                return True
        return here is None or here.bdf in seen or here.root_bus is None

    def path(self, bdf: Bdf) -> tuple[Bdf, ...]:
        """The addresses from the root bus down to the function, itself included."""
        return (*(bridge.bdf for bridge in reversed(self.chain(bdf))), bdf)

    def below(self, bdf: Bdf) -> Iterator[PciFunction]:
        """Every function below a bridge, at any depth."""
        pending = list(self._children.get(bdf, ()))
        seen = {bdf}
        while pending:
            function = pending.pop()
            if function.bdf in seen:
                continue
            seen.add(function.bdf)
            yield function
            pending.extend(self._children.get(function.bdf, ()))

    def route(self, a: Bdf, b: Bdf) -> Route:
        """The way between two functions; symmetric but for the names of the sides."""
        chain_a, chain_b = self.chain(a), self.chain(b)
        above_b = {bridge.bdf for bridge in chain_b}
        common = next((bridge for bridge in chain_a if bridge.bdf in above_b), None)
        return Route(
            a=self.functions[a],
            b=self.functions[b],
            below_a=_until(chain_a, common),
            below_b=_until(chain_b, common),
            common=common,
        )

    def level(self, a: Bdf, b: Bdf) -> PathLevel | None:
        """The level `nvidia-smi topo -m` gives a pair that has no NVLink; None: not decidable.

        NVML asks hwloc for the common ancestor, which knows bridges and NUMA nodes and nothing of
        ACS.  PIX: at most one port below the common bridge on each side.  PXB: more.  PHB: only
        the root bus is common.  NODE and SYS: equal and different NUMA nodes.
        """
        if a == b:
            return PathLevel.SELF
        if self.broken(a) or self.broken(b):
            return None
        route = self.route(a, b)
        if route.common is not None:
            near = len(route.below_a) <= 1 and len(route.below_b) <= 1
            return PathLevel.PIX if near else PathLevel.PXB
        if route.a.root_bus is not None and route.a.root_bus == route.b.root_bus:
            return PathLevel.PHB
        if route.a.numa_node is None or route.b.numa_node is None:
            return None
        return PathLevel.NODE if route.a.numa_node == route.b.numa_node else PathLevel.SYS


def _until(chain: tuple[PciFunction, ...], end: PciFunction | None) -> tuple[PciFunction, ...]:
    """The part of a chain before `end`."""
    if end is None:
        return chain
    return chain[: [bridge.bdf for bridge in chain].index(end.bdf)]
