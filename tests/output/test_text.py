from __future__ import annotations

import re

import msgspec
import pytest
from rich.cells import cell_len

from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Evidence, Finding, Severity
from nodeprep.model.pci import Bdf, PortType
from nodeprep.model.report import NodeVerdict
from nodeprep.model.topology import GpuPair, P2pStatus, PathLevel
from nodeprep.model.tree import PciTree
from nodeprep.output.text import render_text
from tests.build import bridge, facts, gpu_function, switch_of
from tests.output import documents
from tests.output.documents.audits import AUDIT_BAD, audit_of, eight_gpu_facts, two_socket_facts
from tests.output.documents.boots import NOT_READY, READY, bringup
from tests.output.documents.findings import FABRIC_UNKNOWN, REDIRECT
from tests.output.documents.gates import GATE_SLOW
from tests.output.hostile import endless, poisoned, with_strings

NAMES = list(documents.ALL)
WIDTHS = (72, 80, 100, 120)
SGR = re.compile(r"\x1b\[[0-9;]*m")
WHOLE = ("$ ", "\u2192 ", "-> ", "GRUB_CMDLINE_LINUX=", "/")
"""Starts of the lines that are to be copied and so may be longer than the terminal."""


def shown(document: Record, width: int = 80) -> str:
    return render_text(document, color=False, width=width)


