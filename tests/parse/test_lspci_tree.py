"""`lspci -t`: parents by column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.lspci import LspciTreeNode
from nodeprep.model.pci import parse_bdf
from nodeprep.parse.lspci_tree import MAX_NODES, parse_lspci_tree
from tests.parse.attempt import value_of

TREE = r"""
-+-[0000:00]-+-00.0  Example Host bridge
 |           +-01.1-[01]--+-00.0  NVIDIA Corporation Device 2b85 [10de:2b85]
 |           |            \-00.1  NVIDIA Corporation Device 22e8
 |           +-02.1-[02-05]----00.0-[03-05]--+-00.0-[04]----00.0  Example [3DNAND, 00.0-[05]]
 |           |                               \-02.0-[05]--
 |           \-18.7  Example Host bridge
 \-[0001:20]---00.0-[21]----00.0  Far away
"""
PARENTS = {
    "0000:00:00.0": None,
    "0000:00:01.1": None,
    "0000:01:00.0": "0000:00:01.1",
    "0000:01:00.1": "0000:00:01.1",
    "0000:00:02.1": None,
    "0000:02:00.0": "0000:00:02.1",
    "0000:03:00.0": "0000:02:00.0",
    "0000:04:00.0": "0000:03:00.0",
    "0000:03:02.0": "0000:02:00.0",
    "0000:00:18.7": None,
    "0001:20:00.0": None,
    "0001:21:00.0": "0001:20:00.0",
}
# Lines of a kind that a terminal folds in front of, inside and behind a branch.
DEEP = r"""
-+-[0000:00]-+-00.0  Example Host bridge
 |           +-01.1-[01]--+-00.0  Example Display controller
 |           |            \-00.1  Example Audio device
 |           \-18.7  Example Host bridge
 \-[0000:60]-+-00.0  Example Host bridge
             +-01.1-[61-6d]----00.0-[62-6d]--+-00.0-[63-66]----00.0-[64-66]--+-10.0-[65]----00.0  Example
             |                               |                               \-14.0-[66]----00.0  Example
             |                               +-04.0-[69-6c]----00.0-[6a-6c]--+-00.0-[6b]----00.0  Example
             |                               |                               \-0c.0-[6c]--
             |                               \-1c.0-[6d]--
             \-05.2-[74]----00.0  Example with a name that is by far the longest, so that it is cut
