"""The registry behind `nodeprep parse KIND`."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from nodeprep.errors import ParseError, UsageError
from nodeprep.parse.kinds import KINDS, parse_kind
from tests.parse.matrices import p2p, topo

SAMPLES = {
    "topo": topo(2, 0),
    "p2p": p2p(2),
    "lspci": "40:01.1 PCI bridge: Broadcom / LSI X\n",
    "lspci-tree": "-[0000:00]---00.0\n",
    "setpci": "001d\n",
    "metrics": "up 1\n",
    "cmdline": "ro quiet iommu=pt\n",
}
KEYS = {
    "topo": "matrices",
    "p2p": "matrices",
    "lspci": "functions",
    "lspci-tree": "nodes",
    "setpci": "records",
    "metrics": "samples",
    "cmdline": "pci_options",
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_kind_gives_one_json_object(kind: str) -> None:
    document = msgspec.json.decode(msgspec.json.encode(parse_kind(kind, SAMPLES[kind].encode())))
    assert KEYS[kind] in document


def test_the_shape_of_a_matrix() -> None:
    document = msgspec.json.decode(msgspec.json.encode(parse_kind("topo", topo(2, 1).encode())))
    (matrix,) = document["matrices"]
    assert matrix["devices"] == ["GPU0", "GPU1", "NIC0"]
    assert matrix["cells"]["GPU1"]["GPU0"] == "PIX"
    assert (matrix["complete"], matrix["nic_rows_complete"]) == (True, True)


def test_utf_16_of_a_windows_shell() -> None:
    assert parse_kind("topo", ("\ufeff" + topo()).encode("utf-16-le"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"\xff\xfe", bytes(range(256)) * 4])
def test_foreign_bytes_are_a_clear_error(kind: str, data: bytes) -> None:
    try:
        document = parse_kind(kind, data)
    except ParseError:
        return
    assert msgspec.json.encode(document)


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        parse_kind("lspci-tre", b"")
    assert "lspci-tree" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        parse_kind("zzz", b"")
    assert "topo" in caught.value.hint


def test_help_is_one_short_line() -> None:
    assert all(0 < len(kind.help) <= 60 for kind in KINDS.values())


def test_nothing_is_imported_before_it_is_used() -> None:
    code = (
        "import sys; import nodeprep.parse.kinds; "
        "print([m for m in sys.modules if m.startswith(('nodeprep.parse.', 'prometheus'))])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert set(eval(result.stdout)) == {"nodeprep.parse.kinds", "nodeprep.parse.text"}
