"""Peak of the forward pass while vLLM profiles with max_num_batched_tokens tokens.

The widest moment of a layer decides: in the MLP the fused gate and up output (2 I), its product
(I), the layer's input, output and residual are alive together.  Source: model_executor/models/
llama.py LlamaMLP and decoder layer; fused_moe.py for experts; mla/common.py for MLA.
"""

from __future__ import annotations

from nodeprep.model.memory import ModelShape

MOE_CHUNK = 32_768
"""Tokens that one fused-experts call works on (VLLM_FUSED_MOE_CHUNK_SIZE)."""
_SIGLIP_HIDDEN, _SIGLIP_INTERMEDIATE = 1152, 4304
_PIXELS_OF_A_PATCH = 2 * 16 * 16 * 3
_MLA_WORKSPACE_TOKENS = 65_536
_AWQ_EXTRA_HIDDEN = 3
"""Fitted on one log (72B AWQ, float16, 0.7.2): three more hidden-sized tensors a token."""


def hidden_states_bytes(shape: ModelShape, tokens: int, dtype_bytes: int) -> int:
    """The forward pass' result, alive while the sampler runs: tokens x hidden x bytes."""
    return tokens * shape.hidden_size * dtype_bytes


def forward_bytes(
    shape: ModelShape,
    tokens: int,
    tp: int,
    dtype_bytes: int,
    *,
    max_model_len: int,
    v1: bool,
    moe_workspace: bool,
) -> int:
    """Torch's peak in the forward pass on one rank, in bytes, beyond the weights.

    With `moe_workspace` the experts' buffers are counted by workspace_bytes instead.
    """
    peak = max(
        _dense_bytes(shape, tokens, tp, dtype_bytes),
        0.0 if moe_workspace else _experts_bytes(shape, tokens, tp, dtype_bytes),
        _latent_bytes(shape, tokens, tp, dtype_bytes, max_model_len, v1=v1),
        _linear_bytes(shape, tokens, tp, dtype_bytes),
    )
    return int(peak + tokens * 3 * shape.hidden_size * dtype_bytes)


def workspace_bytes(shape: ModelShape, tokens: int, tp: int, dtype_bytes: int) -> int:
    """The experts' two work buffers, kept for ever from 0.14.0 on, so alive while sampling too.

    tokens x top-k x (max(I / tp, hidden) + max(2 I / tp, hidden)) x bytes; Marlin pads mxfp4.
    Source: fused_moe.py TritonExperts.workspace_shapes, v1/worker/workspace.py.
    """
    moe = shape.moe
    if moe is None:
        return 0
    width, hidden = moe.intermediate_size / tp, shape.hidden_size
    return int(
        tokens * moe.experts_per_token * (max(width, hidden) + max(2 * width, hidden)) * dtype_bytes
    )


def encoder_cache_tokens(shape: ModelShape, tokens: int, deepstack_tokens: int) -> int:
    """Tokens whose outputs the profiling run keeps: of an image, or of that release's video."""
    levels = shape.vision.output_levels if shape.vision is not None else 1
    return max(encoder_tokens(shape, tokens), deepstack_tokens if levels > 1 else 0)


def encoder_cache_bytes(shape: ModelShape, kept_tokens: int, dtype_bytes: int) -> int:
    """Outputs of the vision encoder, kept through the profiling run.

    kept tokens x hidden x levels x bytes (v1/worker/gpu_model_runner.py profile_run).
    """
    levels = shape.vision.output_levels if shape.vision is not None else 0
    return kept_tokens * shape.hidden_size * levels * dtype_bytes


def encoder_tokens(shape: ModelShape, tokens: int) -> int:
    """The encoder's budget: max(max_num_batched_tokens, tokens of the largest image).

    Source: v1/core/encoder_cache_manager.py compute_mm_encoder_budget.
    """
    largest = shape.vision.item_tokens if shape.vision else None
    return max(tokens, largest or 0)


