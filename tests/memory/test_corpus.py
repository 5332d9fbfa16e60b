"""The recorded start-up logs in the folder `shared` beside the checkout, where it is there."""

from __future__ import annotations

import statistics
from pathlib import Path

import msgspec
import pytest

from nodeprep.memory.catalogue import find_model
from nodeprep.memory.plan import plan
from nodeprep.model.memory import PlanRequest
from nodeprep.units import gib

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "memory" / "corpus.jsonl"
MODELS = {
    "llama-3-8b": "llama-3.1-8b",
    "qwen2.5-14b": "r1-distill-qwen-14b",
    "qwen2.5-7b": "r1-distill-qwen-7b",
    "qwen2.5-0.5b": "qwen2.5-0.5b",
    "qwen2.5-1.5b": "qwen2.5-1.5b",
    "qwen3-8b": "qwen3-8b",
    "qwen3-30b-a3b": "qwen3-30b-a3b-2507",
    "gpt-oss-20b": "gpt-oss-20b",
}


def _errors() -> list[float]:
    errors = []
    for line in CORPUS.read_text().splitlines():
        case = msgspec.json.decode(line)
        measured = case["measured"]["available_kv_gib"]
        plain = case["quantization"] in ("none", "mxfp4") and case["kv_cache_dtype"] == "auto"
        if case["model"] not in MODELS or not plain or not measured or measured < 0.5:
            continue
        request = PlanRequest(
            vllm_version=case["vllm"],
            gpu_name=case["gpu"],
            gpu_count=case["tp"],
            tensor_parallel=case["tp"],
            gpu_memory_gib=case["gpu_total_gib"],
            gpu_memory_utilization=case["gpu_memory_utilization"],
            max_model_len=case["max_model_len"],
            max_num_seqs=case["max_num_seqs"],
            max_num_batched_tokens=case["max_num_batched_tokens"],
            enforce_eager=bool(case["enforce_eager"]),
            usage="offline" if case["usage"] == "llm" else "server",
        )
        got = min(
            one.kv_cache_bytes for one in plan(find_model(MODELS[case["model"]]), request).ranks
        )
        errors.append(abs(gib(got) - measured) / measured)
    return errors


def test_recorded_starts_are_met() -> None:
    if not CORPUS.exists():
        pytest.skip("the folder `shared` is not beside this checkout")
    errors = _errors()
    assert len(errors) >= 10
    assert statistics.median(errors) <= 0.015
    assert sorted(errors)[int(0.9 * len(errors))] <= 0.08
