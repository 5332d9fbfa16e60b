"""vLLM memory per rank: the model's shape, the engine's request, the plan."""

from __future__ import annotations

from typing import Any

from nodeprep.model.base import Record


class QuantScheme(Record, frozen=True):
    """How the linear layers are stored, from `quantization_config`."""

    method: str
    """As vLLM names it: fp8, awq, gptq, compressed-tensors, mxfp4, modelopt, bitsandbytes, gguf."""
    weight_bits: float
    """Stored bits of one weight, without scales."""
    group_size: int | None = None
    """Weights that share one scale along the input dimension; None: one a channel or tensor."""
    scale_bytes: float = 2.0
    """Bytes of one scale."""
    zero_point_bits: float = 0.0
    """Bits of one zero point of a group."""
    block: tuple[int, int] | None = None
    """Rows and columns that share one scale (fp8 block)."""
    activation_bits: int | None = None
    """Bits of the quantized activations; None: the activation type itself."""
    skips: tuple[str, ...] = ()
    """Modules left in the activation type: attention, mlp, experts, shared_experts, lm_head."""


class MoeShape(Record, frozen=True):
    """Mixture of experts."""

    experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    """Width of all shared experts together."""
    dense_layers: int = 0
    """Layers with an ordinary MLP instead of experts."""


class MlaShape(Record, frozen=True):
    """Multi-head latent attention (DeepSeek): one latent vector a token, no K and V heads."""

    kv_lora_rank: int
    rope_head_dim: int
    nope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None


class LinearAttentionShape(Record, frozen=True):
    """Layers with a fixed state a sequence (gated delta net) instead of a KV cache."""

    layers: int
    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    state_bytes: int | None = None
    """Bytes of one value of the recurrent state; None: the model's type."""


class SlidingShape(Record, frozen=True):
    """Layers that see a window, or a chunk, of the past only."""

    layers: int
    window: int
    chunked: bool = False
    """Llama 4 local attention: a chunk, not a moving window."""


class VisionShape(Record, frozen=True):
    """The vision tower; any number may be unknown."""

    layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    patches_per_token: int | None = None
    """Patches of the image that become one token of the language model."""
    item_tokens: int | None = None
    """Tokens of the largest single image."""
    output_levels: int = 1
    """Embeddings kept for each token: 1, or more with deepstack (Qwen3-VL)."""


class CheckpointPart(Record, frozen=True):
    """Tensors of the safetensors files that vLLM lays out alike."""

    part: str
    """embedding, lm_head, kv, experts, replicated, sharded."""
    stored_bytes: int
    """Of tensors that stay in their type: quantized weights, scales, zero points."""
    float_elements: int
    """Values in 16, 32 or 64 bit floats, which are loaded in the run's type."""


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
    checkpoint: tuple[CheckpointPart, ...] = ()
    """What the headers of the safetensors files hold, when the folder has them all."""
    quant: QuantScheme | None = None
    """The numbers behind `quantization`."""
    moe: MoeShape | None = None
    mla: MlaShape | None = None
    linear: LinearAttentionShape | None = None
    sliding: SlidingShape | None = None
    vision: VisionShape | None = None
    global_head_dim: int | None = None
    """Head size of the full-attention layers where it differs (Gemma 4)."""
    global_kv_heads: int | None = None
    """KV heads of the full-attention layers where they differ."""
    global_k_is_v: bool = False
    """Full-attention layers store K only once (Gemma 4)."""
    kv_shared_layers: int = 0
    """Last layers that reuse the KV cache of earlier ones (Gemma 3n, 4)."""
    mtp_layers: int = 0
    """Extra layers for multi-token prediction; loaded only with speculative decoding."""
    pooling: bool = False
    """An embedding or reranking model: no sampler runs."""
    gated_mlp: bool = True
    """Gate, up and down projections; False: up and down only (GPT-2, NeoX, OPT, Falcon)."""
    attention_layers: int | None = None
    """Layers with attention and a KV cache; None: all that keep no state instead."""
    mlp_layers: int | None = None
    """Layers with an MLP or experts; None: all."""
    index_head_dim: int | None = None
    """Width of the key that a sparse-attention indexer keeps for each token (DeepSeek V3.2)."""
    rotary_positions: int | None = None
    """Rows of the rotary table, longer than max_position_embeddings with YaRN."""


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
    context_gib: float | None = None
    """Memory in use on the GPU before vLLM takes its baseline, when measured."""
    nvlink: bool | None = None
    """All pairs of the GPUs joined by NVLink; None: as usual for that GPU."""
    concurrency: int | None = None
    """Requests that are wanted at once; the recommended length follows from it."""
    busy_gib: float | None = None
    """In use by other processes on the busiest of the GPUs, when measured."""
    flashinfer: bool | None = None
    """FlashInfer is installed beside vLLM, as in its images; None: as pip installs that version."""


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
    """The engine's estimate of its CUDA graphs, where that version subtracts one."""
    non_kv_bytes: int
    """Weights, activation, sampler, logits, NCCL and other; graphs are beside it."""
    kv_cache_bytes: int
    """requested - non-KV - graphs; below zero when it does not fit."""
    kv_cache_bytes_low: int
    kv_cache_bytes_high: int
    other_bytes: int = 0
    """CUDA modules and, where that version counts it, the context."""


class Advice(Record, frozen=True):
    """One change that the numbers support."""

    option: str
    """As vLLM names it: `max-num-seqs`."""
    value: str
    frees_bytes: int | None
    """More KV cache on the limiting rank; None: it changes something else."""
    reason: str


class PlanStep(Record, frozen=True):
    """One formula of the plan with its numbers."""

    term: str
    formula: str
    numbers: str
    value: float
    unit: str
    """bytes, tokens, blocks, requests."""
    source: str
    """Where vLLM, PyTorch or NCCL does this."""
    fitted: bool = False
    """A constant in it was set by looking at logs, not read from a source."""


class SweepRow(Record, frozen=True):
    """One combination of a sweep; figures are None where no plan could be made."""

    settings: dict[str, str]
    fits: bool
    limit: str | None = None
    """The first limit hit, or why the combination is not possible."""
    weights_bytes: int | None = None
    non_kv_bytes: int | None = None
    kv_cache_bytes: int | None = None
    """On the limiting rank, with the ends of its range."""
    kv_cache_bytes_low: int | None = None
    kv_cache_bytes_high: int | None = None
    kv_bytes_per_token: int | None = None
    kv_cache_tokens: int | None = None
    num_blocks: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None


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
    advice: tuple[Advice, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    """Every formula with its numbers, when asked for."""
