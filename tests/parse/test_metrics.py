"""Pages of Prometheus metrics."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from nodeprep.errors import ParseError
from nodeprep.parse.metrics import KV_USAGE_NAMES, MAX_SAMPLES, parse_metrics
from tests.parse.attempt import value_of

PAGE = """\
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a \\"b\\" \\\\ c"} 20.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0"} 29.0 1700000000000
up 1
"""


def test_samples() -> None:
    page = parse_metrics(PAGE)
    waiting, preemptions, up = page.samples
    assert waiting.labels == {"engine": "0", "model_name": 'a "b" \\ c'}
    assert (preemptions.name, preemptions.value) == ("vllm:num_preemptions_total", 29.0)
    assert preemptions.timestamp_s == 1700000000.0
    assert (up.labels, up.value) == ({}, 1.0)
    assert page.types["vllm:num_requests_waiting"] == "gauge"
    assert page.skipped_lines == 0


@pytest.mark.parametrize("name", KV_USAGE_NAMES)
def test_both_names_of_the_kv_usage(name: str) -> None:
    page = parse_metrics(f'{name}{{engine="0"}} 0.5\n{name}{{engine="1"}} 0.9\n' + PAGE)
    assert [sample.value for sample in page.named(*KV_USAGE_NAMES)] == [0.5, 0.9]


def test_a_page_of_the_library_comes_back() -> None:
    registry = CollectorRegistry()
    Gauge("a", "A", ["b"], registry=registry).labels('x,y="z"\n').set(-1.5)
    Counter("c", "C", registry=registry).inc(7)
    Histogram("h", "H", registry=registry, buckets=(1.0, 2.0)).observe(1.5)
    page = parse_metrics(generate_latest(registry).decode())
    assert page.samples[0].labels == {"b": 'x,y="z"\n'}
    assert [one.value for one in page.named("c_total")] == [7.0]
    assert {one.labels["le"]: one.value for one in page.named("h_bucket")} == {
        "1.0": 0.0,
        "2.0": 1.0,
        "+Inf": 1.0,
    }
    assert page.skipped_lines == 0


def test_an_excerpt_with_prose() -> None:
    page = parse_metrics("curl localhost:8000/metrics | grep vllm\n> up 1\nWaiting for it ...\n")
    assert [sample.name for sample in page.samples] == ["up"]
    assert page.skipped_lines == 2


def test_what_is_no_number_is_kept_and_written() -> None:
    page = parse_metrics("a NaN\nb +Inf\n")
    assert math.isnan(page.samples[0].value)
    assert b"null" in msgspec.json.encode(page)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no Prometheus sample"),
        ("# HELP a b\n# TYPE a gauge\n", "no Prometheus sample"),
        ("{} \n}{\n", "no Prometheus sample"),
        ("<html><body>404</body></html>", "web page"),
        ('a{b="' + "x" * 5000 + '"} 1', "no Prometheus sample"),
        ('a{b="' + '\\"' * 500 + '"} 1', "no Prometheus sample"),
        ("a{" + 'b="c",' * 500 + "} 1", "no Prometheus sample"),
        ("a 1\n" * (MAX_SAMPLES + 1), "100,000 samples"),
    ],
)
def test_texts_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_metrics(text)
    assert caught.value.hint


WORDS = st.sampled_from(
    ["vllm:a", "{", "}", 'engine="0"', ",", " ", "1", "1e999", "-1", "NaN", "0x1", "1_0", "\n",
     "\\", '"', "#", "# TYPE", "gauge", "# EOF", "# {", "=", "__name__"]
)  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(max_size=5)), max_size=40).map("".join))
def test_any_text(text: str) -> None:
    assert msgspec.json.encode(value_of(parse_metrics, text))
