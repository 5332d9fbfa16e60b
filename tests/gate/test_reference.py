"""Published figures against the built-in marks: good nodes pass, degraded ones do not."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from nodeprep.gate.threshold import threshold
from nodeprep.model.facts import NodeFacts
from nodeprep.settings import GatePolicy
from nodeprep.units import parse_size_bytes
from tests.gate.nodes import on_nvlink, on_root_ports, on_switch

BEFORE_2_23 = "2.22.3"
"""AMD boards went peer-to-peer at any distance: the class of the patched-driver reports."""
LINKS = {"A100": 12, "H100": 18, "H200": 18, "B200": 18, "V100": 6}


def node_of(row: dict[str, str]) -> tuple[NodeFacts, str | None] | None:
    """A node of the class a row speaks of; None when the row does not say enough."""
    name, count, kind = row["gpu"], int(row["count"]), row["link_class"]
    sockets = 2 if "two sockets" in row["topology"] else 1
    chip = next((chip for chip in LINKS if name.startswith(chip)), None)
    if chip and (kind in ("nvswitch", "nvlink_mesh") or row["topology"].startswith("NVSwitch")):
        links = 4 if kind == "nvlink_mesh" else LINKS[chip]
        full = f"NVIDIA {name}" if "SXM" in name else f"NVIDIA {name} SXM"
        return on_nvlink(count, links, full), None
    if name == "unknown":
        return (on_nvlink(2, 4, "NVIDIA RTX A6000"), None) if kind == "nvlink_bridge" else None
    if kind == "pcie4_p2p":
        return on_switch(count), None
    if kind.endswith("p2p_rootcomplex"):
        return on_root_ports(count, int(kind[4]), sockets=sockets), BEFORE_2_23
    if kind.endswith("_shm"):
        return on_root_ports(count, int(kind[4]), sockets=sockets), None
    return None


def size_of(row: dict[str, str]) -> int | None:
    return parse_size_bytes(row["size"].replace(" ", "")) if row["size"] else None


def test_published_figures(shared: Path) -> None:
    path = shared / "domain" / "nccl-reference.csv"
    judged = 0
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["expect"] not in ("pass", "fail"):
                continue
            found = node_of(row)
            if found is None:
                continue
            node, version = found
            group = tuple(gpu.index for gpu in node.gpus)
            mark = threshold(node, group, GatePolicy(), None, version, size_of(row))
            assert mark.threshold_gbps is not None, row
            assert (float(row["busbw_gbps"]) >= mark.threshold_gbps) == (row["expect"] == "pass"), (
                row
            )
            judged += 1
    assert judged >= 25


@pytest.mark.parametrize("measured", [1.35, 3.71, 5.20])
@pytest.mark.parametrize("node", [on_switch(4), on_root_ports(4), on_root_ports(8, sockets=2)])
def test_degraded_figures_fail_on_every_gen4_class(node: Any, measured: float) -> None:
    group = tuple(gpu.index for gpu in node.gpus)
    mark = threshold(node, group, GatePolicy(), None, None)
    assert mark.threshold_gbps is not None
    assert measured < mark.threshold_gbps
