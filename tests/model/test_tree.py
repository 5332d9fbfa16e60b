"""The tree: chains, common bridges, levels."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.pci import Bdf, PciFunction, PortType
from nodeprep.model.topology import PathLevel
from nodeprep.model.tree import PciTree
from tests.build import bridge, gpu_function, switch_of


def tree_of(functions: list[PciFunction]) -> PciTree:
    return PciTree({one.bdf: one for one in functions})


def test_one_switch_is_pix() -> None:
    tree = tree_of(switch_of(2))
    a, b = Bdf("0000:43:00.0"), Bdf("0000:44:00.0")
    route = tree.route(a, b)
    assert route.common is not None
    assert route.common.bdf == "0000:41:00.0"
    assert [port.bdf for port in route.ports] == ["0000:42:00.0", "0000:42:01.0"]
    assert tree.level(a, b) is PathLevel.PIX
    assert tree.level(a, a) is PathLevel.SELF


def two_level() -> list[PciFunction]:
    place: dict[str, Any] = {"root_bus": "0000:40"}
    return [
        bridge("40:01.1", port_type=PortType.ROOT_PORT, **place),
        bridge("41:00.0", parent="40:01.1", port_type=PortType.UPSTREAM, **place),
        *[
            one
            for slot in (0, 1)
            for one in (
                bridge(f"42:0{slot}.0", parent="41:00.0", **place),
                bridge(f"{50 + slot}:00.0", parent=f"42:0{slot}.0",
                       port_type=PortType.UPSTREAM, **place),
                bridge(f"{60 + slot}:00.0", parent=f"{50 + slot}:00.0", **place),
                gpu_function(f"{70 + slot}:00.0", parent=f"{60 + slot}:00.0", **place),
            )
        ],
    ]  # fmt: skip


def test_two_switches_deep_is_pxb() -> None:
    assert tree_of(two_level()).level(Bdf("0000:70:00.0"), Bdf("0000:71:00.0")) is PathLevel.PXB


def direct(root_a: str, root_b: str, numa_a: int | None, numa_b: int | None) -> PathLevel | None:
    tree = tree_of(
        [
            bridge("10:01.0", port_type=PortType.ROOT_PORT, root_bus=root_a, numa_node=numa_a),
            gpu_function("11:00.0", parent="10:01.0", root_bus=root_a, numa_node=numa_a),
            bridge("20:01.0", port_type=PortType.ROOT_PORT, root_bus=root_b, numa_node=numa_b),
            gpu_function("21:00.0", parent="20:01.0", root_bus=root_b, numa_node=numa_b),
        ]
    )
    return tree.level(Bdf("0000:11:00.0"), Bdf("0000:21:00.0"))


def test_levels_without_a_common_bridge() -> None:
    assert direct("0000:10", "0000:10", 0, 0) is PathLevel.PHB
    assert direct("0000:10", "0000:20", 0, 0) is PathLevel.NODE
    assert direct("0000:10", "0000:20", 0, 1) is PathLevel.SYS
    assert direct("0000:10", "0000:20", None, 1) is None


def test_a_loop_in_the_data_ends() -> None:
    tree = tree_of([bridge("01:00.0", parent="02:00.0"), bridge("02:00.0", parent="01:00.0")])
    assert [one.bdf for one in tree.chain(Bdf("0000:01:00.0"))] == ["0000:02:00.0"]
    assert [one.bdf for one in tree.below(Bdf("0000:01:00.0"))] == ["0000:02:00.0"]


@given(st.lists(st.integers(0, 6), min_size=2, max_size=12))
def test_the_way_is_symmetric(parents: list[int]) -> None:
    """A random forest: the common bridge and the level do not depend on the direction."""
    functions = [
        bridge(f"{number:02x}:00.0", parent=f"{parent:02x}:00.0" if parent < number else None,
               root_bus="0000:00")
        for number, parent in enumerate(parents)
    ]  # fmt: skip
    tree = tree_of(functions)
    a, b = functions[0].bdf, functions[-1].bdf
    there, back = tree.route(a, b), tree.route(b, a)
    assert there.common == back.common
    assert there.below_a == back.below_b
    assert tree.level(a, b) is tree.level(b, a)
