"""The change as a kernel parameter, by kernel."""

from __future__ import annotations

import pytest

from nodeprep.acs.kernel_parameter import KernelParameter, flags, kernel_parameter, path_form
from nodeprep.model.pci import REDIRECT, AcsFlag, Bdf
from nodeprep.model.tree import PciTree
from tests.build import facts, switch_of

FIRST = "0000:40:01.1/00.0/00.0"
SECOND = "0000:40:01.1/00.0/01.0"


def parameter_for(
    release: str | None, *, after: str = "0011", cmdline: str | None = None
) -> KernelParameter:
    tree = PciTree(facts(switch_of(2)).functions)
    words = {Bdf(bdf): int(after, 16) for bdf in ("0000:42:00.0", "0000:42:01.0")}
    return kernel_parameter(words, tree, release, cmdline)


@pytest.mark.parametrize("release", ["4.19.0", "5.15.0-113-generic", "6.1.0-50-amd64", "6.10.9"])
def test_before_6_11_redirection_is_switched_off_by_path(release: str) -> None:
    assert parameter_for(release).text == f"pci=disable_acs_redir={FIRST};{SECOND}"


@pytest.mark.parametrize(
    "release",
    ["6.12.23", "6.12.117+deb12-amd64", "6.13.11", "6.14.2", "6.15.0-rc1", "7.0.0", "6.18"],
)
def test_fixed_kernels_get_every_bit_told(release: str) -> None:
    assert parameter_for(release).text == f"pci=config_acs=x0100x1@{FIRST};x0100x1@{SECOND}"


@pytest.mark.parametrize("release", ["6.11.4", "6.11.0", "6.12.22", "6.13.10-arch1", "6.14.1"])
def test_broken_kernels_get_none_and_the_reason(release: str) -> None:
    parameter = parameter_for(release)
    assert parameter.text == ""
    assert "fixed in 6.12.23" in parameter.notes[0]


@pytest.mark.parametrize("release", ["6.11.0-29-generic", "6.14.0-33-generic"])
def test_a_distribution_may_carry_the_fix(release: str) -> None:
    parameter = parameter_for(release)
    assert parameter.text.startswith("pci=config_acs=")
    assert "unless the distribution carries the fix" in parameter.notes[0]


@pytest.mark.parametrize("release", ["3.10.0-1160.el7.x86_64", "4.18.0-553.el8_10.x86_64"])
def test_old_kernels_have_no_such_parameter(release: str) -> None:
    parameter = parameter_for(release)
    assert parameter.text == ""
    assert "no such parameter" in parameter.notes[0]


@pytest.mark.parametrize("release", [None, "", "unknown", "six"])
def test_an_unknown_kernel_gets_the_older_form(release: str | None) -> None:
    assert parameter_for(release).text.startswith("pci=disable_acs_redir=")


def test_devices_are_never_separated_by_commas() -> None:
    for release in ("5.15.0", "6.18.0"):
        assert "," not in parameter_for(release).text


def test_nothing_to_change_is_no_parameter() -> None:
    tree = PciTree(facts(switch_of(2)).functions)
    assert kernel_parameter({}, tree, "6.8.0") == KernelParameter(text="")


def test_a_parameter_already_there_is_pointed_out() -> None:
    notes = parameter_for("5.15.0", cmdline="ro pci=disable_acs_redir=pci:1000:c010").notes
    assert any("the last one wins" in note for note in notes)
    assert not any("last one wins" in note for note in parameter_for("5.15.0", cmdline="ro").notes)


def test_the_path_keeps_the_domain() -> None:
    path = [Bdf("10000:e0:06.0"), Bdf("10000:e1:00.0"), Bdf("10000:e2:1f.7")]
    assert path_form(path) == "10000:e0:06.0/00.0/1f.7"


@pytest.mark.parametrize("after", range(0x80))
def test_flags_read_from_the_right_give_the_word(after: int) -> None:
    """As __pci_config_acs reads them: bit 0 is the last character."""
    text = flags(after)
    assert len(text) == 7
    for bit, char in enumerate(reversed(text)):
        asked = bool(after >> bit & 1)
        assert char == "1" if asked else char in "0x"
        if AcsFlag(1 << bit) & REDIRECT and not asked:
            assert char == "0"


def test_an_empty_word_is_forced_off_whole() -> None:
    assert parameter_for("6.18.0", after="0000").text.startswith("pci=config_acs=0000000@")
