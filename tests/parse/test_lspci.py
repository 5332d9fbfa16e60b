"""`lspci -vvv`, whole, filtered, wrapped, quoted, and without root."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.lspci import LooseAcs, LspciFunction
from nodeprep.model.pci import AcsCapability, AcsFlag, AcsStatus, LinkStatus, PortType
from nodeprep.parse import lspci
from nodeprep.parse.lspci import parse_lspci, parse_lspci_document
from tests.parse.attempt import value_of

CAP = "ACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+"
CTL = "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
OFF = "ACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
PORT = f"""\
40:01.1 PCI bridge [0604]: Example, Inc. [EX] GPP Bridge [1022:1483] (rev 0a) (prog-if 00 [Normal])
\tSubsystem: Example Corp. Device [1234:abcd]
\tPhysical Slot: 3
\tControl: I/O+ Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- DisINTx+
\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR-
\tNUMA node: 1
\tIOMMU group: 17
\tBus: primary=40, secondary=41, subordinate=45, sec-latency=0
\tCapabilities: [50] Power Management version 3
\t\tStatus: D0 NoSoftRst- PME-Enable- DSel=0 DScale=0 PME-
\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <64us
\t\t\tClockPM- Surprise+ LLActRep+ BwNot+ ASPMOptComp+
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
\t\tLnkCap2: Supported Link Speeds: 2.5-32GT/s, Crosslink- Retimer+
\t\tLnkSta2: Current De-emphasis Level: -3.5dB, EqualizationComplete+
\tCapabilities: [100 v1] Vendor Specific Information: ID=0001 Rev=1 Len=010 <?>
\tCapabilities: [1b0 v1] Address Translation Service (ATS)
\t\tATSCtl:\tEnable+, Smallest Translation Unit: 00
\tCapabilities: [2a0 v1] Access Control Services
\t\t{CAP}
\t\t{CTL}
\tKernel driver in use: pcieport
\tKernel modules: shpchp
"""
GPU = """\
43:00.0 3D controller: NVIDIA Corporation Device 26b9 (rev a1)
\tControl: I/O- Mem+ BusMaster+ SpecCycle-
\tCapabilities: [78] Express (v2) Endpoint, IntMsgNum 0
\tCapabilities: [100 v1] Virtual Channel
\tKernel driver in use: nvidia
"""
REDIRECTING = AcsFlag(0x1D)


def only(text: str) -> LspciFunction:
    (function,) = parse_lspci(text).functions
    return function


def test_every_field_of_a_port() -> None:
    assert only(PORT) == LspciFunction(
        bdf=only(PORT).bdf,
        class_name="PCI bridge",
        class_code=0x060400,
        name="Example, Inc. [EX] GPP Bridge",
        vendor_id=0x1022,
        device_id=0x1483,
        revision=0x0A,
        subsystem_vendor_id=0x1234,
        subsystem_id=0xABCD,
        primary_bus=0x40,
        secondary_bus=0x41,
        subordinate_bus=0x45,
        port_type=PortType.ROOT_PORT,
        link=LinkStatus(speed_gts=2.5, width=8, max_speed_gts=16.0, max_width=16),
        acs_status=AcsStatus.PRESENT,
        acs_capabilities=AcsFlag(0x5F),
        acs_control=REDIRECTING,
        ats_enabled=True,
        numa_node=1,
        iommu_group=17,
        driver="pcieport",
        physical_slot="3",
    )
    assert only(PORT).bdf == "0000:40:01.1"
    assert only(PORT).acs == AcsCapability(
        offset=None, capabilities=AcsFlag(0x5F), control=REDIRECTING
    )


@pytest.mark.parametrize(
    ("words", "port_type"),
    [
        ("Express (v2) Root Port (Slot+), MSI 00", PortType.ROOT_PORT),
        ("Express (v2) Root Port (Slot-), IntMsgNum 0", PortType.ROOT_PORT),
        ("Express Root Port (Slot+)", PortType.ROOT_PORT),
        ("Express (v2) Upstream Port, MSI 00", PortType.UPSTREAM),
        ("Express (v2) Downstream Port (Slot+), MSI 00", PortType.DOWNSTREAM),
        ("Express (v1) Endpoint, MSI 00", PortType.ENDPOINT),
        ("Express (v2) Legacy Endpoint, MSI 00", PortType.LEGACY_ENDPOINT),
        ("Express (v2) Root Complex Integrated Endpoint, MSI 00", PortType.RC_ENDPOINT),
        ("Express (v2) Root Complex Event Collector, MSI 00", PortType.RC_EVENT_COLLECTOR),
        ("Express (v2) PCI-Express to PCI/PCI-X Bridge, MSI 00", PortType.PCIE_TO_PCI),
        ("Express (v1) PCI/PCI-X to PCI-Express Bridge (Slot-), MSI 00", PortType.PCI_TO_PCIE),
        ("Express (v2) Unknown type 12, MSI 00", None),
    ],
)
def test_port_types(words: str, port_type: PortType | None) -> None:
    assert only(f"01:00.0 Bridge: X\n\tCapabilities: [40] {words}\n").port_type is port_type


@pytest.mark.parametrize(
    ("line", "class_code", "name", "ids"),
    [
        ("00:01.0 Class 0604: Device 1b36:000c \t\t# root port", 0x060400, None, (0x1B36, 0x0C)),
        ("00:01.0 0604: 1b36:000c (rev b0)", 0x060400, None, (0x1B36, 0x0C)),
        ("00:01.0 PCI bridge: Intel Corporation Device 1bbc (rev 11)", 0x060400,
         "Intel Corporation Device 1bbc", (None, 0x1BBC)),
        ("00:1c.0 PCI bridge [0604]: Intel Corporation Root Port #1 [8086:7a38] (rev 11)", 0x060400,
         "Intel Corporation Root Port #1", (0x8086, 0x7A38)),
        ("00:01.0 System peripheral [0807]: AMD Device 153c", 0x080700, "AMD Device 153c",
         (None, 0x153C)),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)"
         " (prog-if 00 [VGA controller])", 0x030000, "NVIDIA Corporation AD102 [GeForce RTX 4090]",
         (None, None)),
        ("01:00.0 NVMe disk: X", None, "X", (None, None)),
        ("00:01.0/02:00.0/03:00.0 Bridge: NVIDIA Corporation Device 22a3", 0x068000,
         "NVIDIA Corporation Device 22a3", (None, 0x22A3)),
    ],
)  # fmt: skip
def test_first_lines(
    line: str, class_code: int | None, name: str | None, ids: tuple[int | None, int | None]
) -> None:
    function = only(line)
    assert function.class_code == class_code
    assert function.name == name
    assert (function.vendor_id, function.device_id) == ids


@pytest.mark.parametrize(
    ("address", "bdf"),
    [
        ("0000:40:01.1", "0000:40:01.1"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0001:C3:00.0", "0001:c3:00.0"),
        ("00:01.0/40:01.1", "0000:40:01.1"),
    ],
)
def test_domains_survive(address: str, bdf: str) -> None:
    assert only(PORT.replace("40:01.1", address, 1)).bdf == bdf


# --- what is not shown is unknown ---------------------------------------------------------------


def test_access_denied_is_unknown() -> None:
    text = "43:00.0 PCI bridge: X\n\tControl: BusMaster+\n\tCapabilities: <access denied>\n" + GPU
    report = parse_lspci(text)
    assert report.access_denied
    assert report.functions[0].access_denied
    assert report.functions[0].acs_status is AcsStatus.UNKNOWN
    assert not report.functions[1].access_denied


def test_access_denied_as_an_html_entity() -> None:
    assert parse_lspci("43:00.0 PCI bridge: X\n\tCapabilities: &lt;access denied&gt;").access_denied


def test_rev_ff_is_gone() -> None:
    function = only(
        "43:00.0 3D controller: X (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n"
    )
    assert function.rev_ff
    assert function.acs_status is AcsStatus.UNKNOWN


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (GPU, AcsStatus.ABSENT),
        (GPU.replace("\tKernel driver in use: nvidia\n", ""), AcsStatus.UNKNOWN),
        (GPU.replace("\tControl: I/O- Mem+ BusMaster+ SpecCycle-\n", ""), AcsStatus.UNKNOWN),
        (GPU.replace("\tCapabilities: [100 v1] Virtual Channel\n", ""), AcsStatus.UNKNOWN),
        (GPU.replace("[100 v1] Virtual Channel", "[100 v1] <chain looped>"), AcsStatus.UNKNOWN),
        (GPU.replace("Virtual Channel", "Access Control Services"), AcsStatus.PRESENT),
        (GPU.split("\n")[0], AcsStatus.UNKNOWN),
    ],
)
def test_absent_only_when_the_whole_list_was_shown(text: str, status: AcsStatus) -> None:
    assert only(text).acs_status is status


def test_a_block_ended_by_another_is_whole() -> None:
    text = GPU.replace("\tKernel driver in use: nvidia\n", "\n") + PORT
    assert parse_lspci(text).functions[0].acs_status is AcsStatus.ABSENT


def test_a_cut_line_of_flags_is_unknown() -> None:
    report = parse_lspci(PORT[: PORT.index("CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-")])
    assert report.functions[0].acs_control is None
    assert report.functions[0].acs is None
    assert report.functions[0].acs_status is AcsStatus.PRESENT
    assert report.cut_acs_lines == 1


def test_a_short_listing() -> None:
    """`lspci -v` names capabilities, and puts node and group into its flags."""
    function = only(
        "43:00.0 3D controller: NVIDIA Corporation Device 26b9 (rev a1)\n"
        "\tFlags: bus master, fast devsel, latency 0, IRQ 41, NUMA node 1, IOMMU group 15\n"
        "\tCapabilities: [78] Express Endpoint, MSI 00\n"
        "\tCapabilities: [100] Virtual Channel\n"
        "\tKernel modules: nvidia\n"
    )
    assert (function.numa_node, function.iommu_group) == (1, 15)
    assert function.port_type is PortType.ENDPOINT
    assert function.acs_status is AcsStatus.ABSENT


def test_flags_of_power_management_are_no_first_line() -> None:
    text = GPU.replace("Control: I/O- Mem+ BusMaster+ SpecCycle-", "Flags: PMEClk- DSI- D1- D2-")
    assert only(text).acs_status is AcsStatus.UNKNOWN


# --- pastes ---------------------------------------------------------------------------------------

PASTES: dict[str, Callable[[str], str]] = {
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.split("\n")),
    "indentation lost": lambda text: "\n".join(line.strip() for line in text.split("\n")),
    "indented": lambda text: "".join(f"        {line}\n" for line in text.split("\n")),
    "blank lines between": lambda text: text.replace("\n", "\n\n"),
    "markdown": lambda text: text.replace("[", "\\[").replace("]", "\\]").replace("<", "\\<"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "tabs expanded": lambda text: text.expandtabs(8),
    "NUL bytes": lambda text: "\0".join(text),
    "coloured by grep": lambda text: text.replace("ACSCtl", "\x1b[01;31m\x1b[KACSCtl\x1b[m\x1b[K"),
    "numbered by grep": lambda text: "".join(
        f"{n}{':' if 'ACS' in line else '-'}{line}\n"
        for n, line in enumerate(text.rstrip().split("\n"), 1200)
    ),
    "wrapped": lambda text: text.replace("ReqRedir", "\nReqRedir").replace("Width", "\nWidth"),
}


@pytest.mark.parametrize("paste", PASTES)
def test_pastes(paste: str) -> None:
    text = PORT + "\n" + GPU
    assert parse_lspci(PASTES[paste](text)) == parse_lspci(text)


def test_leftovers_of_grep() -> None:
    report = parse_lspci(f"$ sudo lspci -vvv | grep ACSCtl\n\t\t{CTL}\n\t\t{OFF}\n\t\t{CTL}\n")
    assert report.functions == ()
    assert [one.control for one in report.loose_acs] == [REDIRECTING, AcsFlag(0), REDIRECTING]


def test_a_block_without_its_first_line() -> None:
    report = parse_lspci(PORT.split("\n", 1)[1] + "\n" + GPU)
    assert report.loose_acs == (LooseAcs(capabilities=AcsFlag(0x5F), control=REDIRECTING),)
    assert report.loose_links[0].max_width == 16
    assert [one.bdf for one in report.functions] == ["0000:43:00.0"]


def test_two_control_words_below_one_address_belong_to_neither() -> None:
    """`lspci -vvv | grep -E 'Broadcom|ACSCtl'`: the first lines of other ports are missing."""
    report = parse_lspci(f"41:00.0 PCI bridge: Broadcom X\n\t{OFF}\n\t{CTL}\n{PORT}")
    assert report.functions[0].acs_control is None
    assert report.functions[0].acs_status is AcsStatus.UNKNOWN
    assert [one.control for one in report.loose_acs] == [AcsFlag(0), REDIRECTING]
    assert report.functions[1].acs_control == REDIRECTING


def test_one_missing_first_line_casts_doubt_on_all_bare_words() -> None:
    """`grep -E 'NVIDIA|ACSCtl'`: the words below a GPU are those of the next bridges."""
    gpus = f"43:00.0 3D controller: NVIDIA X\n\t{CTL}\n44:00.0 3D controller: NVIDIA X\n"
    report = parse_lspci(f"{gpus}\t{OFF}\n\t{OFF}\n{PORT}")
    assert [one.acs_control for one in report.functions] == [None, None, REDIRECTING]
    assert sorted(one.control for one in report.loose_acs if one.control is not None) == [
        AcsFlag(0),
        AcsFlag(0),
        REDIRECTING,
    ]
    whole = parse_lspci(gpus)
    assert whole.functions[0].acs_control == REDIRECTING


def test_groups_of_grep_do_not_run_into_each_other() -> None:
    report = parse_lspci(f"{GPU}--\n\t\t{CTL}\n")
    assert report.functions[0].acs_control is None
    assert [one.control for one in report.loose_acs] == [REDIRECTING]


def test_addresses_without_a_bus_take_no_words() -> None:
    """`lspci -P` leaves bus numbers out: its lines must not be given to the function above."""
    report = parse_lspci(f"{GPU}\n00:01.0/00.0/04.0 PCI bridge: X\n\t{CTL}\n")
    assert [one.bdf for one in report.functions] == ["0000:43:00.0"]
    assert report.functions[0].acs_control is None
    assert [one.control for one in report.loose_acs] == [REDIRECTING]


def test_links_alone() -> None:
    report = parse_lspci(
        "    LnkCap: Port #0, Speed 16GT/s, Width x16\n    LnkSta: Speed 2.5GT/s, Width x16 (ok)\n"
        "    LnkSta: Speed unknown, Width x0\n"
    )
    assert report.loose_links == (
        LinkStatus(speed_gts=2.5, width=16, max_speed_gts=16.0, max_width=16),
        LinkStatus(speed_gts=None, width=0),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no lspci text"),
        ("running lspci without root; capability lines may be incomplete", "no lspci text"),
        ("-[0000:00]-+-00.0\n           +-01.0\n", "no lspci text"),
        ("0000:00:02.0 (ecap 000d @110) @116 = 001f\n", "no lspci text"),
        (f"<span>x</span>{CTL}</p>\n", "HTML"),
        (f'<span class=3D"a">=C2=A0</span>{CTL.replace("Ctrl-", "C=" + chr(10) + "trl-")}', "HTML"),
    ],
)
def test_texts_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_lspci(text)
    assert caught.value.hint


def test_too_many_functions() -> None:
    with pytest.raises(ParseError, match="20,000 functions"):
        parse_lspci("00:01.0 PCI bridge: X\n" * (lspci.MAX_FUNCTIONS + 2))


def test_the_document_speaks_hexadecimal() -> None:
    document = msgspec.to_builtins(parse_lspci_document(PORT + OFF))
    (function,) = document["functions"]
    assert function["vendor_id"] == "1022"
    assert function["class_code"] == "060400"
    assert function["port_type"] == "root_port"
    assert function["acs_control"] is None  # two words below one address
    assert [one["control"] for one in document["loose_acs"]] == ["001d", "0000"]
    assert document["loose_acs"][0]["redirects"] == ("ReqRedir", "CmpltRedir")


WORDS = st.sampled_from(
    [*PORT.split("\n"), *GPU.split("\n"), CAP, CTL, OFF, "--", "", "40:01.1", "Capabilities:",
     "[100 v1]", "<access denied>", "LnkSta:", "ACSCtl:", "SrcValid+", "12:", "Speed 1e9GT/s"]
)  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(max_size=20)), max_size=60), st.sampled_from([" ", "\n"]))
def test_any_words(words: list[str], between: str) -> None:
    text = between.join(words)
    report = value_of(parse_lspci, text)
    if report is None:
        return
    msgspec.json.encode(parse_lspci_document(text))
    known = sum(one.acs_control is not None for one in report.functions)
    assert known + len(report.loose_acs) <= text.count("ACS")


# --- cut ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["x1", "x"])
def test_a_width_that_a_window_has_cut_is_unknown(end: str) -> None:
    line = "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width "
    text = PORT.replace("Width x8 (downgraded)", "Width x16 (downgraded)")
    narrow = "\n".join(one[: len(line) + len(end)] for one in text.split("\n"))
    assert line + end in narrow.split("\n")
    link = only(narrow).link
    assert link is not None
    assert (link.speed_gts, link.width) == (2.5, None)
    # Where other lines are longer, nothing is cut.
    whole = only(text.replace("Width x16 (downgraded)", "Width x1")).link
    assert whole is not None
    assert whole.width == 1


@pytest.mark.parametrize("end", ["x1", "x", "x16"])
def test_a_width_that_a_terminal_has_folded_is_unknown(end: str) -> None:
    wide = "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width "
    width = len(wide) + len(end)
    text = PORT.replace("Width x8 (downgraded)", "Width x16 (downgraded)")
    folded = "\n".join(
        line[start : start + width]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), width)
    )
    link = only(folded).link
    assert link is not None
    assert link.width == (16 if end == "x16" else None)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("Kernel driver in use: pcieport", "driver"),
        ("Physical Slot: 32", "physical_slot"),
        ("NUMA node: 12", "numa_node"),
        ("IOMMU group: 117", "iommu_group"),
    ],
)
def test_a_value_in_which_the_text_ends_is_unknown(line: str, field: str) -> None:
    text = "01:00.0 3D controller: X\n\tLatency: 0\n\t" + line
    assert getattr(only(text + "\n"), field) is not None
    assert getattr(only(text), field) is None
    assert getattr(only(text[:-1]), field) is None


def test_a_text_cut_anywhere_tells_nothing_else() -> None:
    whole = only(PORT)
    for end in range(PORT.index("(rev"), len(PORT)):
        one = only(PORT[:end])
        for field in ("driver", "physical_slot", "numa_node", "iommu_group", "subordinate_bus"):
            assert getattr(one, field) in (None, getattr(whole, field))
        if one.link is not None:
            assert whole.link is not None
            assert one.link.width in (None, whole.link.width)
            assert one.link.max_width in (None, whole.link.max_width)


# --- lists of IOMMU groups ------------------------------------------------------------------------


@pytest.mark.parametrize("colon", [":", ""])
def test_the_group_in_front_of_a_first_line(colon: str) -> None:
    text = (
        f"IOMMU Group 15{colon} 5d:00.0 3D controller [0302]: Example [10de:2335] (rev a1)\n"
        f"IOMMU Group 114{colon} 0001:05:00.0 Bridge [0680]: Example [10de:22a3] (driver: x)\n"
    )
    functions = parse_lspci(text).functions
    assert [(one.bdf, one.class_code, one.device_id, one.iommu_group) for one in functions] == [
        ("0000:5d:00.0", 0x030200, 0x2335, 15),
        ("0001:05:00.0", 0x068000, 0x22A3, 114),
    ]
    assert all(one.acs_status is AcsStatus.UNKNOWN for one in functions)


def test_a_group_without_an_address_is_no_first_line() -> None:
    with pytest.raises(ParseError, match="no lspci"):
        parse_lspci("IOMMU Group 15: devices\nIOMMU Group 16 3D controller: X\n")
