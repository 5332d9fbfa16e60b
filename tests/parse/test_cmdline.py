"""The kernel command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.cmdline import ConfigAcs
from nodeprep.parse.cmdline import parse_cmdline
from tests.parse.attempt import value_of


def test_words_that_matter() -> None:
    words = parse_cmdline(
        "BOOT_IMAGE=/vmlinuz root=/dev/md0 ro pci=realloc,noaer intel_iommu=on iommu=pt "
        "amd_iommu=off iommu.passthrough=1 iommu.strict=0 pcie_acs_override=downstream quiet\n"
    )
    assert words.pci_options == ("realloc", "noaer")
    assert words.unknown_pci_options == ()
    assert (words.intel_iommu, words.iommu, words.amd_iommu) == ("on", "pt", "off")
    assert (words.iommu_passthrough, words.iommu_strict) == ("1", "0")
    assert words.pcie_acs_override == "downstream"


def test_nothing_given_is_none() -> None:
    words = parse_cmdline("ro quiet")
    assert (words.iommu, words.pcie_acs_override, words.iommu_passthrough) == (None, None, None)


def test_the_last_of_two_counts_and_pci_options_add_up() -> None:
    words = parse_cmdline("iommu=off pci=noaer pci=nomsi iommu=pt")
    assert words.iommu == "pt"
    assert words.pci_options == ("noaer", "nomsi")


def test_device_lists() -> None:
    words = parse_cmdline("pci=disable_acs_redir=0000:40:01.1/00.0;pci:1000:c010,realloc")
    assert words.disable_acs_redir == ("0000:40:01.1/00.0", "pci:1000:c010")
    assert words.unknown_pci_options == ()


def test_a_device_list_with_commas_ends_at_the_first() -> None:
    words = parse_cmdline("pci=disable_acs_redir=0000:40:01.1,0000:41:00.0,noacs")
    assert words.disable_acs_redir == ("0000:40:01.1",)
    assert words.unknown_pci_options == ("0000:41:00.0", "noacs")


def test_config_acs() -> None:
    words = parse_cmdline("pci=config_acs=x0100x1@0000:40:01.1;101xxxx@0039:00:00.0")
    assert words.config_acs == (
        ConfigAcs(flags="x0100x1", device="0000:40:01.1"),
        ConfigAcs(flags="101xxxx", device="0039:00:00.0"),
    )


@pytest.mark.parametrize(
    "option",
    ["noacs", "acs=off", "disable_acs", "pcie_acs_override=downstream", "disable_acs_redir"],
)
def test_options_that_do_not_exist(option: str) -> None:
    assert parse_cmdline(f"pci={option}").unknown_pci_options == (option,)


@pytest.mark.parametrize(
    "option", ["noats", "nomsi", "realloc=off", "pcie_bus_perf", "hpmemsize=2M", "use_crs"]
)
def test_options_that_exist(option: str) -> None:
    assert parse_cmdline(f"pci={option}").unknown_pci_options == ()


@pytest.mark.parametrize(
    "text",
    [
        'dyndbg="file drivers/pci/pci.c iommu=off" iommu=pt',
        '"dyndbg=file drivers/pci/pci.c iommu=off" iommu=pt',
        'iommu="pt"',
        '"iommu=pt"',
        "iommu=pt -- iommu=off",
        "[    0.000000] Kernel command line: quiet iommu=pt",
        "Nov 29 13:00:00 gpu1 kernel: Command line: quiet iommu=pt\niommu: Default domain type\n",
        "$ cat /proc/cmdline\nquiet iommu=pt\n",
        'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\nGRUB_TERMINAL=serial\n',
        "GRUB_CMDLINE_LINUX_DEFAULT='iommu=pt'\nGRUB_CMDLINE_LINUX='iommu=off'\n",
        "quiet\niommu=pt\n",
        "> quiet iommu=pt",
    ],
)
def test_quotes_and_pastes(text: str) -> None:
    assert parse_cmdline(text).iommu == "pt"


def test_grub_quotes() -> None:
    words = parse_cmdline(r'GRUB_CMDLINE_LINUX="pci=disable_acs_redir=00:01.1\;00:01.2 a=\"b c\""')
    assert words.disable_acs_redir == ("00:01.1", "00:01.2")


@pytest.mark.parametrize("text", ["", " \n", "$ cat /proc/cmdline\n"])
def test_empty(text: str) -> None:
    with pytest.raises(ParseError, match="no kernel command line"):
        parse_cmdline(text)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    words = value_of(parse_cmdline, "pci=" + text)
    assert words is not None
    assert set(words.unknown_pci_options) <= set(words.pci_options)


@given(st.lists(st.sampled_from(['"', "=", " ", "pci=", ",", ";", "@", "--", "iommu=", "x"])))
def test_any_quotes(parts: list[str]) -> None:
    value_of(parse_cmdline, "".join(parts))
