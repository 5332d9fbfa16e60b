"""The look-alike is read as what it was built to be, by our parser and by the real lspci."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.facts.pci import collect_functions
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.model.pci import AcsStatus, Bdf, ConfigAccess, PortType
from nodeprep.model.tree import PciTree
from nodeprep.parse.pci_config import parse_pci_config
from tests.fabricated import NVME, SWITCH_PORT, FabricatedTree, add_switch, scale_tree
from tests.pci_bytes import CONVENTIONAL_BYTES, HEADER_BYTES, config_space


@given(
    capabilities=st.integers(0, 0x7F),
    control=st.integers(0, 0x7F),
    port_type=st.sampled_from([PortType.ROOT_PORT, PortType.DOWNSTREAM, PortType.ENDPOINT]),
    offset=st.sampled_from([None, 0x100, 0x148, 0x1B0, 0xFF8]),
    aer=st.booleans(),
)
def test_a_space_is_read_as_it_was_built(
    capabilities: int, control: int, port_type: PortType, offset: int | None, aer: bool
) -> None:
    if aer and offset == 0x100:
        offset = None
    space = config_space(
        vendor=0x1000, device=0xC010, class_code=0x060400, port_type=port_type, buses=(1, 2, 3),
        acs_cap=capabilities, acs_ctrl=control, acs_offset=offset, aer=aer,
        speed_gts=2.5, width=4, max_speed_gts=32.0, max_width=16,
    )  # fmt: skip
    found = parse_pci_config(lambda at, length: space[at : at + length])
    assert (found.vendor_id, found.device_id, found.class_code) == (0x1000, 0xC010, 0x060400)
    assert found.port_type is port_type
    assert (found.primary_bus, found.secondary_bus, found.subordinate_bus) == (1, 2, 3)
    assert found.acs is not None
    assert found.acs.offset == (offset or (0x148 if aer else 0x100))
    assert (found.acs.capabilities, found.acs.control) == (capabilities, control)
    link = found.link
    assert link is not None
    assert (link.speed_gts, link.width, link.max_speed_gts, link.max_width) == (2.5, 4, 32.0, 16)


def test_a_function_without_acs_is_known_to_have_none() -> None:
    space = config_space(**NVME, port_type=PortType.ENDPOINT)
    found = parse_pci_config(lambda at, length: space[at : at + length])
    assert found.acs_status is AcsStatus.ABSENT


@pytest.mark.parametrize(
    ("size", "access"),
    [(HEADER_BYTES, ConfigAccess.HEADER), (CONVENTIONAL_BYTES, ConfigAccess.CONVENTIONAL)],
)
def test_a_short_file_hides_acs(tmp_path: Path, size: int, access: ConfigAccess) -> None:
    tree = FabricatedTree(tmp_path / "sysfs")
    tree.add("0000:40:01.1", readable_bytes=size, port_type=PortType.ROOT_PORT, acs_cap=0x5F,
             **SWITCH_PORT)  # fmt: skip
    (port,) = collect_functions(FabricatedHost(tree.root)).values()
    assert (port.acs_status, port.config_access) == (AcsStatus.UNKNOWN, access)


def test_drivers_groups_and_places_are_links_as_in_sysfs(tmp_path: Path) -> None:
    tree = FabricatedTree(tmp_path / "sysfs")
    add_switch(tree, slots=2, group=20, driver="vfio-pci",
               files={"driver_override": "vfio-pci", "sriov_numvfs": "3"})  # fmt: skip
    functions = collect_functions(FabricatedHost(tree.root))
    card = functions[Bdf("0000:43:00.0")]
    assert (card.driver, card.driver_override) == ("vfio-pci", "vfio-pci")
    assert (card.iommu_group, card.sriov_vfs, card.numa_node) == (23, 3, 0)
    path = PciTree(functions).path(Bdf("0000:43:00.0"))
    assert path == ("0000:40:01.1", "0000:41:00.0", "0000:42:00.0", "0000:43:00.0")
    assert card.root_bus == "0000:40"


@pytest.mark.parametrize("functions", [220, 1012])
def test_scale_trees_have_the_size_they_say(tmp_path: Path, functions: int) -> None:
    if shutil.which("lspci") is None:
        pytest.skip("lspci is missing: install pciutils")
    tree = scale_tree(tmp_path / "sysfs", functions)
    listed = FabricatedHost(tree.root).run(("lspci", "-D"), deadline_s=30).stdout.splitlines()
    assert len(tree) == len(listed) == functions
    assert sum("NVIDIA" in line for line in listed) == 4
    assert len({line.split(":")[0] for line in listed}) == functions // 44
