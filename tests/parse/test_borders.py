"""Where one value ends and another begins: limits, words of a table, the last of a list."""

from __future__ import annotations

import pytest

from nodeprep.errors import ParseError
from nodeprep.model.pci import PortType
from nodeprep.model.topology import LevelMatrix
from nodeprep.parse.cmdline import parse_cmdline
from nodeprep.parse.lspci import parse_lspci
from nodeprep.parse.lspci_tree import parse_lspci_tree
from nodeprep.parse.matrix_header import MAX_DEVICES
from nodeprep.parse.nvidia_smi_table import parse_nvidia_smi_table
from nodeprep.parse.pci_config import parse_pci_config
from nodeprep.parse.setpci import MAX_RECORDS, parse_setpci
from nodeprep.parse.text import MAX_LINES, MAX_TEXT_BYTES, clean_text, decode
from nodeprep.parse.topo import parse_topo
from tests.parse.matrices import topo
from tests.parse.test_nvidia_smi_table import WHOLE
from tests.pci_bytes import config_space

# Documentation/admin-guide/kernel-parameters.txt, pci=
DOCUMENTED = (
    "earlydump", "off", "bios", "nobios", "conf1", "conf2", "noaer", "nodomains", "nommconf",
    "check_enable_amd_mmconf", "nomsi", "noioapicquirk", "ioapicreroute", "noioapicreroute",
    "biosirq", "rom", "norom", "nobar", "irqmask=0x1", "pirqaddr=0xf0000", "lastbus=255",
    "assign-busses", "usepirqmask", "noacpi", "use_crs", "nocrs", "use_e820", "no_e820", "routeirq",
    "skip_isa_align", "noearly", "bfsort", "nobfsort", "cbiosize=256", "cbmemsize=64M",
    "resource_alignment=20@0000:40:00.0", "ecrc=on", "hpiosize=256", "hpmmiosize=2M",
    "hpmmioprefsize=2M", "hpmemsize=2M", "hpbussize=1", "realloc=on", "realloc", "noari", "noats",
    "pcie_bus_tune_off", "pcie_bus_safe", "pcie_bus_perf", "pcie_bus_peer2peer", "pcie_scan_all",
    "big_root_window", "disable_acs_redir=40:01.1", "config_acs=101@40:01.1",
)  # fmt: skip


@pytest.mark.parametrize("option", DOCUMENTED)
def test_every_documented_pci_option_is_known(option: str) -> None:
    assert parse_cmdline(f"ro pci={option} quiet").unknown_pci_options == ()
    assert parse_cmdline(f"ro pci=X{option} quiet").unknown_pci_options == (f"X{option}",)


def test_as_much_as_is_let_in_is_let_in() -> None:
    assert len(decode(b"a" * MAX_TEXT_BYTES)) == MAX_TEXT_BYTES
    assert clean_text("\n" * MAX_LINES) == "\n" * MAX_LINES
    assert clean_text("a" * MAX_TEXT_BYTES) == ""  # a line over MAX_LINE comes back empty
    with pytest.raises(ParseError):
        clean_text("\n" * (MAX_LINES + 1))
    with pytest.raises(ParseError):
        clean_text("a" * (MAX_TEXT_BYTES + 1))


def test_registers_are_counted() -> None:
    line = "0000:40:01.1 001d\n"
    assert len(parse_setpci(line * MAX_RECORDS)) == MAX_RECORDS
    with pytest.raises(ParseError, match="more than"):
        parse_setpci(line * (MAX_RECORDS + 1))


def test_the_class_code_decides_how_much_is_read() -> None:
    space = config_space(
        vendor=0x1000, device=0xC010, class_code=0x060400, port_type=PortType.DOWNSTREAM,
        acs_cap=0x5F, acs_ctrl=0x1D,
    )  # fmt: skip
    asked: list[int] = []

    def no(class_code: int) -> bool:
        asked.append(class_code)
        return False

    def read(offset: int, length: int) -> bytes:
        return space[offset : offset + length]

    header = parse_pci_config(read, whole=no)
    assert asked == [0x060400]
    assert (header.vendor_id, header.acs) == (0x1000, None)
    assert parse_pci_config(read, whole=lambda _: True) == parse_pci_config(read)


@pytest.mark.parametrize(
    ("line", "numa", "group"),
    [
        ("Flags: bus master, fast devsel, NUMA node 1, IOMMU group 17", 1, 17),
        ("Flags: bus master, fast devsel, NUMA node 1x, IOMMU group 17b", None, None),
        ("NUMA node: 3", 3, None),
        ("IOMMU group: 9", None, 9),
    ],
)
def test_numbers_are_whole_words(line: str, numa: int | None, group: int | None) -> None:
    (function,) = parse_lspci(f"40:01.1 PCI bridge: Example\n\t{line}\n").functions
    assert (function.numa_node, function.iommu_group) == (numa, group)


def test_express_in_a_short_listing_tells_the_port() -> None:
    text = "40:01.1 PCI bridge: Example\n\tExpress (v2) Root Port (Slot+), MSI 00\n"
    assert parse_lspci(text).functions[0].port_type is PortType.ROOT_PORT


def test_a_header_wrapped_over_lines_goes_on_only_with_the_next_gpu() -> None:
    whole = topo(4, 0, affinity=False, legend=False)
    (matrix,) = parse_topo(whole)
    header, rest = whole.split("\n", 1)
    wrapped = header.replace("\tGPU2", "\n\tGPU2") + "\n" + rest
    assert parse_topo(wrapped)[0].cells == matrix.cells
    astray = header.replace("\tGPU2", "\n\tGPU1") + "\n" + rest
    assert not any(one.complete and len(one.devices) == 4 for one in tried(astray))


def test_a_header_is_not_widened_without_bound() -> None:
    names = [f"GPU{number}" for number in range(MAX_DEVICES + 8)]
    header = "\t" + "\t".join(names[:MAX_DEVICES]) + "\n\t" + "\t".join(names[MAX_DEVICES:])
    rows = "".join(
        f"{name}\t" + "\t".join("X" if other == name else "PIX" for other in names) + "\n"
        for name in names[:4]
    )
    assert not any(one.complete for one in tried(f"{header}\n{rows}"))


def tried(text: str) -> tuple[LevelMatrix, ...]:
    try:
        return parse_topo(text)
    except ParseError:
        return ()


@pytest.mark.parametrize(("shown", "busy"), [("100%", 100), ("N/A ", None), ("    ", None)])
def test_use_of_a_gpu_that_is_not_told(shown: str, busy: int | None) -> None:
    table = parse_nvidia_smi_table(WHOLE.replace("100%", shown))
    assert table.gpus[0].utilization_percent == busy


def test_processes_of_drivers_that_know_no_instances() -> None:
    old = WHOLE.replace("   N/A  N/A            ", "                      ")
    assert [one.pid for one in parse_nvidia_smi_table(old).processes] == [4711, 1912]


def test_a_domain_of_lspci_t_is_hexadecimal() -> None:
    (node,) = parse_lspci_tree("-[10ab:c0]---1f.7\n").nodes
    assert node.bdf == "10ab:c0:1f.7"