"""  # noqa: E501


def test_parents() -> None:
    tree = parse_lspci_tree(TREE)
    assert {node.bdf: node.parent for node in tree.nodes} == PARENTS
    assert tree.complete


def test_buses_and_names() -> None:
    nodes = {node.bdf: node for node in parse_lspci_tree(TREE).nodes}
    bridge = nodes[parse_bdf("02:00.0")]
    assert (bridge.secondary_bus, bridge.subordinate_bus, bridge.root_bus) == (3, 5, "0000:00")
    assert nodes[parse_bdf("03:02.0")].secondary_bus == 5
    assert nodes[parse_bdf("04:00.0")] == LspciTreeNode(
        bdf=parse_bdf("04:00.0"),
        parent=parse_bdf("03:00.0"),
        root_bus="0000:00",
        name="Example [3DNAND, 00.0-[05]]",
    )
    assert nodes[parse_bdf("0001:21:00.0")].root_bus == "0001:20"


@pytest.mark.parametrize(
    "text",
    [
        TREE.replace("\n", "\r\n"),
        "".join(f"> {line}\n" for line in TREE.split("\n")),
        "$ lspci -tv\n```" + TREE + "```\n",
        TREE.replace("\n", "\n\n"),
    ],
)
def test_pastes(text: str) -> None:
    assert parse_lspci_tree(text) == parse_lspci_tree(TREE)


def test_one_root_bus_and_old_brackets() -> None:
    tree = parse_lspci_tree("-[00]-+-00.0\n      \\-1c.0-[0000:02-03]----00.0\n")
    assert {node.bdf: node.parent for node in tree.nodes} == {
        "0000:00:00.0": None,
        "0000:00:1c.0": None,
        "0000:02:00.0": "0000:00:1c.0",
    }
    assert tree.complete


def test_a_text_cut_anywhere_never_moves_a_function() -> None:
    for end in range(TREE.index("00.0"), len(TREE)):
        tree = value_of(parse_lspci_tree, TREE[:end])
        if tree is None:
            continue
        assert {node.bdf: node.parent for node in tree.nodes}.items() <= PARENTS.items()
        # Cut right behind the very last bridge, it looks like an endpoint.
        if len(tree.nodes) < len(PARENTS) and not TREE[:end].endswith("---00.0"):
            assert not tree.complete


def test_an_excerpt_that_begins_at_a_root_bus() -> None:
    tree = parse_lspci_tree("\n".join(TREE.split("\n")[7:]))
    assert {node.bdf for node in tree.nodes} == {"0001:20:00.0", "0001:21:00.0"}
    assert not tree.complete


def test_branches_without_a_beginning_are_left_out() -> None:
    tree = parse_lspci_tree("\n".join(TREE.split("\n")[3:]))
    assert {node.bdf: node.parent for node in tree.nodes}.items() <= PARENTS.items()
    assert "0000:01:00.1" not in {node.bdf for node in tree.nodes}
    assert not tree.complete


def test_lost_columns_lose_functions_but_move_none() -> None:
    tree = parse_lspci_tree("\n".join(line.lstrip(" |") for line in TREE.split("\n")))
    assert {node.bdf: node.parent for node in tree.nodes}.items() <= PARENTS.items()
    assert not tree.complete


def test_bus_numbers_that_do_not_fit() -> None:
    tree = parse_lspci_tree("-[0000:10]-+-00.0-[20-22]----00.0-[40]----00.0\n           \\-01.0\n")
    assert "0000:40:00.0" not in {node.bdf for node in tree.nodes}
    assert not tree.complete


def fold(text: str, columns: int, *, trim: bool = False) -> str:
    lines = [
        line[start : start + columns]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), columns)
    ]
    return "\n".join(line.rstrip() if trim else line for line in lines)


def parents(text: str) -> dict[str, str | None]:
    tree = value_of(parse_lspci_tree, text)
    return {} if tree is None else {str(node.bdf): node.parent for node in tree.nodes}


@pytest.mark.parametrize("columns", range(20, 110))
@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("text", [TREE, DEEP])
def test_a_folded_tree_never_moves_or_invents_a_function(
    text: str, columns: int, trim: bool
) -> None:
    folded = fold(text, columns, trim=trim)
    assert parents(folded).items() <= parents(text).items()
    tree = value_of(parse_lspci_tree, folded)
    assert tree is None or not tree.complete or parents(folded) == parents(text)


@pytest.mark.parametrize("columns", range(40, 80))
def test_a_folded_tree_is_joined(columns: int) -> None:
    tree = parse_lspci_tree(fold(DEEP, columns))
    assert tree.complete
    assert tree == parse_lspci_tree(DEEP)


@pytest.mark.parametrize("columns", range(20, 90))
@pytest.mark.parametrize("text", [TREE, DEEP])
def test_a_tree_in_a_narrow_window_is_not_complete(text: str, columns: int) -> None:
    narrow = "\n".join(line[:columns] for line in text.split("\n"))
    assert parents(narrow).items() <= parents(text).items()
    tree = value_of(parse_lspci_tree, narrow)
    assert tree is None or not tree.complete or parents(narrow) == parents(text)


@pytest.mark.parametrize("end", ["\\-18.7", "\\-18.7\n", "\\-02.0-[05]-\n"])
def test_with_names_a_last_line_without_one_is_cut(end: str) -> None:
    text = "-[0000:00]-+-00.0  Example Host bridge\n           "
    assert not parse_lspci_tree(text + end).complete
    assert parse_lspci_tree(text + "\\-18.7  Example\n").complete
    assert parse_lspci_tree("-[0000:00]-+-00.0\n           \\-18.7\n").complete


@pytest.mark.parametrize("rest", ["-[02]----00.0  X", "+-01.0  X", "-+-01.0  X", "--+-01.0  X"])
def test_the_rest_of_a_line_is_no_root(rest: str) -> None:
    tree = parse_lspci_tree(f"-[0000:00]-+-00.0  A\n{rest}\n           \\-18.7  B\n")
    assert {str(node.bdf) for node in tree.nodes} <= {"0000:00:00.0", "0000:00:18.7"}
    assert not tree.complete


def test_two_trees_in_one_text() -> None:
    tree = parse_lspci_tree("-[0000:00]---00.0  A\n\n$ lspci -tv\n-[0000:10]---00.0  B\n")
    assert [str(node.bdf) for node in tree.nodes] == ["0000:00:00.0", "0000:10:00.0"]


@pytest.mark.parametrize(
    "text", ["", "02:00.0 PCI bridge: X\n", "- [ ] a list\n+-- a diff\n", "-[0000:00"]
)
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(ParseError, match="no tree") as caught:
        parse_lspci_tree(text)
    assert caught.value.hint


def test_too_many_functions() -> None:
    with pytest.raises(ParseError, match="20,000"):
        parse_lspci_tree("-[0000:00]---00.0\n" * (MAX_NODES + 1))


@given(st.lists(st.text("-+\\|[] 0123456789abcdef:.", max_size=40), max_size=12))
def test_any_lines(lines: list[str]) -> None:
    tree = value_of(parse_lspci_tree, "\n".join(lines))
    if tree is None:
        return
    bdfs = {node.bdf for node in tree.nodes}
    assert all(node.parent is None or node.parent in bdfs for node in tree.nodes)


@given(st.integers(0, len(TREE) - 1), st.sampled_from(["", " ", "-", "0", "[", "\\"]))
def test_one_damaged_character(place: int, character: str) -> None:
    value_of(parse_lspci_tree, TREE[:place] + character + TREE[place + 1 :])
