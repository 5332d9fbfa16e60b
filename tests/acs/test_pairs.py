"""Which pairs are wanted."""

from __future__ import annotations

import pytest

from nodeprep.acs.pairs import PairChoice, parse_pairs
from nodeprep.errors import UsageError


def test_a_group_is_the_whole_node_by_default() -> None:
    assert parse_pairs("group").wanted(3) == ((0, 1), (0, 2), (1, 2))


def test_groups_are_consecutive_and_never_mix() -> None:
    wanted = parse_pairs("group", group_size=2).wanted(5)
    assert wanted == ((0, 1), (2, 3))


def test_all_pairs_ignore_the_group_size() -> None:
    assert len(parse_pairs("all", group_size=2).wanted(4)) == 6


def test_a_list_is_taken_in_any_order_and_once() -> None:
    choice = parse_pairs(" 2-0, GPU0-gpu1,1-0 ")
    assert choice.wanted(3) == ((0, 1), (0, 2))
    assert choice.explicit


@pytest.mark.parametrize("count", [0, 1])
def test_one_gpu_has_no_pair(count: int) -> None:
    assert PairChoice().wanted(count) == ()


@pytest.mark.parametrize(
    "text",
    ["", "0", "0-0", "0-1;1-2", "groups", "0-1,", "-1-2", "0-99999", "0-1" * 3000, "\x1b[2J"],
)
def test_what_is_no_choice_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="not a choice of pairs") as caught:
        parse_pairs(text)
    assert "0-1,0-2" in caught.value.hint


def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="there is no GPU7"):
        parse_pairs("0-7").wanted(4)
