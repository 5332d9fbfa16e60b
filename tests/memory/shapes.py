"""Shapes and requests: a test says only what matters to it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nodeprep.memory.catalogue import find_model
from nodeprep.model.memory import ModelShape, PlanRequest, RankBudget

LLAMA_70B = "meta-llama/Llama-3.3-70B-Instruct"
LLAMA_70B_FP8 = "meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def shape(name: str = LLAMA_8B, **fields: Any) -> ModelShape:
    return replace(find_model(name), **fields)


def request(**fields: Any) -> PlanRequest:
    defaults: dict[str, Any] = {
        "vllm_version": "0.11.0",
        "gpu_name": "NVIDIA L40S",
        "gpu_count": 8,
        "tensor_parallel": 1,
        "max_model_len": 8192,
    }
    return PlanRequest(**(defaults | fields))


def parts(rank: RankBudget) -> int:
    """Everything that a rank's budget is spent on."""
    return (
        rank.weights_bytes
        + rank.activation_bytes
        + rank.sampler_bytes
        + rank.logits_bytes
        + rank.nccl_bytes
        + rank.other_bytes
        + rank.cuda_graph_bytes
        + rank.kv_cache_bytes
    )
