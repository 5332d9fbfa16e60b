"""Every kind of `nodeprep parse`: real formats cut, spliced, repeated and littered.

Whatever comes, the answer is a value that can be written as JSON, or a ParseError with a hint.
"""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.parse.kinds import KINDS, parse_kind
from tests.memory.test_hf_config import LLAMA
from tests.parse.attempt import value_of
from tests.parse.matrices import p2p, topo
from tests.parse.test_lspci import GPU, PORT
from tests.parse.test_lspci_tree import TREE
from tests.parse.test_metrics import PAGE
from tests.parse.test_nvidia_smi_table import WHOLE
from tests.simulator.nccl import simulate_all_reduce

NCCL = simulate_all_reduce(
    "2.19.6", [(0, "0000:01:00.0"), (1, "0000:02:00.0")], ["NVIDIA L40S"] * 2, 24.0
)
SETPCI = """\
0000:40:01.1 (ecap 000d @2a0) @2a6 = 001d
0000:42:00.0 (ecap 000d @148) @14e 001d->(0000:002c)->0011
setpci: 0000:41:00.0: Instance #0 of Extended capability 000d not found - there are no capabilities
setpci: Warning: No devices selected for operation group 1.
+ setpci -v -s 42:04.0 ECAP_ACS+6.w
001d
"""
DMESG = """\
[    0.000000] Command line: BOOT_IMAGE=/vmlinuz ro pci=config_acs=x0100x1@0000:40:01.1 iommu=pt
[    1.250000] pcieport 0000:40:01.1:    [12] Replay Timer Timeout
[    2.500000] nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80]
[   99.000001] NVRM: Xid (PCI:0000:02:00): 79, pid=12, GPU has fallen off the bus.
"""
CMDLINE = (
    'ro pci=disable_acs_redir=0000:40:01.1/00.0;pci:1000:c010,realloc iommu=pt "a b"=c intel_iommu='
    "on pcie_acs_override=downstream -- init\n"
)
SAMPLES = {
    "topo": topo(4, 2),
    "p2p": p2p(4),
    "lspci": PORT + GPU,
    "lspci-tree": TREE,
    "setpci": SETPCI,
    "nccl": NCCL,
    "nccl-log": NCCL,
    "metrics": PAGE,
    "config-json": json.dumps(LLAMA, indent=1),
    "nvidia-smi": WHOLE,
    "dmesg": DMESG,
    "cmdline": CMDLINE,
}
LITTER = (
    "", "\x1b[4m", "\x1b[", "\0", "\r", "\x85", "\u2028", "\ufeff", "\ud800", "\u202e", "> ",
    "=\n", "&lt;", "\\[", "|", "\t", " " * 300, "9" * 40, "9" * 5000, "-1", "+", "1e999", "nan",
    "٣", "½", "GPU", "GPU99999999999999999999", "NV", "NV" + "9" * 4400, "0000:00:00.0", "[", "]",
    "{", "}", '"', "'", ";", ",", ":", "=", "@", "#", "```", "\\", "[[" * 200, "0x", "%s", "../",
)  # fmt: skip
"""What terminals, mailers and attackers put between the lines."""

NUMBERS = ("0", "-1", "9" * 20, "9" * 40, "9" * 5000, "1e999", "nan", "-inf", "٣", "²", "0x1", "")
ACCIDENTS = ("number", "cut", "end", "insert", "overwrite", "drop", "repeat", "move", "wrap")

pieces = st.one_of(
    st.sampled_from(LITTER),
    st.text(max_size=6),
    st.sampled_from(sorted(SAMPLES.values())).flatmap(lambda one: st.sampled_from(one.split())),
)


def changed(text: str, data: st.DataObject) -> str:
    """The text after a few accidents, mostly to whole lines."""
    for _ in range(data.draw(st.integers(1, 4))):
        lines = text.split("\n")
        at = data.draw(st.integers(0, len(lines) - 1))
        accident = data.draw(st.sampled_from(ACCIDENTS))
        if accident == "cut":
            lines = lines[at:]
        elif accident == "drop":
            del lines[at]
        elif accident == "repeat":
            lines[at:at] = [lines[at]] * data.draw(st.integers(1, 40))
        elif accident == "move":
            lines.insert(data.draw(st.integers(0, len(lines) - 1)), lines.pop(at))
        else:
            lines[at] = changed_line(lines[at], accident, data)
            lines = lines[: at + 1] if accident == "end" else lines
        text = "\n".join(lines)
    return text


def changed_line(line: str, accident: str, data: st.DataObject) -> str:
    column = data.draw(st.integers(0, len(line)))
    if accident == "end":
        return line[:column]
    if accident == "wrap":
        return line[:column] + "\n" + line[column:]
    numbers = list(re.finditer("[0-9]+", line))
    if accident == "number" and numbers:
        number = data.draw(st.sampled_from(numbers))
        new: str = data.draw(st.sampled_from(NUMBERS))
        return line[: number.start()] + new + line[number.end() :]
    piece: str = data.draw(pieces)
    return line[:column] + piece + line[column + (len(piece) if accident == "overwrite" else 0) :]


def answers(kind: str, content: bytes) -> None:
    value = value_of(lambda _: parse_kind(kind, content), "")
    assert value is None or msgspec.json.encode(value)


def test_there_is_a_sample_of_every_kind() -> None:
    assert set(SAMPLES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_sample_itself_is_read(kind: str) -> None:
    assert msgspec.json.encode(parse_kind(kind, SAMPLES[kind].encode()))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_text(kind: str, data: st.DataObject) -> None:
    answers(kind, changed(SAMPLES[kind], data).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(data=st.data())
def test_another_kind_spliced_in(kind: str, data: st.DataObject) -> None:
    other = SAMPLES[data.draw(st.sampled_from(sorted(SAMPLES)))]
    lines, foreign = SAMPLES[kind].split("\n"), other.split("\n")
    at = data.draw(st.integers(0, len(lines)))
    begin = data.draw(st.integers(0, len(foreign) - 1))
    text = "\n".join([*lines[:at], *foreign[begin : begin + 8], *lines[at:]])
    answers(kind, changed(text, data).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_any_bytes(kind: str, content: bytes) -> None:
    answers(kind, content)
