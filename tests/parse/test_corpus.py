"""Recorded outputs: every one of them says what must come out of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.errors import ParseError
from nodeprep.model.lspci import LspciFunction
from nodeprep.model.pci import REDIRECT, AcsStatus, Bdf, ConfigAccess, PortType, parse_bdf
from nodeprep.parse.lspci import parse_lspci
from nodeprep.parse.lspci_tree import parse_lspci_tree
from nodeprep.parse.metrics import KV_USAGE_NAMES, parse_metrics
from nodeprep.parse.p2p import parse_p2p
from nodeprep.parse.pci_config import parse_pci_config
from nodeprep.parse.setpci import parse_setpci
from nodeprep.parse.topo import parse_topo
from tests.parse.attempt import value_of


@pytest.fixture(scope="module")
def pcie(shared: Path) -> Path:
    return shared / "corpus" / "pcie"


def recorded(pcie: Path, folder: str) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    for line in (pcie / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["file"].startswith(folder) and entry.get("expected") is not None:
            text = (pcie / entry["file"]).read_text(errors="replace")
            yield entry["file"], text, entry["expected"]


@pytest.mark.parametrize(("folder", "parse"), [("topo_m/", parse_topo), ("topo_p2p/", parse_p2p)])
def test_matrices(pcie: Path, folder: str, parse: Any) -> None:
    count = 0
    for name, text, expected in recorded(pcie, folder):
        count += 1
        whole = [one for one in expected if one["gpu_rows_complete"]]
        matrices = value_of(parse, text) or ()
        complete = [matrix for matrix in matrices if matrix.complete]
        assert len(complete) == len(whole), name
        for matrix, wanted in zip(complete, whole, strict=True):
            assert list(matrix.devices) == wanted["devices"], name
            assert matrix.nic_rows_complete == wanted["all_rows"], name
            gpus = [device for device in wanted["devices"] if device.startswith("GPU")]
            for gpu, cells in wanted["gpu_matrix"].items():
                assert [matrix.cells[gpu][other] for other in gpus] == cells, name
    assert count > 10


def test_a_matrix_of_another_program_is_an_error(pcie: Path) -> None:
    text = (pcie / "odd" / "o01_rocm_smi_4gpu_pcie.txt").read_text()
    for parse in (parse_topo, parse_p2p):
        with pytest.raises(ParseError):
            parse(text)


# --- lspci ----------------------------------------------------------------------------------------


def lspci_file(pcie: Path, start: str) -> str:
    (path,) = (pcie / "lspci_acs").glob(f"{start}_*")
    return path.read_text(errors="replace")


def test_every_control_line_of_every_recording_is_read(pcie: Path) -> None:
    for path in sorted((pcie / "lspci_acs").iterdir()):
        text = path.read_text(errors="replace")
        if "=3D" in text:
            with pytest.raises(ParseError, match="HTML"):
                parse_lspci(text)
            continue
        report = parse_lspci(text)
        read = sum(one.acs_control is not None for one in report.functions)
        # The command line of the recording names the register too.
        printed = len(re.findall(r"ACSCtl:\s", text))
        assert read + len([one for one in report.loose_acs if one.control is not None]) == printed
        assert report.cut_acs_lines == 0
        assert report.access_denied == ("<access denied>" in text)


def test_a_whole_node_with_redirection_off(pcie: Path) -> None:
    functions = parse_lspci(lspci_file(pcie, "a01")).functions
    ports = [one for one in functions if one.acs is not None]
    assert sum(one.acs_control == 0x11 for one in ports) == 38
    assert not any(one.acs.redirects for one in ports if one.acs is not None)
    assert all(one.numa_node is not None for one in functions)
    assert Counter(one.port_type for one in functions)[PortType.ROOT_PORT] > 8


def test_the_redirecting_ports_of_a_node_with_nvswitches(pcie: Path) -> None:
    functions = parse_lspci(lspci_file(pcie, "a17")).functions
    words = Counter(int(one.acs_control) for one in functions if one.acs_control is not None)
    assert words == {0: 49, 1: 2, 0x1D: 4}
    redirecting = [one for one in functions if one.acs_control and one.acs_control & REDIRECT]
    assert {one.bdf[:7] for one in redirecting} == {"0000:82"}


def test_an_upstream_port_without_the_capability(pcie: Path) -> None:
    functions = {one.bdf: one for one in parse_lspci(lspci_file(pcie, "a22")).functions}
    upstream = functions[parse_bdf("16:00.0")]
    assert upstream.port_type is PortType.UPSTREAM
    assert upstream.acs_status is AcsStatus.ABSENT


# --- real programs on recorded registers ----------------------------------------------------------


def spaces(dump: Path) -> dict[Bdf, bytes]:
    """Configuration spaces of an `lspci -xxxx` dump."""
    found: dict[Bdf, bytearray] = {}
    here = bytearray()
    for line in dump.read_text(errors="replace").splitlines():
        address = re.match(r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ", line)
        row = re.fullmatch(r"([0-9a-f]{2,3}):((?: [0-9a-f]{2}){16}) *", line)
        if address is not None:
            here = found[parse_bdf(address[1])] = bytearray()
        elif row is not None:
            assert len(here) == int(row[1], 16)
            here += bytes.fromhex(row[2])
    return {bdf: bytes(space) for bdf, space in found.items()}


def ask(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} of pciutils is not installed")
    return subprocess.run(argv, capture_output=True, text=True, errors="replace").stdout


def test_our_reading_of_registers_is_lspcis(pcie: Path) -> None:
    compared = 0
    for dump in sorted((pcie / "dumps").iterdir()):
        printed = parse_lspci(ask("lspci", "-F", str(dump), "-D", "-vvvnn")).functions
        read = spaces(dump)
        assert {one.bdf for one in printed} == set(read)
        for one in printed:
            _compare(one, read[one.bdf])
            compared += 1
    assert compared > 50


def _compare(printed: LspciFunction, space: bytes) -> None:
    lengths: list[int] = []

    def read(offset: int, length: int) -> bytes:
        lengths.append(length)
        return space[offset : offset + length]

    config = parse_pci_config(read)
    assert sum(lengths) < 130
    for field in (
        "vendor_id", "device_id", "class_code", "port_type", "link", "primary_bus",
        "secondary_bus", "subordinate_bus",
    ):  # fmt: skip
        assert getattr(config, field) == getattr(printed, field), (printed.bdf, field)
    # lspci prints no line for 0000:0000, and ids of 0 for what has a vendor only.
    if printed.subsystem_vendor_id:
        assert config.subsystem_vendor_id == printed.subsystem_vendor_id
        assert config.subsystem_id == printed.subsystem_id
    assert config.acs_status is printed.acs_status or printed.acs_status is AcsStatus.UNKNOWN
    assert (config.acs is None) == (printed.acs is None)
    if config.acs is not None and printed.acs is not None:
        assert config.acs.control == printed.acs.control
        assert config.acs.capabilities == printed.acs.capabilities
    assert config.access is (ConfigAccess.FULL if len(space) == 4096 else ConfigAccess.CONVENTIONAL)


@pytest.mark.parametrize("flags", ["-t", "-tv", "-tvnn"])
def test_the_tree_is_the_one_of_the_bus_numbers(pcie: Path, flags: str) -> None:
    for dump in sorted((pcie / "dumps").iterdir()):
        tree = parse_lspci_tree(ask("lspci", "-F", str(dump), flags))
        functions = parse_lspci(ask("lspci", "-F", str(dump), "-D", "-vvv")).functions
        bridges = {
            (one.bdf[:-8], one.secondary_bus): one.bdf for one in functions if one.secondary_bus
        }
        assert tree.complete
        assert {node.bdf for node in tree.nodes} == {one.bdf for one in functions}
        for node in tree.nodes:
            assert node.parent == bridges.get((node.bdf[:-8], int(node.bdf[-7:-5], 16)))


def test_recorded_trees(pcie: Path) -> None:
    trees = {
        path.name[:3]: value_of(parse_lspci_tree, path.read_text())
        for path in sorted((pcie / "lspci_tree").iterdir())
    }
    assert trees.pop("r09") is None  # a list, no tree
    whole = {name for name, tree in trees.items() if tree is not None and tree.complete}
    assert whole == {"r13"}


def test_setpci_as_it_answers(pcie: Path) -> None:
    dump = pcie / "dumps" / "cap-aer-root.dump"
    port = ("-s", "00:02.0")
    base = ("setpci", "-A", "dump", "-O", f"dump.name={dump}", "-D")
    plain = ask(*base, *port, "ECAP_ACS+6.w")
    assert [one.value for one in parse_setpci(plain)] == [0x1F]
    (read,) = parse_setpci(ask(*base, "-v", *port, "ECAP_ACS+6.w"))
    assert (read.bdf, read.offset, read.value) == ("0000:00:02.0", 0x116, 0x1F)
    (masked,) = parse_setpci(ask(*base, "-v", *port, "ECAP_ACS+6.w=0000:002c"))
    assert (masked.before, masked.mask, masked.value) == (0x1F, 0x2C, 0x13)


def test_recorded_setpci_words(shared: Path) -> None:
    for path in sorted((shared / "cases").glob("*/setpci_acs.txt")):
        records = parse_setpci(path.read_text())
        assert len(records) == len(path.read_text().split())
        assert all(one.value is not None for one in records)


def test_recorded_pages_of_metrics(shared: Path) -> None:
    pages = sorted((shared / "corpus" / "metrics").glob("*.prom"))
    assert pages
    for path in pages:
        page = parse_metrics(path.read_text())
        assert page.skipped_lines == 0
        assert page.named(*KV_USAGE_NAMES)
