"""GPU and network adapter: the ports between them, when they are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import PortType
from tests.build import bridge, facts, function, switch_of


def node(**nic: object) -> NodeFacts:
    """Two GPUs and a network adapter below one switch; another adapter on its own root port."""
    place: dict[str, Any] = {"root_bus": "0000:40"}
    return facts([
        *switch_of(2),
        bridge("42:08.0", parent="41:00.0", control=0x1D, **place),
        function("50:00.0", parent="42:08.0", vendor_id=0x15B3, device_id=0x1021,
                 class_code=0x020700, **place, **nic),
        bridge("80:01.1", port_type=PortType.ROOT_PORT, control=0x1D, root_bus="0000:80"),
        function("81:00.0", parent="80:01.1", vendor_id=0x15B3, device_id=0x1021,
                 class_code=0x020000, root_bus="0000:80"),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "ports"),
    [
        ("group", ["0000:42:00.0", "0000:42:01.0"]),
        ("nic", ["0000:42:00.0", "0000:42:01.0", "0000:42:08.0"]),
        ("group,nic", ["0000:42:00.0", "0000:42:01.0", "0000:42:08.0"]),
        ("0-1, nic", ["0000:42:00.0", "0000:42:01.0", "0000:42:08.0"]),
    ],
)
def test_the_ports_below_the_common_bridge(choice: str, ports: list[str]) -> None:
    found = plan(node(), pairs=parse_pairs(choice))
    assert [write.bdf for write in found.writes] == ports
    assert not found.refusals


def test_each_port_says_whom_it_joins_and_the_other_why_not() -> None:
    found = plan(node(), pairs=parse_pairs("nic"))
    by_port = {str(write.bdf): write.pairs for write in found.writes}
    assert by_port["0000:42:08.0"] == ("GPU0-0000:50:00.0", "GPU1-0000:50:00.0")
    assert by_port["0000:42:00.0"] == ("GPU0-0000:50:00.0",)
    reasons = {str(one.bdf): one.reason for one in found.choices}
    assert "0000:80:01.1" in reasons
    assert "network" in reasons["0000:80:01.1"]


def test_an_adapter_with_virtual_functions_is_refused() -> None:
    found = plan(node(sriov_vfs=8), pairs=parse_pairs("nic"))
    assert any("8 SR-IOV virtual functions" in one.reason for one in found.refusals)


def test_a_virtual_function_is_no_adapter_to_be_joined() -> None:
    assert plan(node(is_vf=True), pairs=parse_pairs("nic")).writes == ()


def test_nic_alone_asks_for_no_pair_of_gpus() -> None:
    choice = parse_pairs("nic")
    assert (choice.nics, choice.explicit, choice.wanted(4)) == (True, False, ())
