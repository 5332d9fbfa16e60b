"""The page of `plan`, and the memory part of a boot run."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from nodeprep.model.memory import MemoryPlan, RankBudget
from nodeprep.output import words as phrase
from nodeprep.output.text.look import (
    BAD,
    CAREFUL,
    GOOD,
    PLAIN,
    QUIET,
    STRONG,
    Look,
    blank,
    heading,
    headline,
    indented,
    items,
    labelled,
    say,
    table,
)
from nodeprep.units import gib, show_bytes

_PARTS = (
    ("total_bytes", "total, as CUDA sees it"),
    ("requested_bytes", "asked for"),
    ("weights_bytes", "weights"),
    ("activation_bytes", "activations"),
    ("sampler_bytes", "sampler"),
    ("logits_bytes", "logits"),
    ("nccl_bytes", "NCCL"),
    ("cuda_graph_bytes", "CUDA graphs"),
    ("non_kv_bytes", "all but KV"),
    ("kv_cache_bytes", "KV cache"),
)
_STRONG_PARTS = ("requested_bytes", "kv_cache_bytes")


def memory_page(plan: MemoryPlan, look: Look) -> Iterator[RenderableType]:
    yield headline(
        "FITS" if plan.fits else "DOES NOT FIT",
        GOOD if plan.fits else BAD,
        note=f"{plan.model} on {plan.gpu}",
    )
    if plan.limit:
        yield from items([plan.limit])
    yield from _warnings(plan)
    yield blank()
    yield labelled(_figures(plan, look))
    yield from budget_table(plan, look)
    yield from _recommended(plan)
    yield from _advice(plan)
    yield from _steps(plan)
    if plan.assumptions:
        yield blank()
        yield heading("assumed")
        yield from items(
            (say(text, QUIET) for text in plan.assumptions), mark=look.dot, style=QUIET
        )


def memory_section(plan: MemoryPlan, look: Look) -> Iterator[RenderableType]:
    yield blank()
    line = heading("memory")
    line.append("  fits" if plan.fits else "  does not fit", style=GOOD if plan.fits else BAD)
    yield line
    if plan.limit:
        yield from items([plan.limit])
    yield from _warnings(plan)
    yield labelled(_figures(plan, look))
    yield from budget_table(plan, look)


def memory_line(plan: MemoryPlan) -> Iterator[RenderableType]:
    """The plan in one line, for a run that ended before it mattered."""
    yield blank()
    figures = f"{plan.kv_cache_tokens:,} KV tokens at tensor parallel {plan.tensor_parallel}"
    yield heading("memory").append("  fits", GOOD).append(f"  {figures}")


def budget_table(plan: MemoryPlan, look: Look) -> Iterator[RenderableType]:
    """GiB of each part, ranks with the same figures in one column."""
    if not plan.ranks:
        return
    groups = phrase.like_ranks(plan.ranks)
    names = [name + ("*" if _limits(plan, rank, groups) else "") for name, rank in groups]
    per_block = max(1, (look.width - 28) // 12)
    for start in range(0, len(groups), per_block):
        yield blank()
        chosen = groups[start : start + per_block]
        shown = names[start : start + per_block]
        yield indented(_budget(chosen, shown, look))
    if any(name.endswith("*") for name in names):
        yield from items([say("* the rank that limits the KV cache of all", QUIET)])


def _limits(plan: MemoryPlan, rank: RankBudget, groups: list[tuple[str, RankBudget]]) -> bool:
    return len(groups) > 1 and rank.rank == plan.limiting_rank


def _budget(groups: list[tuple[str, RankBudget]], names: list[str], look: Look) -> RenderableType:
    made = table("GiB a rank", *names, "", right=names)
    first = groups[0][1]
    cells = min(40, look.width - 28 - 12 * len(groups))
    for field, label in _PARTS:
        style = STRONG if field in _STRONG_PARTS else PLAIN
        values = [say(_gib(getattr(rank, field)), style) for _, rank in groups]
        made.add_row(say(label, style or QUIET), *values, _bar(first, field, cells, look))
    if any(rank.kv_cache_bytes < 0 for _, rank in groups):
        lacks = [say(_lack(rank), BAD) for _, rank in groups]
        made.add_row(say("lacks", QUIET), *lacks, Text(""))
    if any(_spread(rank) for _, rank in groups):
        spreads = [say(_spread(rank), QUIET) for _, rank in groups]
        made.add_row(say("  between", QUIET), *spreads, Text(""))
    return made


def _gib(size_bytes: int) -> str:
    """No memory is left where the sum is below zero; by how much is said once, in `lacks`."""
    return "none" if size_bytes < 0 else f"{gib(size_bytes):.2f}"


def _bar(rank: RankBudget, field: str, cells: int, look: Look) -> Text:
    if cells < 12 or rank.total_bytes <= 0:
        return Text("")
    style = "green" if field == "kv_cache_bytes" else QUIET
    return say(look.bar(getattr(rank, field) / rank.total_bytes, cells), style)


def _spread(rank: RankBudget) -> str:
    low, high = rank.kv_cache_bytes_low, rank.kv_cache_bytes_high
    return "" if low == high or low < 0 else f"{gib(low):.1f}-{gib(high):.1f}"


def _lack(rank: RankBudget) -> str:
    return f"{gib(-rank.kv_cache_bytes):.2f}" if rank.kv_cache_bytes < 0 else ""


def _figures(plan: MemoryPlan, look: Look) -> Iterator[tuple[str, RenderableType]]:
    dot = f" {look.dot} "
    yield (
        "engine",
        say(
            f"vLLM {plan.vllm_version} ({plan.engine}){dot}tensor parallel {plan.tensor_parallel}"
            f"{dot}gpu-memory-utilization {plan.gpu_memory_utilization:g}"
        ),
    )
    yield (
        "kv cache",
        say(
            f"{plan.kv_cache_tokens:,} tokens{dot}{plan.num_blocks:,} blocks of "
            f"{plan.block_size_tokens}{dot}{show_bytes(plan.kv_bytes_per_token)} a token and rank"
        ),
    )
    yield (
        "holds",
        say(f"{plan.max_concurrency:.2f} requests of {plan.max_model_len:,} tokens at once"),
    )
    yield (
        "limits",
        say(
            f"max-num-seqs {plan.max_num_seqs:,}{dot}"
            f"max-num-batched-tokens {plan.max_num_batched_tokens:,}"
        ),
    )


def _warnings(plan: MemoryPlan) -> Iterator[RenderableType]:
    yield from items((say(text) for text in plan.warnings), mark="!", style=CAREFUL)


def _recommended(plan: MemoryPlan) -> Iterator[RenderableType]:
    wanted = {name: value for name, value in plan.recommended.items() if not _empty(value)}
    if not wanted:
        return
    yield blank()
    yield heading("recommended")
    made = table("option", "value", free=("value",))
    made.show_header = False
    for name, value in wanted.items():
        made.add_row(say(str(name)), say(phrase.value_text(value), STRONG))
    yield indented(made)


def _empty(value: object) -> bool:
    """A length or a size of 0 says that nothing fits: no server starts with it."""
    return value is None or (value == 0 and not isinstance(value, bool))


def _advice(plan: MemoryPlan) -> Iterator[RenderableType]:
    if not plan.advice:
        return
    yield blank()
    yield heading("advice")
    made = table("option", "value", "KV GiB", "why", right=("KV GiB",), free=("why",))
    for one in plan.advice:
        freed = "" if one.frees_bytes is None else f"{gib(one.frees_bytes):+.2f}"
        made.add_row(say(one.option), say(one.value, STRONG), say(freed), say(one.reason, QUIET))
    yield indented(made)


def _steps(plan: MemoryPlan) -> Iterator[RenderableType]:
    if not plan.steps:
        return
    yield blank()
    yield heading("formulas", note="* a constant in it is fitted to logs")
    made = table("term", "value", "formula: numbers", "source", right=("value",),
                 free=("term", "formula: numbers", "source"))  # fmt: skip
    for one in plan.steps:
        made.add_row(
            say(one.term + ("*" if one.fitted else "")),
            say(phrase.step_value(one), STRONG),
            say(f"{one.formula}: {one.numbers}"),
            say(one.source, QUIET),
        )
    yield indented(made)
