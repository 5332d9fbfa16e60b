"""Public start-up logs that no constant was set on: their conditions, and the plan of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nodeprep.memory.catalogue import find_model
from nodeprep.memory.plan import plan
from nodeprep.model.memory import MemoryPlan, ModelShape, PlanRequest
from nodeprep.parse.hf_config import parse_hf_config

FILE = Path(__file__).resolve().parent / "public_starts.jsonl"
_OPTIONS = (
    "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
    "kv_cache_dtype", "enforce_eager", "flashinfer", "nvlink",
)  # fmt: skip


def starts() -> list[dict[str, Any]]:
    """One a line: a catalogue model or its config.json, the conditions, GiB of KV in the log."""
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def planned(start: dict[str, Any]) -> MemoryPlan:
    request = PlanRequest(
        vllm_version=start["vllm"],
        gpu_name=start["gpu"],
        gpu_count=start["tp"],
        tensor_parallel=start["tp"],
        gpu_memory_gib=start.get("gpu_total_gib"),
        **{name: start[name] for name in _OPTIONS if name in start},
    )
    return plan(_shape(start), request)


def _shape(start: dict[str, Any]) -> ModelShape:
    if "hf_config" in start:
        return parse_hf_config(json.dumps(start["hf_config"]), start["id"])
    shape = find_model(start["catalogue"])
    if "quantization_config" not in start:
        return shape
    config = {"quantization_config": start["quantization_config"], "num_hidden_layers": 2,
              "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 64,
              "vocab_size": 64}  # fmt: skip
    quantized = parse_hf_config(json.dumps(config), "quantization")
    return replace(shape, quant=quantized.quant, quantization=quantized.quantization)
