"""Memory plans."""

from __future__ import annotations

from typing import Any

from nodeprep.model.memory import MemoryPlan, RankBudget
from nodeprep.units import bytes_from_gib


def rank(number: int, **fields: int) -> RankBudget:
    defaults = {
        "total_bytes": bytes_from_gib(44.39),
        "requested_bytes": bytes_from_gib(40.84),
        "weights_bytes": bytes_from_gib(16.9),
        "activation_bytes": bytes_from_gib(1.21),
        "sampler_bytes": bytes_from_gib(0.32),
        "logits_bytes": 0,
        "nccl_bytes": bytes_from_gib(0.2),
        "cuda_graph_bytes": bytes_from_gib(0.41),
        "non_kv_bytes": bytes_from_gib(19.04),
        "kv_cache_bytes": bytes_from_gib(21.8),
        "kv_cache_bytes_low": bytes_from_gib(20.9),
        "kv_cache_bytes_high": bytes_from_gib(22.4),
    }
    return RankBudget(rank=number, **(defaults | fields))


def memory_plan(**fields: Any) -> MemoryPlan:
    defaults: dict[str, Any] = {
        "fits": True,
        "model": "meta-llama/Llama-3.1-70B-Instruct-FP8",
        "gpu": "4 x NVIDIA L40S",
        "tensor_parallel": 4,
        "vllm_version": "0.10.2",
        "engine": "V1",
        "kv_bytes_per_token": 81_920,
        "block_size_tokens": 16,
        "ranks": tuple(rank(number) for number in range(4)),
        "limiting_rank": None,
        "limit": None,
        "kv_cache_tokens": 285_728,
        "num_blocks": 17_858,
        "max_concurrency": 8.72,
        "max_model_len": 32_768,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 8_192,
        "gpu_memory_utilization": 0.92,
        "assumptions": (
            "total as CUDA reports it on an L40S with ECC: 44.39 GiB",
            "sampler peak by PyTorch's sort: 38.6 bytes a logit",
        ),
        "warnings": (),
        "recommended": {
            "max-num-seqs": 64,
            "gpu-memory-utilization": 0.92,
            "kv-cache-dtype": "fp8",
        },
    }
    return MemoryPlan(**(defaults | fields))


PLAN_FITS = memory_plan()
PLAN_SKEWED = memory_plan(
    ranks=(
        rank(0, logits_bytes=bytes_from_gib(0.95), kv_cache_bytes=bytes_from_gib(20.85)),
        *(rank(number) for number in range(1, 8)),
    ),
    limiting_rank=0,
    engine="V0",
    vllm_version="0.7.2",
    tensor_parallel=8,
    warnings=("fp8 KV cache on this GPU needs VLLM_ATTENTION_BACKEND=FLASHINFER in 0.7.2",),
)
PLAN_TOO_BIG = memory_plan(
    fits=False,
    limit="weights: 67.6 GiB a rank are more than the 40.8 GiB asked for",
    ranks=(
        rank(0, weights_bytes=bytes_from_gib(67.6), kv_cache_bytes=0,
             kv_cache_bytes_low=0, kv_cache_bytes_high=0),
    ),
    kv_cache_tokens=0, num_blocks=0, max_concurrency=0.0, recommended={},
)  # fmt: skip
