"""What a text says beside its servers: metric names, broken lines, benchmarks; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.said import CRITICAL, WARNING, say_at
from nodeprep.lint.server import place_of
from nodeprep.model.base import Record
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.launch import LaunchText
from nodeprep.serving import flags

_BENCH_FROM = "0.8.5"
_SUFFIXES = ("_total", "_sum", "_count", "_bucket")


class Lived(Record, frozen=True):
    """A metric that not every release exports: first and last with it, and what to read instead."""

    first: str | None
    last: str | None
    instead: str
    note: str = ""


METRICS = {
    "vllm:gpu_cache_usage_perc": Lived(
        first=None, last="0.10.2", instead="vllm:kv_cache_usage_perc",
        note="in 0.11.0 only with --show-hidden-metrics-for-version=0.10",
    ),
    "vllm:kv_cache_usage_perc": Lived(
        first="0.9.2", last=None, instead="vllm:gpu_cache_usage_perc"
    ),
    "vllm:time_per_output_token_seconds": Lived(
        first=None, last="0.11.2", instead="vllm:inter_token_latency_seconds",
        note="hidden from 0.12, gone by 0.16",
    ),
    "vllm:inter_token_latency_seconds": Lived(
        first="0.10.2", last=None, instead="vllm:time_per_output_token_seconds"
    ),
    "vllm:num_requests_waiting_by_reason": Lived(
        first="0.22.1", last=None, instead="vllm:num_requests_waiting"
    ),
}  # fmt: skip


def metrics(path: str, text: LaunchText, version: str) -> Iterator[Finding]:
    """Names that the release does not export: an alert on them can never fire."""
    for name, line in text.metrics:
        base = next((name.removesuffix(one) for one in _SUFFIXES if name.endswith(one)), name)
        lived = METRICS.get(name) or METRICS.get(base)
        if lived is None or not _absent(lived, version):
            continue
        span = f"up to {lived.last}" if lived.last else f"from {lived.first}"
        yield say_at(
            place_of(path, line), "vllm-metric-renamed", WARNING, name,
            f"vLLM {version} does not export {name} ({span}"
            f"{'; ' + lived.note if lived.note else ''})",
            cause="a rule on a series that is not there never fires: absence is not zero",
            do=f"read {lived.instead}, or both names",
        )  # fmt: skip


def _absent(lived: Lived, version: str) -> bool:
    release = flags.release_of(version)
    return (lived.first is not None and release < flags.release_of(lived.first)) or (
        lived.last is not None and release > flags.release_of(lived.last)
    )


def notes(path: str, text: LaunchText, version: str) -> Iterator[Finding | Unknown]:
    for note in text.notes:
        if note.kind == "blank-after-backslash":
            yield say_at(
                place_of(path, note.line), "vllm-setting-dropped", CRITICAL, "backslash",
                "a blank after the backslash ends the command: the lines below are not part of it",
                cause="only a backslash right before the line end joins lines",
                do="remove the blank",
            )  # fmt: skip
        elif note.kind == "unread":
            yield Unknown(
                subject=place_of(path, note.line), reason=note.text,
                hint="correct it, or leave the file out",
            )  # fmt: skip
        elif note.kind == "bench" and not flags.at_least(version, _BENCH_FROM):
            yield say_at(
                place_of(path, note.line), "vllm-flag-not-in-release", CRITICAL, "vllm bench",
                f"vLLM {version} has no `vllm bench`: it came with {_BENCH_FROM}",
                cause="earlier releases have benchmarks/benchmark_serving.py in their sources",
                do="run the benchmark from a newer release against this server",
            )  # fmt: skip