def profiled_rows(shape: ModelShape, max_num_seqs: int, tokens: int) -> int:
    """Sequences of V0's profiling run: as many as can carry the largest image, when there are any.

    min(max_num_seqs, max_num_batched_tokens // tokens of the largest item), at least 1.
    Source: 0.7.3 worker/model_runner.py _dummy_run.
    """
    item = shape.vision.item_tokens if shape.vision is not None else None
    return max(1, min(max_num_seqs, tokens if item is None else tokens // item))


def profiled_images(shape: ModelShape, rows: int, tokens: int) -> int:
    """Tokens of the images in V0's profiling run; an item longer than its sequence is left out.

    Source: 0.7.3 multimodal/profiling.py get_dummy_data.
    """
    item = shape.vision.item_tokens if shape.vision is not None else None
    return 0 if item is None or item > tokens // rows else rows * item


def encoder_bytes(shape: ModelShape, image_tokens: int, dtype_bytes: int) -> int:
    """Peak of the vision encoder: patches x (2 I + 4 hidden + pixels) x bytes.

    The first projection, its activation, the residual, the normed input, the position embeddings
    and the pixels of the patch (two frames of 16 x 16 in three colours) are alive together; the
    fourth hidden-sized tensor is fitted (two logs of Qwen3.5, 0.18 and 0.23).  A tower without
    numbers is taken as SigLIP so400m, which most current models carry; 0 where not even the patches
    of a token are known.
    """
    vision = shape.vision
    if vision is None or vision.patches_per_token is None:
        return 0
    hidden = vision.hidden_size or _SIGLIP_HIDDEN
    width = vision.intermediate_size or (4 * hidden if vision.hidden_size else _SIGLIP_INTERMEDIATE)
    patches = image_tokens * vision.patches_per_token
    return patches * (2 * width + 4 * hidden + _PIXELS_OF_A_PATCH) * dtype_bytes


def _dense_bytes(shape: ModelShape, tokens: int, tp: int, dtype_bytes: int) -> float:
    """tokens x (3 I / tp) x bytes (2 I without a gate), with the copies that quantization makes."""
    if shape.moe is not None and not shape.moe.dense_layers:
        return 0.0
    width = shape.intermediate_size / tp
    matrices = 2 if shape.gated_mlp else 1
    peak = tokens * (matrices + 1) * width * dtype_bytes
    quant = shape.quant
    if quant is None:
        return peak
    if quant.activation_bits:
        peak += tokens * width * quant.activation_bits / 8
    if quant.method == "bitsandbytes":
        # the whole weight is dequantized for a product (bitsandbytes.py apply)
        peak += matrices * width * shape.hidden_size * dtype_bytes
    if quant.method.startswith("awq"):
        peak += tokens * _AWQ_EXTRA_HIDDEN * shape.hidden_size * dtype_bytes
    return peak


def _experts_bytes(shape: ModelShape, tokens: int, tp: int, dtype_bytes: int) -> float:
    """min(tokens, 32768) x top-k x (max(2 I / tp, hidden) + I / tp) x bytes.

    The first and third intermediate caches share their memory (fused_moe.py, cache13).
    """
    moe = shape.moe
    if moe is None:
        return 0.0
    rows = min(tokens, MOE_CHUNK) * moe.experts_per_token
    width = moe.intermediate_size / tp
    peak = rows * (max(2 * width, shape.hidden_size) + width) * dtype_bytes
    if shape.quant is not None and shape.quant.activation_bits:
        peak += rows * width * shape.quant.activation_bits / 8
    return peak


def _latent_bytes(
    shape: ModelShape, tokens: int, tp: int, dtype_bytes: int, max_model_len: int, *, v1: bool
) -> float:
    """Queries, keys and values of MLA's prefill; V1 also reserves one chunk of context.

    V1 profiles an empty tensor of workspace tokens x heads / tp x (nope + v)
    (v1/attention/backends/mla/common.py forward, attn_metadata is None).
    """
    mla = shape.mla
    if mla is None:
        return 0.0
    heads = shape.heads / tp
    one = heads * (2 * (mla.nope_head_dim + mla.rope_head_dim) + 2 * mla.v_head_dim)
    peak = tokens * one * dtype_bytes
    if v1:
        workspace = min(8 * max_model_len, _MLA_WORKSPACE_TOKENS)
        peak += workspace * heads * (mla.nope_head_dim + mla.v_head_dim) * dtype_bytes
    return peak


def _linear_bytes(shape: ModelShape, tokens: int, tp: int, dtype_bytes: int) -> float:
    """tokens x (4 K + 4 V) / tp x bytes: one projection of keys, values and gates, its split, and
    the output; the recurrent kernels return at once in the profiling run.

    Source: qwen3_next.py Qwen3NextGatedDeltaNet forward, attn_metadata is None.
    """
    state = shape.linear
    if state is None:
        return 0.0
    keys, values = state.key_heads * state.key_head_dim, state.value_heads * state.value_head_dim
    return tokens * 4 * (keys + values) / tp * dtype_bytes
