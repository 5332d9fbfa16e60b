"""Groups: the GPUs that reach each other best, and what is known of the way between them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodeprep.errors import UsageError
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import PciFunction, PortType, parse_bdf
from nodeprep.model.serving import Interconnect
from nodeprep.model.topology import GpuPair, P2pStatus
from nodeprep.serving import placement
from nodeprep.serving.architecture import capability, generation
from tests import build


def two_switches() -> list[PciFunction]:
    """Eight GPUs, every second one under the other of two switches."""
    functions = []
    for side, buses in enumerate((0x40, 0x80)):
        place: dict[str, Any] = {"root_bus": f"0000:{buses:02x}", "numa_node": side}
        functions += [
            build.bridge(f"{buses:02x}:01.1", port_type=PortType.ROOT_PORT, **place),
            build.bridge(f"{buses + 1:02x}:00.0", parent=f"{buses:02x}:01.1",
                         port_type=PortType.UPSTREAM, **place),
        ]  # fmt: skip
        for slot in range(4):
            port, card = f"{buses + 2:02x}:{slot:02x}.0", f"{buses + 3 + slot:02x}:00.0"
            functions.append(build.bridge(port, parent=f"{buses + 1:02x}:00.0", **place))
            functions.append(build.gpu_function(card, parent=port, **place))
    return functions


def indices(group: tuple[Gpu, ...]) -> list[int]:
    return [gpu.index for gpu in group]


def test_a_group_stays_under_one_switch() -> None:
    node = build.facts(two_switches())
    group = placement.choose_group(node, 4)
    assert indices(group) == [0, 1, 2, 3]
    assert placement.interconnect(node, group) is Interconnect.SWITCH
    assert placement.numa_nodes(node, group) == (0,)
    everything = placement.choose_group(node, 8)
    assert placement.interconnect(node, everything) is Interconnect.HOST
    assert placement.numa_nodes(node, everything) == (0, 1)


def test_a_bad_pair_moves_the_group() -> None:
    node = build.facts(two_switches())
    bad = GpuPair(a=0, b=1, nvlinks=0, p2p_read=P2pStatus.NS, p2p_write=P2pStatus.NS)
    pairs = tuple(bad if (one.a, one.b) == (0, 1) else one for one in node.pairs)
    node = msgspec.structs.replace(node, pairs=pairs)
    assert indices(placement.choose_group(node, 4)) == [4, 5, 6, 7]


def test_unlike_gpus_do_not_form_a_group() -> None:
    node = build.facts(build.switch_of(4))
    gpus = (msgspec.structs.replace(node.gpus[0], name="NVIDIA L4"), *node.gpus[1:])
    node = msgspec.structs.replace(node, gpus=gpus)
    assert indices(placement.choose_group(node, 2)) == [1, 2]


def test_too_many_are_refused_and_many_are_quick() -> None:
    node = build.facts(build.switch_of(4))
    with pytest.raises(UsageError, match="4 GPUs"):
        placement.choose_group(node, 8)
    many = build.facts(build.switch_of(24))
    assert len(placement.choose_group(many, 12)) == 12


def test_what_is_not_known_is_unknown() -> None:
    node = build.facts(build.switch_of(2))
    node = msgspec.structs.replace(node, functions={})
    assert placement.interconnect(node, node.gpus) is Interconnect.UNKNOWN
    assert placement.redirecting_ports(node, node.gpus) == ()
    assert placement.p2p_granted(msgspec.structs.replace(node, pairs=()), node.gpus) is None


@pytest.mark.parametrize(
    ("name", "cc", "word"),
    [
        ("NVIDIA L40S", (8, 9), "Ada"), ("NVIDIA L4", (8, 9), "Ada"),
        ("NVIDIA RTX 6000 Ada Generation", (8, 9), "Ada"),
        ("NVIDIA GeForce RTX 4090 D", (8, 9), "Ada"), ("NVIDIA RTX A6000", (8, 6), "Ampere"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), "Ampere"), ("NVIDIA A10G", (8, 6), "Ampere"),
        ("NVIDIA H100 80GB HBM3", (9, 0), "Hopper"), ("NVIDIA GH200 480GB", (9, 0), "Hopper"),
        ("NVIDIA B200", (10, 0), "Blackwell"), ("NVIDIA GeForce RTX 5090", (12, 0), "Blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), "Blackwell"),
        ("Tesla T4", (7, 5), "Turing"), ("Quadro RTX 6000", (7, 5), "Turing"),
        ("Tesla V100-SXM2-32GB", (7, 0), "Volta"), ("Graphics Device", None, "unknown"),
    ],
)  # fmt: skip
def test_generations_by_name(name: str, cc: tuple[int, int] | None, word: str) -> None:
    gpu = Gpu(index=0, bdf=parse_bdf("01:00.0"), name=name)
    assert capability(gpu) == cc
    assert word in generation(capability(gpu))


def test_the_drivers_word_counts_before_the_name() -> None:
    gpu = Gpu(index=0, bdf=parse_bdf("01:00.0"), name="NVIDIA L40S", compute_capability=(9, 9))
    assert capability(gpu) == (9, 9)
