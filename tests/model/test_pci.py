"""Addresses and ACS words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.pci import REDIRECT, AcsFlag, acs_flag, acs_names, acs_word, parse_bdf


@pytest.mark.parametrize(
    ("text", "bdf"),
    [
        ("3b:00.0", "0000:3b:00.0"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        (" 0001:01:1f.7 ", "0001:01:1f.7"),
    ],
)
def test_addresses(text: str, bdf: str) -> None:
    assert parse_bdf(text) == bdf


@pytest.mark.parametrize("text", ["", "3b:00", "3b:20.0", "3b:00.8", "x:00.0", "3b:00.0 y"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ParseError):
        parse_bdf(text)


@given(st.text(max_size=30))
def test_an_address_is_canonical_or_refused(text: str) -> None:
    try:
        bdf = parse_bdf(text)
    except ParseError:
        return
    assert parse_bdf(bdf) == bdf


def test_redirect_is_the_mask_of_the_kernel() -> None:
    assert acs_word(REDIRECT) == "002c"
    assert acs_names(AcsFlag(0x1D)) == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert acs_flag("EgressCtrl") is AcsFlag.EGRESS_CTRL
    assert acs_flag("Nonsense") is None
