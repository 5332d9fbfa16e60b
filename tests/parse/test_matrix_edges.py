"""Matrices whose right edge is cut, or whose lines a terminal has folded inside a word."""

from __future__ import annotations

import pytest

from nodeprep.errors import ParseError
from nodeprep.model.topology import LevelMatrix
from nodeprep.parse.affinity import cpu_count
from nodeprep.parse.p2p import parse_p2p
from nodeprep.parse.topo import parse_topo
from tests.parse.attempt import value_of
from tests.parse.matrices import LEGEND, expected, p2p, topo


def only(text: str) -> LevelMatrix:
    (matrix,) = parse_topo(text)
    return matrix


def expand(text: str) -> str:
    return text.replace("\x1b[4m", "").replace("\x1b[0m", "").expandtabs(8)


def window(text: str, columns: int) -> str:
    return "\n".join(line[:columns] for line in text.split("\n"))


def fold(text: str, columns: int) -> str:
    return "\n".join(
        line[start : start + columns]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), columns)
    )


def old(lists: tuple[str, ...], legend: str = "") -> str:
    """A matrix with the CPU Affinity only, as nvidia-smi printed it before 2021."""
    names = [f"GPU{n}" for n in range(len(lists))]
    lines = ["\t" + "\t".join(names) + "\tCPU Affinity"]
    for name, cpus in zip(names, lists, strict=True):
        cells = [" X " if other == name else "SYS" for other in names]
        lines.append("\t".join([name, *cells, cpus]))
    return expand("\n".join(lines) + "\n") + legend


LONG = ("0-23,96-119", "24-47,120-143", "24-47,120-143")
LONG_LEGEND = LEGEND.replace("NUMA nodes", "NUMA nodes (QPI/UPI)")


@pytest.mark.parametrize("columns", range(30, 130))
@pytest.mark.parametrize("cut", [window, fold])
def test_no_narrow_text_tells_a_false_affinity(columns: int, cut: object) -> None:
    assert callable(cut)
    for text in (old(LONG, LONG_LEGEND), expand(topo(4, 2)), expand(topo(8, 0, legend=False))):
        whole = only(text)
        for matrix in value_of(parse_topo, cut(text, columns)) or ():
            for row, values in matrix.affinity.items():
                assert values.items() <= whole.affinity[row].items()


def test_a_list_at_the_right_edge_is_unknown() -> None:
    text = old(("48-71,144-167",) * 2, LONG_LEGEND)
    column = len(text.split("\n")[1])
    assert only(text).affinity["GPU0"] == {"CPU Affinity": "48-71,144-167"}
    assert only(window(text, column - 2)).affinity == {}
    # `48-71,144` is well formed, and cut all the same.
    assert only(window(text, column - 4)).affinity == {}


def test_a_list_as_long_as_that_of_another_node_is_whole_at_the_edge() -> None:
    text = old(LONG)
    assert {name: values["CPU Affinity"] for name, values in only(text).affinity.items()} == {
        f"GPU{n}": cpus for n, cpus in enumerate(LONG)
    }


@pytest.mark.parametrize("columns", [44, 46, 48, 50, 55])
def test_a_folded_list_is_joined(columns: int) -> None:
    lists = ("0-0,8-8,16-16,24-24,32-32,40-40", "80-80,88-88,96-96,104-104,112-112,120-120")
    assert {
        name: values["CPU Affinity"]
        for name, values in only(fold(old(lists), columns)).affinity.items()
    } == {"GPU0": lists[0], "GPU1": lists[1]}


def test_a_folded_list_in_front_of_other_columns() -> None:
    head = "GPU0 GPU1 CPU Affinity NUMA Affinity"
    text = head + "\n" + "GPU0  X   SYS 48-71,1".rjust(len(head)) + "\n44-167 3\n"
    matrix = only(text + "GPU1 SYS   X   0-3  0\n")
    assert matrix.affinity["GPU0"] == {"CPU Affinity": "48-71,144-167", "NUMA Affinity": "3"}
    assert matrix.affinity["GPU1"] == {"CPU Affinity": "0-3", "NUMA Affinity": "0"}


@pytest.mark.parametrize("word", ["CPU", "...", "SYS", "0-3,", "0x3f", "N", "9" * 20])
def test_what_is_no_affinity(word: str) -> None:
    assert only(f"GPU0 GPU1 CPU Affinity\nGPU0 X SYS {word}\nGPU1 SYS X 0-3\n").affinity == {
        "GPU1": {"CPU Affinity": "0-3"}
    }


def test_a_column_whose_name_is_cut_takes_no_value_of_another() -> None:
    # The CPU Affinity is empty here; N/A stands in the next column.
    text = "     GPU0 GPU1 CPU Affinity NUMA Affin\nGPU0  X   SYS    N/A\nGPU1 SYS   X     N/A\n"
    assert only(text).affinity == {}


def test_cells_that_have_grown_together_do_not_hide_the_affinity() -> None:
    text = "GPU0 NIC0 NIC1 NIC2 CPU Affinity NUMA Affinity\nGPU0 X NODENODE PIX 0-31,64-95 0\n"
    matrix = only(text)
    assert matrix.affinity["GPU0"] == {"CPU Affinity": "0-31,64-95", "NUMA Affinity": "0"}
    assert matrix.cells["GPU0"] == {"GPU0": "X"}
    assert not matrix.nic_rows_complete


