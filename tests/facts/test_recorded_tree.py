"""The tree of a recorded node gives the levels that its driver printed."""

from __future__ import annotations

from pathlib import Path

from nodeprep.facts.gpus import accelerators
from nodeprep.facts.pci import functions_from_lspci
from nodeprep.model.topology import PathLevel, level_label
from nodeprep.model.tree import PciTree
from nodeprep.parse.lspci import parse_lspci
from nodeprep.parse.topo import parse_topo
from nodeprep.settings import Accelerators

LSPCI = "corpus/pcie/lspci_acs/a01_full_asus_8x_pro6000_pex890.lspci-vvv.txt"
MATRIX = "corpus/pcie/topo_m/t51_8gpu_pex890_pix_node_sys_real_esc.txt"


def test_all_64_levels_of_a_recorded_node(shared: Path) -> None:
    functions = functions_from_lspci(parse_lspci((shared / LSPCI).read_text()).functions)
    gpus = accelerators(functions, Accelerators())
    (matrix,) = parse_topo((shared / MATRIX).read_text())
    tree = PciTree(functions)
    computed = {
        f"GPU{a}": {
            f"GPU{b}": level_label(tree.level(first, second)) for b, second in enumerate(gpus)
        }
        for a, first in enumerate(gpus)
    }
    printed = {
        row: {gpu: cells[gpu] for gpu in matrix.cells} for row, cells in matrix.cells.items()
    }
    assert len(gpus) == 8
    assert computed == printed


def test_only_the_nvswitch_ports_of_a_healthy_sxm_node_redirect(shared: Path) -> None:
    text = (
        shared / "corpus/pcie/lspci_acs/a17_full_dell_8x_h100_sxm_pex890.lspci-vvv.txt"
    ).read_text()
    functions = functions_from_lspci(parse_lspci(text).functions)
    tree = PciTree(functions)
    gpus = accelerators(functions, Accelerators())
    redirecting = {one.bdf for one in functions.values() if one.acs and one.acs.redirects}
    assert len(gpus) == 8
    assert redirecting
    assert not redirecting & {bridge.bdf for gpu in gpus for bridge in tree.chain(gpu)}
    assert {tree.level(gpus[0], other) for other in gpus[1:]} <= {PathLevel.NODE, PathLevel.SYS}
