"""The threshold table for docs/gate.md, made from the rows that are judged by.

python -m nodeprep.gate.table_page
"""

from __future__ import annotations

import sys

from nodeprep.gate.table import TABLE, ClassRow, Figures

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
_HEAD = (
    "| class | GPUs | layout | run ends | expected | pass | fraction | warn below | transport "
    "| rests on |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def markdown() -> str:
    """All rows, GB/s; a row that no public recording stands behind says so.

    Two lines where the figures depend on the largest size of the run.
    """
    lines = [line for row in TABLE for line in _lines(row)]
    return "\n".join([BEGIN, *_HEAD, *lines, END])


def model_only() -> tuple[str, ...]:
    """The classes whose figures rest on a model, or on another class, alone."""
    return tuple(f"{row.link_class}, {_gpus(row)} GPUs" for row in TABLE if not row.verified)


def _lines(row: ClassRow) -> list[str]:
    if row.large is None:
        size = "512 MiB and more" if row.over_nvlink else "any size"
        return [_line(row, row.figures, size, _proof(row))]
    return [
        _line(row, row.figures, "512 MiB to 2 GiB", _proof(row)),
        _line(row, row.large, "4 GiB and more", "as above"),
    ]


def _proof(row: ClassRow) -> str:
    proof = row.evidence if row.verified else f"**model only**: {row.evidence}"
    return proof + (f"; {row.note}" if row.note else "")


def _line(row: ClassRow, figures: Figures, size: str, proof: str) -> str:
    cells = (
        row.link_class,
        _gpus(row),
        row.words,
        size,
        f"{figures.expected_gbps:g}",
        f"{figures.pass_gbps:g}",
        f"{figures.pass_gbps / figures.expected_gbps:.2f}",
        f"{figures.warn_below_gbps:g}",
        row.transport or "either",
        proof,
    )
    return f"| {' | '.join(cells)} |"


def _gpus(row: ClassRow) -> str:
    return str(row.gpus_min) if row.gpus_min == row.gpus_max else f"{row.gpus_min}-{row.gpus_max}"


if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
