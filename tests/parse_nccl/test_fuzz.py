"""Both parsers answer any text, and never with more rows than the text has lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.gate import NcclOutcome
from nodeprep.parse.nccl_log import parse_nccl_log
from nodeprep.parse.nccl_tests import parse_nccl, parse_nccl_document
from tests.simulator.nccl import VERSIONS, simulate_all_reduce

TEXT = simulate_all_reduce(
    "2.19.6", [(0, "0000:01:00.0"), (1, "0000:02:00.0")], ["NVIDIA L40S"] * 2, 24.0
)
WORDS = st.sampled_from(
    [*TEXT.split()[:200], "nan", "-nan", "inf", "N/A", "1e+308", "9" * 30, "-1", "float", "sum",
     "#", "\n", "\n#", "via", "->", "NCCL INFO", "Rank", "device", "[", "[1,0]<stdout>:", "\x1b[1m",
     "Avg bus bandwidth    :", "Out of bounds values :", "*", "|"]
)  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=120).map(" ".join))
def test_any_text(text: str) -> None:
    try:
        report = parse_nccl(text)
    except ParseError:
        assert "\0" in text
        return
    assert len(report.rows) <= len(text.splitlines())
    assert parse_nccl_document(text).rows == len(report.rows)
    parse_nccl_log(text)


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.text(max_size=20))
def test_a_changed_table_never_passes_for_another(begin: int, end: int, new: str) -> None:
    """Whatever is overwritten, figures that come out were in the text."""
    low, high = sorted((begin, end))
    try:
        report = parse_nccl(TEXT[:low] + new + TEXT[high:])
    except ParseError:
        return
    if report.outcome is NcclOutcome.OK and not report.problems:
        whole = parse_nccl(TEXT)
        assert len(report.ranks) == 2
        assert report.rows[-1].size_bytes == whole.rows[-1].size_bytes


@given(
    st.sampled_from(VERSIONS),
    st.integers(2, 16),
    st.floats(0.5, 900.0),
    st.sampled_from(["P2P", "SHM", "NET"]),
)
def test_what_is_printed_is_read(version: str, ranks: int, busbw: float, transport: str) -> None:
    devices = [(index, f"0000:{index + 1:02x}:00.0") for index in range(ranks)]
    text = simulate_all_reduce(version, devices, ["GPU"] * ranks, busbw, transport=transport)
    report = parse_nccl(text)
    assert report.outcome is NcclOutcome.OK
    assert report.problems == ()
    assert len(report.ranks) == ranks
    top = report.rows[-1].out_of_place
    assert top is not None
    assert top.busbw_gbps is not None
    assert abs(top.busbw_gbps - busbw) <= 0.006 + 3e-4 * busbw
    assert len(report.channels) == ranks
    assert {name.partition("/")[0] for name in report.transports} == {transport}