def too_long(text: str, width: int) -> list[str]:
    return [
        line
        for line in text.splitlines()
        if cell_len(line) > width and not line.lstrip().startswith(WHOLE)
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_lines_keep_within_the_terminal(name: str, width: int) -> None:
    assert too_long(shown(documents.ALL[name], width), width) == []


@pytest.mark.parametrize("name", NAMES)
def test_wide_characters_are_counted(name: str) -> None:
    wide = with_strings(documents.ALL[name], lambda text: text + " 模型模型")
    assert too_long(shown(wide), 80) == []


@pytest.mark.parametrize("name", NAMES)
def test_very_long_names_keep_within_the_terminal_and_end(name: str) -> None:
    text = shown(endless(documents.ALL[name]))
    assert too_long(text, 80) == []
    assert len(text) < 400_000


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_hostile_strings_do_nothing(name: str, color: bool) -> None:
    text = render_text(poisoned(documents.ALL[name]), color=color, width=80)
    plain = SGR.sub("", text)
    assert all(char.isprintable() or char == "\n" for char in plain)
    assert not any(line.strip().startswith("READY forged") for line in plain.split("\n"))
    assert "[red]x[/red]" in re.sub(r"\s", "", plain)


@pytest.mark.parametrize("name", NAMES)
def test_without_colour_there_is_no_escape_sequence(name: str) -> None:
    assert "\x1b" not in shown(documents.ALL[name])


@pytest.mark.parametrize("name", NAMES)
def test_colour_changes_no_word(name: str) -> None:
    colored = render_text(documents.ALL[name], color=True, width=80)
    stripped = [line.rstrip() for line in SGR.sub("", colored).splitlines()]
    assert stripped == shown(documents.ALL[name]).splitlines()
    assert "\x1b[1m" in colored or "\x1b[1;" in colored


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_without_utf8_gets_ascii(name: str) -> None:
    text = render_text(documents.ALL[name], color=False, width=80, unicode=False)
    assert text.isascii()
    assert "\\u" not in text
    assert too_long(text, 80) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("node", [two_socket_facts(), eight_gpu_facts()], ids=["3", "8"])
def test_addresses_of_gpu_paths_are_never_broken(node: NodeFacts, width: int) -> None:
    text = shown(audit_of(node), width)
    tree = PciTree(node.functions)
    for gpu in node.gpus:
        for bdf in tree.path(gpu.bdf):
            assert bdf in text


def test_the_verdict_and_the_first_thing_to_do_come_first() -> None:
    lines = shown(AUDIT_BAD).splitlines()
    assert lines[0].startswith("DO NOT REGISTER  ACS redirect is on at 2 switch ports")
    assert lines[1].strip() == "\u2192 nodeprep acs plan"
    assert lines[2].startswith("First: Clear ReqRedir")
    assert "this node, 1 critical, 1 warning, 1 note, 1 not known" in lines


def test_a_note_is_not_the_first_thing_to_do() -> None:
    note = Finding(
        id="a-b", severity=Severity.INFO, subject="x", summary="s", cause="",
        remedy=REDIRECT.remedy,
    )  # fmt: skip
    assert "First:" not in shown(audit_of(two_socket_facts(), note))


def test_commands_are_printed_whole() -> None:
    long = "setpci -v -s 0000:42:00.0 ECAP_ACS+6.w=0000:002c" * 3
    remedy = REDIRECT.remedy
    assert remedy is not None
    finding = Finding(
        id="a-b", severity=Severity.WARNING, subject="x", summary="s", cause="",
        remedy=type(remedy)(text="do it", commands=(long,)),
    )  # fmt: skip
    assert f"$ {long}\n" in shown(audit_of(two_socket_facts(), finding))


def test_levels_of_tree_and_driver_stand_side_by_side_where_they_differ() -> None:
    node = facts(switch_of(2), driver_level=PathLevel.SYS, p2p=P2pStatus.CNS)
    text = shown(audit_of(node))
    rows = [line.split() for line in text.splitlines()]
    assert ["GPU0", "tree", "X", "PIX"] in rows
    assert ["driver", "X", "SYS"] in rows
    assert "P2P CNS for the pair" in text


def test_p2p_letters_stand_only_where_it_is_refused() -> None:
    node = facts(switch_of(3))
    assert "P2P OK for all pairs" in shown(audit_of(node))
    pairs = (*node.pairs[:2], GpuPair(a=1, b=2, p2p_read=P2pStatus.NS, p2p_write=P2pStatus.NS))
    rows = [
        line.split()
        for line in shown(audit_of(msgspec.structs.replace(node, pairs=pairs))).splitlines()
    ]
    assert rows.count(["p2p", "NS"]) == 2
    assert not any("OK" in row and row[0] == "p2p" for row in rows if row)


def test_nvlink_is_no_disagreement() -> None:
    node = facts(switch_of(2), driver_level=PathLevel.NVLINK, nvlinks=12)
    rows = [line.split() for line in shown(audit_of(node)).splitlines()]
    assert ["GPU0", "level", "X", "NV12"] in rows
    assert not any("driver" in row[:2] and "SYS" in row for row in rows)


def test_unequal_reads_and_writes_are_both_shown() -> None:
    pair = GpuPair(a=0, b=1, p2p_read=P2pStatus.OK, p2p_write=P2pStatus.NS)
    node = msgspec.structs.replace(facts(switch_of(2)), pairs=(pair,))
    assert "OK/NS" in shown(audit_of(node))


def test_what_was_not_read_is_a_question_mark_not_an_ok() -> None:
    node = facts(switch_of(2), p2p=None)
    text = shown(audit_of(node))
    assert "P2P not known for the pair" in text
    assert "OK" not in text


def test_gaps_are_never_green() -> None:
    gap = FABRIC_UNKNOWN
    first = render_text(
        audit_of(two_socket_facts(), unknown=(gap,)), color=True, width=80
    ).splitlines()[0]
    assert first.startswith("\x1b[1;33mINCOMPLETE")
    assert "not everything could be read" in first


def test_many_gpus_are_shown_in_blocks() -> None:
    text = shown(audit_of(facts(switch_of(20))))
    assert too_long(text, 80) == []
    assert sum("GPU19" in line for line in text.splitlines()) >= 3


def test_an_absurd_count_of_gpus_gets_a_list_and_no_matrix() -> None:
    functions = [gpu_function(f"{bus:02x}:{slot:02x}.0") for bus in range(9) for slot in range(9)]
    text = shown(audit_of(facts(functions)))
    assert "GPU80  0000:08:08.0" in text
    assert "p2p" not in text


def test_gpus_of_two_kinds_are_named_one_by_one() -> None:
    node = facts(switch_of(2))
    other = msgspec.structs.replace(node.gpus[1], name="NVIDIA A40", mig_enabled=True)
    text = shown(audit_of(msgspec.structs.replace(node, gpus=(node.gpus[0], other))))
    assert "GPUS  1 x NVIDIA L40S, 1 x NVIDIA A40" in text
    assert re.search(r"GPU1 .* NVIDIA A40\n", text)
    assert "MIG is on: GPU1" in text


def test_evidence_of_several_lines_is_marked_as_quoted() -> None:
    finding = Finding(
        id="a-b", severity=Severity.WARNING, subject="x", summary="s", cause="",
        evidence=(Evidence(source="dmesg", text="one\n$ rm -rf /\n"),),
    )  # fmt: skip
    assert "| $ rm -rf /" in shown(audit_of(two_socket_facts(), finding))


def test_a_node_without_gpus_has_a_page() -> None:
    assert "none found" in shown(audit_of(facts([bridge("00:01.0")])))


def test_a_chain_that_is_a_circle_is_drawn_and_ends() -> None:
    functions = [
        bridge("40:01.0", parent="41:00.0", port_type=PortType.ROOT_PORT),
        bridge("41:00.0", parent="40:01.0"),
        gpu_function("42:00.0", parent="41:00.0"),
        gpu_function("43:00.0", parent="41:00.0"),
    ]
    assert "0000:43:00.0" in shown(audit_of(facts(functions)))


def test_a_deep_tree_keeps_its_addresses() -> None:
    functions = [bridge("01:00.0", port_type=PortType.ROOT_PORT)]
    functions += [bridge(f"{bus:02x}:00.0", parent=f"{bus - 1:02x}:00.0") for bus in range(2, 0xF0)]
    functions += [gpu_function("f0:00.0", parent="ef:00.0")]
    text = shown(audit_of(facts(functions)))
    assert too_long(text, 80) == []
    assert "0000:40:00.0" in text


def test_a_domain_of_five_digits_fits() -> None:
    functions = [
        bridge("10000:e0:01.0", port_type=PortType.ROOT_PORT, control=0x3D),
        gpu_function("10000:e1:00.0", parent="10000:e0:01.0"),
    ]
    text = shown(audit_of(facts(functions)))
    assert too_long(text, 80) == []
    assert Bdf("10000:e1:00.0") in text


def test_a_rehearsal_does_not_say_register() -> None:
    assert "register the node" not in shown(READY)
    assert "register the node" in shown(bringup(NodeVerdict.READY))


def test_a_dry_run_is_followed_by_the_real_one() -> None:
    report = bringup(NodeVerdict.NOT_READY, dry_run=True)
    assert "without --dry-run" in shown(report).splitlines()[-1]


def test_the_last_lines_repeat_the_verdict() -> None:
    lines = shown(NOT_READY).splitlines()
    assert lines[0].startswith("NOT READY  the kernel refuses writes")
    assert lines[0] in lines[-5:]
    assert "load balancer" in lines[-1]


def test_a_simulated_gate_says_so_beside_its_figure() -> None:
    figure = next(line for line in shown(GATE_SLOW).splitlines() if "measured" in line)
    assert figure.endswith("6.12 GB/s  SIMULATED")


def test_an_unknown_document_is_a_mistake_of_ours() -> None:
    class Strange(Record, frozen=True):
        pass

    with pytest.raises(TypeError, match="Strange"):
        shown(Strange())
