"""A page of Prometheus metrics, read line by line so that an excerpt with prose in it reads too."""

from __future__ import annotations

from nodeprep.errors import ParseError
from nodeprep.model.metrics import MetricSample, MetricsPage
from nodeprep.parse.text import clean_lines, looks_like_html

KV_USAGE_NAMES = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""KV cache usage as a fraction: its present name, and the one that vLLM 0.11 has hidden."""

MAX_SAMPLES = 100_000
_LONGEST_LINE = 4_096
_MOST_LABELS = 64
"""The library's label parser copies the rest of the line for every label and escape."""


def parse_metrics(text: str) -> MetricsPage:
    """Samples in the order of the page; lines that are none are counted, not fatal.

    Raises ParseError without a single sample.
    """
    samples: list[MetricSample] = []
    types: dict[str, str] = {}
    skipped = 0
    lines = clean_lines(text)
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("#"):
            _note_type(stripped, types)
        elif stripped:
            sample = _sample(stripped) if _is_sane(stripped) else None
            skipped += sample is None
            if sample is not None:
                samples.append(sample)
        if len(samples) > MAX_SAMPLES:
            raise ParseError(f"more than {MAX_SAMPLES:,} samples", hint="keep one page")
    if not samples:
        raise _no_page(lines)
    return MetricsPage(samples=tuple(samples), types=types, skipped_lines=skipped)


def _is_sane(line: str) -> bool:
    return (
        len(line) <= _LONGEST_LINE
        and line.count('"') <= 2 * _MOST_LABELS
        and line.count("\\") <= _MOST_LABELS
    )


def _note_type(line: str, types: dict[str, str]) -> None:
    words = line[:_LONGEST_LINE].split()
    if len(words) == 4 and words[:2] == ["#", "TYPE"]:
        types[words[2]] = words[3]


def _sample(line: str) -> MetricSample | None:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(line))
        (sample,) = families[0].samples
        return MetricSample(
            name=sample.name,
            labels=dict(sample.labels),
            value=float(sample.value),
            timestamp_s=None if sample.timestamp is None else float(sample.timestamp),
        )
    except (ValueError, IndexError, KeyError, TypeError, OverflowError):
        return None


def _no_page(lines: list[str]) -> ParseError:
    if any(looks_like_html(line) for line in lines):
        return ParseError("a web page, not a page of metrics", hint="ask the server for /metrics")
    return ParseError(
        "no Prometheus sample in the text", hint="run: curl http://127.0.0.1:8000/metrics"
    )
