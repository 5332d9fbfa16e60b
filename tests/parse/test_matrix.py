"""`nvidia-smi topo -m` and `topo -p2p`, whole, mangled and cut."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.topology import LevelMatrix
from nodeprep.parse.matrix_draft import MAX_MATRICES
from nodeprep.parse.p2p import parse_p2p, parse_p2p_document
from nodeprep.parse.topo import parse_topo, parse_topo_document
from tests.parse.attempt import value_of
from tests.parse.matrices import LEGEND, expected, p2p, topo


def only(text: str) -> LevelMatrix:
    (matrix,) = parse_topo(text)
    return matrix


def test_every_cell_and_column() -> None:
    matrix = only(topo())
    assert matrix.devices == (*(f"GPU{n}" for n in range(8)), "NIC0", "NIC1")
    assert matrix.cells == expected()
    assert matrix.complete
    assert matrix.nic_rows_complete
    assert matrix.asymmetric == ()
    assert matrix.nic_names == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert matrix.affinity["GPU5"] == {
        "CPU Affinity": "32-63",
        "NUMA Affinity": "1",
        "GPU NUMA ID": "N/A",
    }
    assert "NIC0" not in matrix.affinity


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8, 16, 72])
@pytest.mark.parametrize("nics", [0, 1, 10])
def test_any_size(gpus: int, nics: int) -> None:
    matrix = only(topo(gpus, nics))
    assert matrix.cells == expected(gpus, nics)
    assert matrix.complete
    assert matrix.nic_rows_complete


def squeeze(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def expand(text: str) -> str:
    return text.replace("\x1b[4m", "").replace("\x1b[0m", "").expandtabs(8)


PASTES: dict[str, Callable[[str], str]] = {
    "one blank": squeeze,
    "tabs expanded": expand,
    "leading blanks lost": lambda text: "\n".join(line.strip() for line in text.split("\n")),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "NUL bytes": lambda text: "\0".join(text),
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.split("\n")),
    "quoted twice": lambda text: "".join(f">> > {line}\n" for line in text.split("\n")),
    "caret": lambda text: text.replace("\x1b", "^["),
    "escape swallowed": lambda text: text.replace("\x1b", ""),
    "blank lines between": lambda text: text.replace("\n", "\n\n"),
    "markdown table": lambda text: "".join(
        "| " + " | ".join(f"**{word}**" for word in re.split(r"\t+", line)) + " |\n"
        for line in text.split("\n")
    ),
    "borders": lambda text: "".join(f"| {line} |\n" for line in text.split("\n")),
    "no-break blanks": lambda text: text.replace("\t", "\u00a0\u00a0"),
    "numbered": lambda text: "".join(f"{n}  {s}\n" for n, s in enumerate(text.split("\n"), 1)),
    "one trailing comment": lambda text: text.replace("GPU NUMA ID", "GPU NUMA ID  <- look"),
    "prompt in front": lambda text: "root@gpu1:~# nvidia-smi topo -m " + text.lstrip(),
    "code fence": lambda text: f"```\n$ nvidia-smi topo -m\n{text}```\n",
    "markdown": lambda text: text.replace("_", "\\_").replace("#", "\\#"),
}


@pytest.mark.parametrize("paste", PASTES)
def test_pastes(paste: str) -> None:
    matrix = only(PASTES[paste](topo()))
    assert matrix.cells == expected()
    assert matrix.complete
    assert matrix.nic_rows_complete


@pytest.mark.parametrize("columns", [80, 72, 64, 40])
def test_wrapped_by_a_terminal(columns: int) -> None:
    """Tab stops are 8 wide, so a terminal of 8 n columns breaks between words."""
    wrapped = [
        line[start : start + columns]
        for line in expand(topo(16, 10, legend=False)).split("\n")
        for start in range(0, max(len(line), 1), columns)
    ]
    matrix = only("\n".join(wrapped) + LEGEND)
    assert matrix.cells == expected(16, 10)
    assert matrix.complete


def test_an_empty_cpu_affinity_does_not_shift_the_columns_behind_it() -> None:
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNV18\t44-51\t0\t\tN/A\n"
        "GPU1\tNV18\t X \t\t1\t\tN/A\n"
    )
    assert only(text).affinity == {
        "GPU0": {"CPU Affinity": "44-51", "NUMA Affinity": "0", "GPU NUMA ID": "N/A"},
        "GPU1": {"CPU Affinity": "", "NUMA Affinity": "1", "GPU NUMA ID": "N/A"},
    }
    # Without the tabs nobody can tell which column is empty: unknown, not shifted.
    assert set(only(squeeze(text)).affinity) == {"GPU0"}


@pytest.mark.parametrize("numa", ["N/A", "0-1", "0,8,252-255"])
def test_numa_affinity_as_printed(numa: str) -> None:
    text = f"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\t\t{numa}\t\tN/A\n"
    assert only(text).affinity["GPU0"]["NUMA Affinity"] == numa


def test_old_words_are_kept() -> None:
    text = (
        "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\tPHB\t0-13\nGPU1\tSOC\t X \tSOC\t0-13\n"
    )
    matrix = only(text + "mlx5_0\tPHB\tSOC\t X\n")
    assert matrix.cells["GPU0"] == {"GPU0": "X", "GPU1": "SOC", "mlx5_0": "PHB"}
    assert matrix.nic_rows_complete


def test_several_matrices_in_one_text() -> None:
    text = topo(4, 0) + "node 2:\n" + topo(2, 1) + p2p(2) + topo(1, 0)
    assert [len(matrix.devices) for matrix in parse_topo(text)] == [4, 3, 1]
    assert parse_p2p(text)[0].cells["GPU0"] == {"GPU0": "X", "GPU1": "OK"}


# --- cut texts: never a smaller machine -------------------------------------------------------


@pytest.mark.parametrize("make", [topo, lambda: expand(topo(4, 1)), lambda: squeeze(topo(3, 0))])
def test_a_text_cut_anywhere_is_complete_or_says_so(make: object) -> None:
    assert callable(make)
    text = make()
    whole = only(text)
    gpus = [name for name in whole.devices if name.startswith("GPU")]
    seen = set()
    for end in range(len(text)):
        matrices = value_of(parse_topo, text[:end])
        if matrices is None:
            continue
        (matrix,) = matrices
        seen.add(matrix.complete)
        if matrix.complete:
            assert matrix.devices[: len(gpus)] == whole.devices[: len(gpus)]
            assert all(matrix.cells[a][b] == whole.cells[a][b] for a in gpus for b in gpus)
        for row, cells in matrix.cells.items():
            assert cells.items() <= whole.cells[row].items()
        for row, values in matrix.affinity.items():
            assert values.items() <= whole.affinity[row].items()
    assert seen == {True, False}


def test_a_p2p_text_cut_anywhere() -> None:
    text = p2p(4, "CNS")
    for end in range(text.index("\n\nLegend") - 2):
        matrices = value_of(parse_p2p, text[:end]) or ()
        assert not any(matrix.complete for matrix in matrices)


@pytest.mark.parametrize("columns", range(20, 100))
def test_lines_cut_at_a_column_are_not_complete(columns: int) -> None:
    text = "\n".join(line[:columns] for line in expand(topo(12, 0, legend=False)).split("\n"))
    assert not any(matrix.complete for matrix in value_of(parse_topo, text) or ())


def test_missing_rows() -> None:
    lines = topo(8, 2, legend=False).splitlines()
    for gone in range(1, 9):
        matrix = only("\n".join(lines[:gone] + lines[gone + 1 :]) + "\n")
        assert not matrix.complete
    without_nic = only("\n".join(lines[:-1]) + "\n")
    assert without_nic.complete
    assert not without_nic.nic_rows_complete


def test_rows_without_a_header_are_a_cut_matrix() -> None:
    matrix = only("\n".join(topo(4, 0).splitlines()[1:]))
    assert not matrix.complete
    assert matrix.cells == expected(4, 0)


def test_rows_that_the_header_does_not_name() -> None:
    text = "\tGPU0\tGPU1\n" + "\n".join(topo(4, 0, affinity=False).splitlines()[1:])
    assert not only(text).complete


def test_a_row_given_twice_is_another_matrix() -> None:
    text = topo(2, 0, legend=False)
    matrices = parse_topo(text + text.split("\n", 1)[1])
    assert [matrix.complete for matrix in matrices] == [True, False]


@pytest.mark.parametrize(
    "rows",
    [
        "GPU0 PIX X\nGPU1 X PIX\n",  # columns swapped
        "GPU0 X PIX\nGPU1 PIX\n",  # a cell lost
        "GPU0 X NV1\nGPU1 NV18 X\n",  # a cell cut
        "GPU0 X P1X\nGPU1 PIX X\n",  # a cell garbled
        "GPU0 X X\nGPU1 X X\n",  # no diagonal
        "GPU0\nGPU1 PIX X\n",  # a row cut behind its name
    ],
)
def test_damaged_rows(rows: str) -> None:
    assert not only(f"GPU0 GPU1\n{rows}").complete


@pytest.mark.parametrize("header", ["GPU0 GPU0", "GPU0 GPU1 GPU1", "GPU0 GPU1 GPU"])
def test_damaged_headers(header: str) -> None:
    assert not only(f"{header}\n" + topo(3, 0, affinity=False).split("\n", 1)[1]).complete


def test_a_retyped_matrix_whose_halves_differ_is_marked() -> None:
    matrix = only("GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PHB X SYS\nGPU2 SYS SYS X\n")
    assert matrix.complete
    assert matrix.asymmetric == ("GPU0-GPU1",)


# --- p2p ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["OK", "CNS", "GNS", "TNS", "NS", "DR", "U"])
def test_p2p_words(status: str) -> None:
    (matrix,) = parse_p2p(p2p(3, status))
    assert matrix.complete
    assert matrix.cells["GPU2"] == {"GPU0": status, "GPU1": status, "GPU2": "X"}


def test_one_gpu() -> None:
    (matrix,) = parse_p2p("        GPU0\nGPU0    X\n\nLegend:\n")
    assert matrix.cells == {"GPU0": {"GPU0": "X"}}
    assert matrix.complete


# --- other texts --------------------------------------------------------------------------------


def test_the_other_sort_is_named() -> None:
    with pytest.raises(ParseError) as caught:
        parse_topo(p2p())
    assert "topo -p2p" in caught.value.hint
    with pytest.raises(ParseError) as caught:
        parse_p2p(topo())
    assert "topo -m" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no matrix"),
        ("hello\nGPU0 is hot\n", "no matrix"),
        ("\tGPU0\tGPU1\tCPU Affinity\n", "header"),
        ("   SW1  SW2\nSW1 PIX NODE\nSW2 NODE PIX\n", "no matrix"),
        ("     GPU0  GPU1\nGPU0  0  52\nGPU1  52  0\n", "cells"),
        ("     GPU0  GPU1\nGPU0  0  XGMI\nGPU1  XGMI  0\n", "cells"),
        ("<table><tr><td>GPU0</td></tr></table>", "HTML"),
    ],
)
def test_texts_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_topo(text)
    assert caught.value.hint


def test_too_many_matrices() -> None:
    with pytest.raises(ParseError, match="1,000 matrices"):
        parse_topo("GPU0 GPU1\nGPU0 X PIX\n" * (MAX_MATRICES + 1))


def test_documents() -> None:
    assert parse_topo_document(topo())["matrices"] == parse_topo(topo())
    assert parse_p2p_document(p2p())["matrices"] == parse_p2p(p2p())


# --- any text -----------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["GPU0", "GPU1", "GPU2", "GPU10", "NIC0", "mlx5_0", "X", "PIX", "NV1", "NV18", "SYS", "OK",
     "NS", "CPU", "Affinity", "NUMA", "ID", "GPU", "N/A", "0-31", "\n", "\n", "\t", "|", "=",
     "Legend:", "NIC0: mlx5_0", "> ", "\x1b[4m", "7"]
)  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(max_size=6)), max_size=80))
def test_any_words(words: list[str]) -> None:
    for parse in (parse_topo, parse_p2p):
        for matrix in value_of(parse, " ".join(words)) or ():
            gpus = [name for name in matrix.devices if name.startswith("GPU")]
            if matrix.complete:
                assert all(matrix.cells[a][b] for a in gpus for b in gpus)
                assert all(matrix.cells[a][a] == "X" for a in gpus)


@given(st.integers(1, 20), st.integers(0, 6), st.data())
def test_a_word_taken_out_is_noticed_or_harmless(gpus: int, nics: int, data: st.DataObject) -> None:
    text = topo(gpus, nics, affinity=False, legend=False)
    words = [match.span() for match in re.finditer(r"\S+", text)]
    start, end = data.draw(st.sampled_from(words))
    for matrix in value_of(parse_topo, text[:start] + text[end:]) or ():
        if not matrix.complete:
            continue
        whole = expected(gpus, nics)
        names = [name for name in matrix.devices if name.startswith("GPU")]
        assert names == [f"GPU{n}" for n in range(gpus)]
        assert all(matrix.cells[a][b] == whole[a][b] for a in names for b in names)
