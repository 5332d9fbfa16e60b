"""`nvbandwidth -j`: {"nvbandwidth": {"testcases": [{"name", "status", "bandwidth_matrix"}]}}.

Cells are texts, `24.97` or `N/A` (json_output.cpp of nvbandwidth 0.5 and later).  A test that does
not run on this machine has the status `Waived` and no matrix; it may stand in the list twice.
"""

from __future__ import annotations

import math

import msgspec

from nodeprep.errors import ParseError
from nodeprep.model.base import Record

_MAX_CELLS = 4096


class BandwidthTable(Record, frozen=True):
    """One test that ran: GB/s by row and column, None where nothing was measured."""

    name: str
    cells: tuple[tuple[float | None, ...], ...]


class _Case(msgspec.Struct):
    name: str = ""
    status: str = ""
    bandwidth_matrix: list[list[str | None]] = []


class _Body(msgspec.Struct):
    testcases: list[_Case] = []
    error: str = ""


class _Document(msgspec.Struct):
    nvbandwidth: _Body


def parse_nvbandwidth(text: str) -> tuple[BandwidthTable, ...]:
    """Tests that ran, in order; waived ones are left out.

    Raises ParseError for another text, and for the program's own error.
    """
    start = text.find("{")
    try:
        body = msgspec.json.decode(text[start:].encode() if start >= 0 else b"", type=_Document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParseError(f"not the JSON of nvbandwidth: {error}") from None
    if body.nvbandwidth.error and not body.nvbandwidth.testcases:
        raise ParseError(f"nvbandwidth: {body.nvbandwidth.error[:200]}")
    return tuple(
        BandwidthTable(name=case.name, cells=tuple(map(_row, case.bandwidth_matrix)))
        for case in body.nvbandwidth.testcases
        if case.bandwidth_matrix and sum(map(len, case.bandwidth_matrix)) <= _MAX_CELLS
    )


def _row(cells: list[str | None]) -> tuple[float | None, ...]:
    return tuple(map(_figure, cells))


def _figure(cell: str | None) -> float | None:
    try:
        value = float(cell) if cell is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
