"""The simulator prints what the genuine program prints, and its model follows the topology."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import PciFunction
from nodeprep.model.tree import PciTree
from tests.build import bridge, facts, gpu_function, switch_of
from tests.gate.nodes import on_root_ports, on_switch
from tests.simulator.nccl import (
    SIMULATED_LINE,
    footer_lines,
    head_lines,
    header_lines,
    model_busbw_gbps,
    rank_line,
    row_line,
    simulate_all_reduce,
)

MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "nccl"), [("2.13.10", "2.32.3"), ("2.17.9", "2.32.3"), ("2.19.6", "2.32.3")]
)
def test_format_is_that_of_the_genuine_program(name: str, nccl: str, shared: Path) -> None:
    """Line by line; pid, host and times are taken from the recording."""
    genuine = (shared / "corpus/nccl-formats" / f"v{name}_ok_g4.stdout").read_text()
    pid = int(re.findall(r"Pid +(\d+)", genuine)[0])
    rows = [line.split() for line in genuine.splitlines() if " float " in line]
    sizes = [int(row[0]) for row in rows]
    average = float(re.findall(r"Avg bus bandwidth +: (\S+)", genuine)[0])
    lines = [
        *head_lines(name, sizes, 4, 1, nccl),
        *(
            rank_line(name, rank, pid, "node-a", rank, f"0000:{rank + 1}6:00.0", "NVIDIA L40S")
            for rank in range(4)
        ),
        *header_lines(name),
        *(row_line(name, int(row[0]), float(row[5]), float(row[9]), 4, 0) for row in rows),
        *footer_lines(name, average, 0),
    ]
    # The recordings ran one warm-up since 2.18 made that the default; a host is padded to ten.
    same_options = re.sub(r"warmup iters: \d+", "warmup iters: 5", genuine)
    theirs = re.sub(r"on +node-a", f"on {'node-a':>10s}", same_options).splitlines()
    assert len(theirs) == len(lines)
    for ours, wanted in zip(lines, theirs, strict=True):
        assert same(ours, wanted), (ours, wanted)


def same(ours: str, wanted: str) -> bool:
    """Equal, but for the last place of figures that follow from rounded ones."""
    if " float " not in wanted:
        return ours == wanted
    if len(ours) != len(wanted) or re.sub(r"\d", "0", ours) != re.sub(r"\d", "0", wanted):
        return False
    pairs = zip(ours.split(), wanted.split(), strict=True)
    return all(a == b or abs(float(a) - float(b)) < 0.0101 for a, b in pairs)


def test_first_line_says_that_nothing_was_measured() -> None:
    text = simulate_all_reduce("2.19.6", [(0, "0000:01:00.0")], ["X"], 1.0)
    assert text.startswith(SIMULATED_LINE + "\n")


@pytest.mark.parametrize(("count", "share"), [(2, 12.0), (4, 6.0), (8, 3.0)])
def test_redirection_makes_all_flows_share_the_uplink(count: int, share: float) -> None:
    redirected, clear = switch_of(count, control=0x1D), switch_of(count, control=0x11)
    assert model(redirected) == share
    assert model(clear) == 24.0


def test_one_redirecting_port_on_the_ring_sends_its_flows_up() -> None:
    functions = [
        bridge("42:00.0", parent="41:00.0", control=0x1D) if one.bdf == "0000:42:00.0" else one
        for one in switch_of(4, control=0x11)
    ]
    assert model(functions) == 12.0


def test_width_and_generation_count() -> None:
    assert model(on_switch(4, 3).functions.values(), clear=True) == 12.0
    assert model(on_switch(4, 4, 8).functions.values(), clear=True) == 12.0
    assert model(on_switch(4, 5).functions.values(), clear=True) == 48.0


def test_boards_without_switches() -> None:
    one = on_root_ports(4)
    two = on_root_ports(8, sockets=2)
    assert ring(one) == 24.0
    assert ring(two) == 16.0
    assert 14 <= ring(one, "SHM") <= 18
    assert 9 <= ring(two, "SHM") <= 16


def test_nvlink_and_unknown_links() -> None:
    node = on_switch(4)
    bdfs = [gpu.bdf for gpu in node.gpus]
    tree = PciTree(node.functions)
    assert model_busbw_gbps(tree, bdfs, nvlink_gbps=370.0) == 370.0
    blind = facts([gpu_function("01:00.0", link=None), gpu_function("02:00.0", link=None)])
    with pytest.raises(ValueError, match="does not know"):
        model_busbw_gbps(PciTree(blind.functions), [gpu.bdf for gpu in blind.gpus])


def test_bandwidth_rises_with_size_to_the_figure_asked_for() -> None:
    text = simulate_all_reduce(
        "2.19.6", [(0, "0000:01:00.0"), (1, "0000:02:00.0")], ["X", "X"], 24.0,
        sizes=[MIB << step for step in range(10)],
    )  # fmt: skip
    figures = [float(line.split()[7]) for line in text.splitlines() if " float " in line]
    assert figures == sorted(figures)
    assert figures[-1] == 24.0
    assert figures[0] < 14


def model(functions: Iterable[PciFunction], *, clear: bool = False) -> float:
    """Peer-to-peer over all GPUs among these functions; `clear`: without any ACS capability."""
    node = facts([replace(one, acs=None) if clear else one for one in functions])
    return ring(node)


def ring(node: NodeFacts, transport: str = "P2P") -> float:
    bdfs = [gpu.bdf for gpu in node.gpus]
    return model_busbw_gbps(PciTree(node.functions), bdfs, transport=transport)
