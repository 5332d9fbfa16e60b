"""The page of `plan --sweep`: one row a combination."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from nodeprep.model.memory import SweepRow
from nodeprep.model.report import SweepReport
from nodeprep.output import words as phrase
from nodeprep.output.text.look import (
    BAD,
    GOOD,
    PLAIN,
    QUIET,
    STRONG,
    Look,
    blank,
    headline,
    indented,
    say,
    table,
)
from nodeprep.units import gib

_FIGURES = ("KV GiB", "between", "KV tokens", "at once")


def sweep_page(report: SweepReport, look: Look) -> Iterator[RenderableType]:  # noqa: ARG001
    fitting = sum(row.fits for row in report.rows)
    yield headline(
        f"{fitting} of {phrase.count(len(report.rows), 'combination')} fit",
        GOOD if fitting else BAD,
        note=f"{report.model} on {report.gpu}, vLLM {report.vllm_version}",
    )
    yield blank()
    yield indented(_table(report))


def _table(report: SweepReport) -> RenderableType:
    names = tuple(report.axes)
    made = table(*names, "fits", *_FIGURES, "limit", right=_FIGURES, free=("limit",))
    for row in report.rows:
        verdict = say("yes" if row.fits else "no", GOOD if row.fits else BAD)
        cells = [say(row.settings[name], STRONG) for name in names]
        figures = [say(one, PLAIN if row.fits else QUIET) for one in _figures(row)]
        made.add_row(*cells, verdict, *figures, say(row.limit or "", QUIET))
    return made


def _figures(row: SweepRow) -> tuple[str, str, str, str]:
    if row.kv_cache_bytes is None:
        return "", "", "", ""
    low, high = row.kv_cache_bytes_low or 0, row.kv_cache_bytes_high or 0
    return (
        f"{gib(row.kv_cache_bytes):.2f}",
        f"{gib(low):.1f}-{gib(high):.1f}" if low > 0 else "",
        f"{row.kv_cache_tokens or 0:,}",
        f"{row.max_concurrency or 0:.2f}",
    )
