"""vLLM memory per rank: the model's shape, the engine's request, the plan."""

from __future__ import annotations

from typing import Any

from nodeprep.model.base import Record


class ModelShape(Record, frozen=True):
    """What a config.json says of a model, in numbers the arithmetic needs."""

    name: str
    architecture: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int | None
    dtype: str
    """Activation type: bfloat16, float16, float32."""
    quantization: str | None
    """None, fp8, fp8-block, awq, gptq, compressed-tensors..., as vLLM names it."""
    tied_embeddings: bool
    attention_bias: bool = False
    params_billion: float | None = None
    """10**9 parameters; None: computed from the shape."""
    weight_file_bytes: int | None = None
    """Sum of the safetensors, when the folder holds them."""
    source: str = ""
    """Where the numbers come from."""


class PlanRequest(Record, frozen=True):
    """What the engine is asked for; None takes the default of that version on that GPU."""

    vllm_version: str
    gpu_name: str
    gpu_count: int
    tensor_parallel: int
    gpu_memory_gib: float | None = None
    """Measured total of each GPU as CUDA reports it."""
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str | None = None
    quantization: str | None = None
    dtype: str | None = None
    enforce_eager: bool = False
    chunked_prefill: bool = True
    params_billion: float | None = None
    usage: str = "server"
    """`server` (vllm serve) or `offline` (LLM class)."""
    block_size: int | None = None


class RankBudget(Record, frozen=True):
    """Where the bytes of one rank go."""

    rank: int
    total_bytes: int
    requested_bytes: int
    weights_bytes: int
    activation_bytes: int
    sampler_bytes: int
    logits_bytes: int
    nccl_bytes: int
    cuda_graph_bytes: int
    non_kv_bytes: int
    kv_cache_bytes: int
    kv_cache_bytes_low: int
    kv_cache_bytes_high: int


class MemoryPlan(Record, frozen=True):
    fits: bool
    model: str
    gpu: str
    tensor_parallel: int
    vllm_version: str
    engine: str
    """`V0` or `V1`."""
    kv_bytes_per_token: int
    """On one rank."""
    block_size_tokens: int
    ranks: tuple[RankBudget, ...]
    limiting_rank: int | None
    limit: str | None
    """The first limit hit when it does not fit."""
    kv_cache_tokens: int
    num_blocks: int
    max_concurrency: float
    """Requests of max_model_len at once."""
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    recommended: dict[str, Any]
