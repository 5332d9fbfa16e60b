"""Rates and words of single links."""

from __future__ import annotations

import pytest

from nodeprep.gate.links import Hop, hops_below, slowest
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import LinkStatus, parse_bdf
from nodeprep.model.tree import PciTree
from tests.build import facts, gpu_function, switch_of


@pytest.mark.parametrize(
    ("speed", "width", "gbps"),
    [(2.5, 16, 3), (5.0, 16, 6), (8.0, 16, 12), (16.0, 16, 24), (32.0, 16, 48), (64.0, 16, 96),
     (16.0, 8, 12), (8.0, 4, 3), (16.0, 1, 1.5)],
)  # fmt: skip
def test_rates_are_those_nccl_plans_with(speed: float, width: int, gbps: float) -> None:
    hop = Hop(above=None, below=parse_bdf("01:00.0"), speed_gts=speed, width=width)
    assert hop.gbps == gbps
    assert hop.full_gbps == gbps * 16 / width


def test_the_way_through_a_switch_is_no_link() -> None:
    node = facts(switch_of(2))
    tree = PciTree(node.functions)
    turn = parse_bdf("41:00.0")
    (below,) = hops_below(tree, node.gpus[0], turn)
    assert below is not None
    assert (below.above, below.below) == ("0000:42:00.0", "0000:43:00.0")
    to_root = hops_below(tree, node.gpus[0], None)
    assert [hop and hop.above for hop in to_root] == ["0000:42:00.0", "0000:40:01.1"]
    assert "Gen4 x16: 24 GB/s" in str(below)


def test_slowest_is_the_first_of_equals() -> None:
    hops = [
        Hop(above=None, below=parse_bdf(f"0{bus}:00.0"), speed_gts=16.0, width=width)
        for bus, width in ((1, 16), (2, 8), (3, 8))
    ]
    assert slowest(hops).below == "0000:02:00.0"


def test_unknown_functions_and_figures_stay_unknown() -> None:
    lonely = facts([gpu_function("05:00.0", link=LinkStatus(speed_gts=3.0, width=16))])
    tree = PciTree(lonely.functions)
    assert hops_below(tree, lonely.gpus[0], None) == (None,)
    assert hops_below(tree, Gpu(index=0, bdf=parse_bdf("77:00.0")), None) == (None,)
    alone = facts([gpu_function("05:00.0")])
    (hop,) = hops_below(PciTree(alone.functions), alone.gpus[0], None)
    assert hop is not None
    assert "root bus" in str(hop)
