"""Class, mark and limiting hop of a group."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodeprep.gate.table import TABLE, row_for
from nodeprep.gate.threshold import threshold
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import Threshold
from nodeprep.model.topology import P2pStatus, PathLevel
from nodeprep.settings import GatePolicy
from tests.build import facts, gpu_function, switch_of
from tests.gate.nodes import on_nvlink, on_root_ports, on_switch, platform, with_link


def mark(node: NodeFacts, version: str | None = None, **options: Any) -> Threshold:
    group = tuple(gpu.index for gpu in node.gpus)
    return threshold(
        node, group, options.get("policy", GatePolicy()), options.get("min_busbw"), version,
        options.get("size_bytes"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("generation", "expected", "passing"), [(3, 12.0, 8.5), (4, 24.0, 22.0), (5, 48.0, 40.0)]
)
@pytest.mark.parametrize("count", [2, 4, 8])
def test_one_switch_tree(count: int, generation: int, expected: float, passing: float) -> None:
    found = mark(on_switch(count, generation))
    assert found.link_class == f"pcie{generation}-switch-p2p"
    assert found.source == f"table: pcie{generation}-switch-p2p"
    assert (found.expected_gbps, found.threshold_gbps) == (expected, passing)
    assert found.expected_transport == "P2P"
    assert found.limiting_hop is not None
    assert f"Gen{generation} x16" in found.limiting_hop


def test_the_mark_of_the_recipe_is_called_unverified() -> None:
    found = mark(on_switch(4))
    assert found.threshold_gbps == 22.0
    assert not found.verified
    assert any("not verified" in line for line in found.reasoning)


def test_order_of_the_sources() -> None:
    node = on_switch(4)
    policy = GatePolicy(min_busbw_gbps=20.0)
    assert (mark(node).threshold_gbps, mark(node).source[:5]) == (22.0, "table")
    from_config = mark(node, policy=policy)
    assert (from_config.threshold_gbps, from_config.source) == (20.0, "config")
    by_hand = mark(node, policy=policy, min_busbw=5.0)
    assert (by_hand.threshold_gbps, by_hand.source) == (5.0, "--min-busbw")
    assert by_hand.expected_gbps == 24.0
    assert by_hand.link_class == "pcie4-switch-p2p"


def test_idle_gpus_are_rated_by_what_their_links_can_do() -> None:
    assert mark(on_switch(4, idle=True)).threshold_gbps == 22.0


def test_speed_of_a_busy_gpu_is_as_negotiated() -> None:
    found = mark(on_switch(4, idle=True, gpu_fields={"performance_state": 0}))
    assert found.link_class == "pcie1-switch-p2p"
    assert found.threshold_gbps is None


@pytest.mark.parametrize(("width", "expected"), [(8, 12.0), (4, 6.0), (1, 1.5)])
def test_lost_lanes_scale_the_mark_and_are_told(width: int, expected: float) -> None:
    found = mark(on_switch(4, width=width))
    assert found.expected_gbps == expected
    assert found.threshold_gbps == pytest.approx(expected * 22 / 24, abs=0.006)
    assert found.limiting_hop is not None
    assert f"x{width}" in found.limiting_hop
    assert any("degraded" in line for line in found.reasoning)


def test_one_narrow_link_limits_the_whole_ring() -> None:
    node = on_switch(4)
    slow = node.functions[node.gpus[2].bdf]
    assert slow.link is not None
    narrow = with_link(slow, type(slow.link)(speed_gts=2.5, width=8, max_speed_gts=16.0))
    found = mark(facts([*(one for one in node.functions.values() if one is not slow), narrow]))
    assert found.expected_gbps == 12.0
    assert found.limiting_hop is not None
    assert str(slow.bdf) in found.limiting_hop


def test_unknown_link_is_no_class() -> None:
    node = on_switch(4)
    blind = [with_link(one, None) for one in node.functions.values()]
    found = mark(facts(blind))
    assert (found.threshold_gbps, found.source, found.link_class) == (None, "none", None)
    assert found.expected_transport is None


@pytest.mark.parametrize(
    ("node", "version", "link_class"),
    [
        (on_root_ports(4), None, "pcie4-root-shm"),
        (on_root_ports(4), "2.27.7", "pcie4-root-shm"),
        (on_root_ports(4), "2.22.3", "pcie4-root-p2p"),
        (on_root_ports(2), None, "pcie4-root-p2p"),
        (on_root_ports(2, platform=platform(vendor="GenuineIntel")), None, "pcie4-root-shm"),
        (on_root_ports(4, platform=platform(vendor="GenuineIntel")), "2.20.5", "pcie4-root-shm"),
        (on_root_ports(8, sockets=2), None, "pcie4-sockets-shm"),
        (on_root_ports(8, sockets=2), "2.20.5", "pcie4-sockets-p2p"),
        (on_root_ports(8, sockets=2, p2p=P2pStatus.CNS), "2.20.5", "pcie4-sockets-shm"),
        (on_root_ports(4, 5), None, "pcie5-root-shm"),
        (on_root_ports(8, 5, sockets=2), None, "pcie5-sockets-shm"),
        (on_root_ports(2, 3, p2p=P2pStatus.GNS), None, "pcie3-root-shm"),
        (on_root_ports(2, p2p=P2pStatus.GNS), None, "pcie4-root-shm"),
    ],
)
def test_way_follows_the_policy_of_nccl(
    node: NodeFacts, version: str | None, link_class: str
) -> None:
    found = mark(node, version)
    assert found.link_class == link_class
    assert found.threshold_gbps is not None
    if link_class.endswith("p2p"):
        assert found.expected_transport == "P2P"
    else:
        assert found.expected_transport != "P2P"


def test_numa_nodes_of_one_socket_are_no_sockets() -> None:
    node = on_root_ports(4, sockets=2, platform=platform(sockets=1))
    assert mark(node).link_class == "pcie4-root-shm"
    unknown = on_root_ports(4, sockets=2, platform=platform(sockets=None))
    assert mark(unknown).link_class == "pcie4-sockets-shm"


def test_shared_uplink_limits_host_memory_traffic() -> None:
    found = mark(on_switch(4, p2p=P2pStatus.GNS))
    assert found.link_class == "pcie4-root-shm"
    assert (found.expected_gbps, found.threshold_gbps) == (4.0, 3.0)
    assert found.expected_transport == "SHM"
    assert any("share an uplink" in line for line in found.reasoning)
    assert not found.verified


def test_two_switches_are_a_mixed_ring() -> None:
    """Peer-to-peer below each switch, host memory between them: one flow each way."""
    left = switch_of(2, numa_node=0)
    right = [
        moved
        for one in switch_of(2, numa_node=1)
        for moved in [_moved(one)]
    ]  # fmt: skip
    found = mark(facts([*left, *right]))
    assert found.link_class == "pcie4-sockets-shm"
    assert found.expected_transport is None
    assert found.expected_gbps == 13.0


def _moved(function: Any) -> Any:
    def domain(bdf: str | None) -> str | None:
        return None if bdf is None else "0001" + bdf[4:]

    return replace(
        function, bdf=domain(function.bdf), parent=domain(function.parent), root_bus="0001:40"
    )


@pytest.mark.parametrize(
    ("count", "links", "name", "link_class"),
    [
        (8, 12, "NVIDIA A100-SXM4-80GB", "nvlink-a100"),
        (4, 4, "NVIDIA A100-SXM4-80GB", "nvlink-a100"),
        (2, 12, "NVIDIA A100 80GB PCIe", "nvlink-bridge-a100"),
        (8, 18, "NVIDIA H100 80GB HBM3", "nvlink-hopper"),
        (4, 18, "NVIDIA H200", "nvlink-hopper"),
        (8, 18, "NVIDIA B200", "nvlink-blackwell"),
        (2, 4, "NVIDIA RTX A6000", "nvlink-bridge-ga10x"),
        (2, 4, "NVIDIA GeForce RTX 3090", "nvlink-bridge-ga10x"),
        (12, 6, "Tesla V100-SXM3-32GB", "nvlink-volta"),
    ],
)
def test_nvlink_classes(count: int, links: int, name: str, link_class: str) -> None:
    found = mark(on_nvlink(count, links, name))
    assert found.link_class == link_class
    assert found.threshold_gbps is not None
    assert found.expected_transport == "P2P"


@pytest.mark.parametrize(
    ("count", "links", "name"),
    [
        (2, 12, "NVIDIA H100 PCIe"),
        (2, 12, "NVIDIA H100 NVL"),
        (8, 17, "NVIDIA H100 80GB HBM3"),
        (4, 2, "Tesla V100-SXM2-16GB"),
        (8, 18, "NVIDIA X999"),
        (2, 2, "NVIDIA GeForce RTX 2080 Ti"),
    ],
)
def test_nvlink_without_a_known_figure(count: int, links: int, name: str) -> None:
    found = mark(on_nvlink(count, links, name))
    assert (found.threshold_gbps, found.source) == (None, "none")
    assert any("--min-busbw" in line for line in found.reasoning)


def test_capability_counts_more_than_the_name() -> None:
    found = mark(on_nvlink(8, 18, "NVIDIA Graphics Device", compute_capability=(9, 0)))
    assert found.link_class == "nvlink-hopper"


def test_a_bridge_among_more_gpus_leaves_the_ring_on_pcie() -> None:
    node = on_root_ports(4, nvlinks=0)
    pairs = tuple(
        type(pair)(a=pair.a, b=pair.b, nvlinks=4 if (pair.a, pair.b) == (0, 1) else 0,
                   p2p_read=P2pStatus.OK, p2p_write=P2pStatus.OK)
        for pair in node.pairs
    )  # fmt: skip
    found = mark(replace(node, pairs=pairs))
    assert found.link_class == "pcie4-root-shm"
    assert found.expected_transport is None
    assert any("1 of 6 pairs" in line for line in found.reasoning)


def test_a_guest_gets_no_bare_metal_figure() -> None:
    guest = platform(virtualization="kvm")
    assert mark(on_switch(4, platform=guest)).threshold_gbps is None
    assert mark(on_root_ports(2, 3, platform=guest)).link_class == "pcie3-root-shm"
    flat = facts([gpu_function("00:05.0"), gpu_function("00:06.0")], platform=guest)
    assert mark(flat).threshold_gbps is None
    nvlink = on_root_ports(
        8, 5, platform=guest, nvlinks=18, gpu_fields={"name": "NVIDIA H100 80GB HBM3"}
    )
    assert mark(nvlink).link_class == "nvlink-hopper"


def test_level_of_the_driver_stands_in_for_an_unknown_numa_node() -> None:
    node = on_root_ports(2, driver_level=PathLevel.SYS, platform=platform(sockets=2))
    blind = {bdf: replace(one, numa_node=None) for bdf, one in node.functions.items()}
    assert mark(replace(node, functions=blind)).link_class == "pcie4-sockets-p2p"
    nobody = on_root_ports(2, platform=platform(sockets=2))
    blind = {bdf: replace(one, numa_node=None) for bdf, one in nobody.functions.items()}
    assert mark(replace(nobody, functions=blind)).threshold_gbps is None


@pytest.mark.parametrize("group", [(), (0,), (0, 9), (0, 0)])
def test_groups_without_a_pair_have_no_mark(group: tuple[int, ...]) -> None:
    found = threshold(on_switch(4), group, GatePolicy(), None, None)
    assert (found.threshold_gbps, found.link_class) == (None, None)


BEFORE_2_23 = "2.22.3"
MIB, GIB = 1 << 20, 1 << 30
A100, H100, H20 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H20"


@pytest.mark.parametrize(
    ("node", "version", "size_bytes", "measured", "warned"),
    [
        (on_nvlink(8, 18, H20), None, 512 * MIB, 351.7, True),
        (on_nvlink(8, 18, H20), None, 2 * GIB, 361.2, True),
        (on_nvlink(8, 18, H100), None, 512 * MIB, 431.2, False),
        (on_nvlink(8, 18, H100), None, 2 * GIB, 443.9, False),
        (on_nvlink(8, 18, H100), None, 4 * GIB, 475.0, False),
        (on_nvlink(5, 18, "NVIDIA H200"), None, 8 * GIB, 414.2, False),
        (on_nvlink(2, 18, H100), None, 512 * MIB, 348.0, False),
        (on_nvlink(2, 18, H100), None, 128 * MIB, 323.3, False),
        (on_nvlink(2, 12, A100), None, 512 * MIB, 192.3, False),
        (on_nvlink(2, 12, A100), None, 128 * MIB, 160.1, False),
        (on_nvlink(4, 12, A100), None, 512 * MIB, 205.5, False),
        (on_nvlink(4, 4, A100), None, 128 * MIB, 209.2, False),
        (on_nvlink(8, 12, A100), None, 512 * MIB, 221.6, False),
        (on_nvlink(8, 18, "NVIDIA B200"), None, 8 * GIB, 838.0, False),
        (on_nvlink(8, 18, "NVIDIA B200"), None, 8 * GIB, 682.2, True),
        (on_switch(4, 3), None, 128 * MIB, 9.4, False),
        (on_switch(4, 3), None, 128 * MIB, 11.2, False),
        (on_root_ports(6), BEFORE_2_23, 32 * MIB, 24.5, False),
        (on_root_ports(8, 5, sockets=2), BEFORE_2_23, 128 * MIB, 44.0, False),
        (on_root_ports(8, 5, sockets=2), None, 8 * GIB, 28.0, False),
    ],
)
def test_public_figures_of_healthy_nodes_pass(
    node: NodeFacts, version: str | None, size_bytes: int, measured: float, warned: bool
) -> None:
    """GB/s, mean of both halves; a warning only where NVLink SHARP is off."""
    found = mark(node, version, size_bytes=size_bytes)
    assert found.threshold_gbps is not None
    assert found.warn_below_gbps is not None
    assert measured >= found.threshold_gbps
    assert (measured < found.warn_below_gbps) == warned


@pytest.mark.parametrize(
    ("node", "version", "size_bytes", "measured"),
    [
        (on_nvlink(8, 18, H100), None, 512 * MIB, 300.0),
        (on_nvlink(8, 18, H100), None, 8 * GIB, 352.0),
        (on_nvlink(8, 12, A100), None, 8 * GIB, 180.0),
        (on_nvlink(2, 12, A100), None, 512 * MIB, 110.0),
        (on_nvlink(8, 18, "NVIDIA B200"), None, 8 * GIB, 590.0),
        (on_switch(4, 3), None, 512 * MIB, 6.9),
        (on_root_ports(8, 5, sockets=2), BEFORE_2_23, 512 * MIB, 28.0),
        (on_root_ports(8, 5, sockets=2), None, 512 * MIB, 10.0),
    ],
)
def test_what_is_far_below_fails(
    node: NodeFacts, version: str | None, size_bytes: int, measured: float
) -> None:
    """Half the links, host memory in the place of peer-to-peer, a generation less."""
    found = mark(node, version, size_bytes=size_bytes)
    assert found.threshold_gbps is not None
    assert measured < found.threshold_gbps


def test_the_mark_follows_the_size_over_nvlink_only() -> None:
    node = on_nvlink(8, 18, H100)
    marks = [
        mark(node, size_bytes=size).threshold_gbps
        for size in (128 * MIB, 512 * MIB, 2 * GIB, 4 * GIB, 8 * GIB)
    ]
    assert marks == [268.0, 335.0, 335.0, 360.0, 360.0]
    assert mark(node).threshold_gbps == 335.0
    assert any("at 8 GiB" in line for line in mark(node, size_bytes=8 * GIB).reasoning)
    assert mark(on_switch(4), size_bytes=32 * MIB).threshold_gbps == 22.0
    assert mark(on_switch(4), size_bytes=8 * GIB).threshold_gbps == 22.0


def test_rows_are_in_order_and_do_not_overlap() -> None:
    for row in TABLE:
        for figures in (row.figures, row.large or row.figures):
            assert figures.pass_gbps <= figures.warn_below_gbps <= figures.expected_gbps + 0.6
        assert row.large is None or row.large.pass_gbps >= row.figures.pass_gbps
        assert row.evidence
        for gpus in range(row.gpus_min, row.gpus_max + 1):
            assert row_for(row.link_class, gpus) is row