@pytest.mark.parametrize(
    ("value", "count"),
    [("0", 1), ("0-3", 4), ("0-3,8", 5), ("3-0", None), ("N/A", None), ("0-3-5", None), ("", None)],
)
def test_cpu_count(value: str, count: int | None) -> None:
    assert cpu_count(value) == count


# --- names of NICs ------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", range(20, 180))
@pytest.mark.parametrize("cut", [window, fold])
def test_no_narrow_text_tells_a_false_level(columns: int, cut: object) -> None:
    assert callable(cut)
    for gpus, nics in ((2, 13), (8, 12), (12, 0)):
        text, whole = expand(topo(gpus, nics)), expected(gpus, nics)
        for matrix in value_of(parse_topo, cut(text, columns)) or ():
            assert set(matrix.devices) <= set(whole)
            for row, cells in matrix.cells.items():
                assert cells.items() <= whole[row].items()
            if matrix.nic_rows_complete:
                assert set(matrix.devices) == set(whole)


@pytest.mark.parametrize("columns", [127, 126, 125, 130])
def test_a_header_folded_inside_a_name_is_joined(columns: int) -> None:
    matrix = only(fold(expand(topo(2, 13)), columns))
    assert matrix.cells == expected(2, 13)
    assert matrix.nic_rows_complete


def test_a_border_may_stand_between_the_pieces() -> None:
    text = "| | GPU0 | GPU1 | NI\nC0 | NIC1 |\n|---|---|\n| GPU0 | X | SYS | PIX | SYS |\n"
    assert only(text).cells["GPU0"] == {"GPU0": "X", "GPU1": "SYS", "NIC0": "PIX", "NIC1": "SYS"}


def test_a_break_that_can_be_read_both_ways_adds_no_device() -> None:
    text = "GPU0 GPU1 mlx5_0 hfi1\nrocep4 mlx5_1\nGPU0 X SYS PIX SYS SYS SYS\nGPU1 SYS X SYS\n"
    matrix = only(text)
    assert matrix.devices == ("GPU0", "GPU1", "mlx5_0")
    assert matrix.complete
    assert not matrix.nic_rows_complete


@pytest.mark.parametrize("name", ["mlx5_", "mlx5_1"])
def test_a_last_name_without_its_own_row_is_left_out(name: str) -> None:
    matrix = only(f"     GPU0 mlx5_0 {name}\nGPU0  X   PIX   SYS\nmlx5_0 PIX  X  SYS\n")
    assert matrix.devices == ("GPU0", "mlx5_0")
    assert not matrix.nic_rows_complete
    whole = only("     GPU0 mlx5_0 mlx5_1\nGPU0 X PIX SYS\nmlx5_0 PIX X SYS\nmlx5_1 SYS SYS X\n")
    assert whole.devices == ("GPU0", "mlx5_0", "mlx5_1")
    assert whole.nic_rows_complete


def test_a_last_name_is_doubtful_where_the_rows_are_longer() -> None:
    matrix = only("GPU0 mlx5_0 mlx5\nGPU0   X   PIX   SYS   0-3   0\n")
    assert matrix.devices == ("GPU0", "mlx5_0")
    assert not matrix.nic_rows_complete


def test_a_name_given_twice_does_not_overwrite() -> None:
    matrix = only("GPU0 NIC0 NIC1 NIC0 CPU Affinity\nGPU0 X PIX SYS SYS 0-3\n")
    assert matrix.cells["GPU0"] == {"GPU0": "X", "NIC0": "PIX", "NIC1": "SYS"}
    assert not matrix.nic_rows_complete


@pytest.mark.parametrize("header", ["NIC0 ... NIC5 CPU Affinity", "NIC0 NIC1 N", "NIC0 … NIC5"])
def test_an_elided_header_is_not_whole(header: str) -> None:
    matrix = only(f"GPU0 GPU1 {header}\nGPU0 X SYS PIX\nGPU1 SYS X PIX\nNIC0 PIX PIX X\n")
    assert matrix.complete
    assert not matrix.nic_rows_complete


@pytest.mark.parametrize("header", ["GPU0 GPU1 ... GPU7", "GPU0 GPU1 ...", "GPU0 GPU1 GP"])
def test_elided_gpus_are_not_a_smaller_machine(header: str) -> None:
    assert not only(f"{header}\nGPU0 X SYS\nGPU1 SYS X\n").complete


def test_rows_of_nics_that_the_header_does_not_name() -> None:
    matrix = only("GPU0 NIC0\nGPU0 X PIX\nNIC0 PIX X\nNIC1 SYS SYS\n")
    assert matrix.complete
    assert not matrix.nic_rows_complete


# --- one GPU ------------------------------------------------------------------------------------


def test_the_legend_tells_the_sort_of_a_matrix_of_one_gpu() -> None:
    with pytest.raises(ParseError) as caught:
        parse_topo(p2p(1))
    assert "topo -p2p" in caught.value.hint
    assert parse_p2p(p2p(1))[0].complete
    assert only(topo(1, 0, affinity=False)).complete
    with pytest.raises(ParseError) as caught:
        parse_p2p(topo(1, 0, affinity=False))
    assert "topo -m" in caught.value.hint
