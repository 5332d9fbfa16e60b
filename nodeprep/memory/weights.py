"""Weight memory of one rank, tensor by tensor, as vLLM lays the model out under tensor parallelism.

Source: vllm/model_executor/layers/{linear,vocab_parallel_embedding}.py and the model files: column
and row parallel linears are split by the tensor-parallel size, K and V heads are replicated when
there are fewer than ranks, norms and routers are replicated, vocabularies are padded to 64 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from nodeprep.memory.allocator import allocated_bytes
from nodeprep.memory.checkpoint import part_bytes, rank_share
from nodeprep.model.memory import ModelShape, QuantScheme

VOCAB_PADDING = 64
_COMPUTED = ("W_UK_T, W_UV", "W_Q_UK, W_UV_O")
"""Stored beside the checkpoint's tensors when MLA's projections are multiplied out."""
_MXFP4_HIDDEN, _MXFP4_INTERMEDIATE = 256, 128


class Tensor(NamedTuple):
    """`copies` tensors of the same size on one rank."""

    part: str
    copies: int
    elements: float
    """Parameters of the checkpoint that it holds, before sharding: all ranks' share of `copies`."""
    size_bytes: float


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def rank_tensors(
    shape: ModelShape, tp: int, dtype_bytes: int, *, absorbed: bool = False
) -> list[Tensor]:
    """Every tensor of one rank; `absorbed`: MLA's projections multiplied out (0.7.1-0.7.3)."""
    return [
        *_vocabulary(shape, tp, dtype_bytes),
        *_attention(shape, tp, dtype_bytes, absorbed=absorbed),
        *_mlp(shape, tp, dtype_bytes),
        *_vision(shape, tp, dtype_bytes),
    ]


@lru_cache(maxsize=64)
def weight_bytes(
    shape: ModelShape,
    tp: int,
    dtype_bytes: int,
    params_billion: float | None = None,
    *,
    absorbed: bool = False,
) -> int:
    """What `Model loading took` counts on one rank, in bytes, rotary table included.

    `params_billion` (10**9) corrects the count of parameters: what the shape does not explain
    (a vision tower, say) is taken as unquantized and split evenly.  The headers of the safetensors
    files, or else their known sum, count instead.
    """
    tensors = rank_tensors(shape, tp, dtype_bytes, absorbed=absorbed)
    total = sum(one.copies * allocated_bytes(one.size_bytes) for one in tensors)
    if shape.checkpoint:
        total = _from_headers(shape, tp, dtype_bytes, tensors)
    elif shape.weight_file_bytes is not None:
        whole = rank_tensors(shape, 1, dtype_bytes) if tp > 1 else tensors
        total = round(total * shape.weight_file_bytes / sum(t.copies * t.size_bytes for t in whole))
    else:
        total = _corrected(shape, tensors, total, params_billion, dtype_bytes / tp)
    return int(total) + rotary_table_bytes(shape, dtype_bytes)


def _from_headers(shape: ModelShape, tp: int, dtype_bytes: int, tensors: list[Tensor]) -> int:
    """The files' own sizes, what vLLM computes beside them, and what the allocator rounds up."""
    vocab = ceil_div(shape.vocab_size, VOCAB_PADDING) * VOCAB_PADDING
    padding = expert_padding(shape, tp)
    held = sum(
        part_bytes(one, dtype_bytes)
        * rank_share(shape, one.part, tp, padded_vocab=vocab, expert_padding=padding)
        for one in shape.checkpoint
    )
    computed = sum(one.copies * one.size_bytes for one in tensors if one.part in _COMPUTED)
    rounding = sum(
        one.copies * (allocated_bytes(one.size_bytes) - one.size_bytes) for one in tensors
    )
    return round(held + computed + rounding)


def expert_padding(shape: ModelShape, tp: int) -> float:
    """Padded over real size of a rank's experts: mxfp4 pads hidden to 256 and width to 128."""
    quant = _scheme(shape, "experts")
    if shape.moe is None or quant is None or quant.method != "mxfp4":
        return 1.0
    hidden, width = shape.hidden_size, shape.moe.intermediate_size / tp
    padded = -(-width // _MXFP4_INTERMEDIATE) * _MXFP4_INTERMEDIATE
    return ceil_div(hidden, _MXFP4_HIDDEN) * _MXFP4_HIDDEN * padded / (hidden * width)


def parameters(shape: ModelShape) -> float:
    """Parameters that the shape explains."""
    return sum(one.elements for one in rank_tensors(shape, 1, 2))


def rotary_table_bytes(shape: ModelShape, dtype_bytes: int) -> int:
    """One cos/sin table for all layers: positions x rotary dimension x bytes.

    Source: vllm/model_executor/layers/rotary_embedding/base.py, cos_sin_cache.
    """
    positions = shape.rotary_positions or shape.max_position_embeddings or 0
    width = shape.mla.rope_head_dim if shape.mla else shape.head_dim
    return allocated_bytes(min(positions, 1 << 24) * width * dtype_bytes)


def _corrected(
    shape: ModelShape,
    tensors: list[Tensor],
    total: int,
    params_billion: float | None,
    element_bytes: float,
) -> int:
    """The sum, with the parameters that the shape has too few or too many.

    Up to one embedding too many is an embedding that is tied after all; where the shape has far
    more than the model, everything shrinks alike.
    """
    missing = _unexplained(shape, tensors, params_billion)
    if missing >= -1.05 * shape.vocab_size * shape.hidden_size:
        return max(0, total + round(missing * element_bytes))
    counted = sum(one.elements for one in tensors)
    return round(total * (counted + missing) / counted)


def _unexplained(shape: ModelShape, tensors: list[Tensor], params_billion: float | None) -> float:
    """Parameters beyond the shape; a difference under 0.5 % is rounding of the given number."""
    given = params_billion or shape.params_billion
    if given is None:
        return 0.0
    counted = sum(one.elements for one in tensors)
    missing = given * 1e9 - counted
    return missing if abs(missing) > 0.005 * counted else 0.0


def linear(
    part: str,
    count: int,
    rows: float,
    columns: float,
    *,
    sharded: float,
    dtype_bytes: int,
    quant: QuantScheme | None,
) -> Iterator[Tensor]:
    """The weight of one linear on a rank, with scales and zero points.

    `rows` x `columns` (output x input) on this rank; `sharded` ranks hold the whole.
    Block scales: one for block[0] x block[1] weights.  Groups: one for `group_size` inputs of an
    output.  Otherwise one float32 an output channel.
    """  # fmt: skip
    cells = rows * columns
    if quant is None:
        yield Tensor(part, count, count * cells * sharded, cells * dtype_bytes)
        return
    yield Tensor(part, count, count * cells * sharded, cells * quant.weight_bits / 8)
    if quant.block:
        scales = -(-rows // quant.block[0]) * -(-columns // quant.block[1]) * quant.scale_bytes
    elif quant.group_size:
        groups = rows * -(-columns // quant.group_size)
        scales = groups * (quant.scale_bytes + quant.zero_point_bits / 8)
    else:
        scales = rows * 4
    yield Tensor(part + " scales", count, 0, scales)


def _scheme(shape: ModelShape, kind: str) -> QuantScheme | None:
    return None if shape.quant is None or kind in shape.quant.skips else shape.quant


def _vocabulary(shape: ModelShape, tp: int, dtype_bytes: int) -> Iterator[Tensor]:
    """Embedding, and the LM head unless it is the same matrix; quantized by GGUF alone."""
    rows = ceil_div(ceil_div(shape.vocab_size, VOCAB_PADDING) * VOCAB_PADDING, tp)
    cells = shape.vocab_size * shape.hidden_size
    gguf = shape.quant if shape.quant is not None and shape.quant.method == "gguf" else None
    for one in linear(
        "embedding",
        1,
        rows,
        shape.hidden_size,
        sharded=tp,
        dtype_bytes=dtype_bytes,
        quant=gguf,
    ):
        yield one._replace(elements=cells if one.elements else 0)
    if not shape.tied_embeddings:
        head = _scheme(shape, "lm_head")
        for one in linear("lm_head", 1, rows, shape.hidden_size, sharded=tp,
                          dtype_bytes=dtype_bytes, quant=head):  # fmt: skip
            yield one._replace(elements=cells if one.elements else 0)


def attention_layers(shape: ModelShape) -> int:
    """Layers with attention: those said, or all that keep no state instead."""
    if shape.attention_layers is not None:
        return shape.attention_layers
    return max(0, shape.layers - (shape.linear.layers if shape.linear else 0))


def _attention(shape: ModelShape, tp: int, dtype_bytes: int, *, absorbed: bool) -> Iterator[Tensor]:
    if shape.mla is not None:
        yield from _latent_attention(shape, tp, dtype_bytes, absorbed=absorbed)
        if shape.linear is not None:
            yield from _gated_delta(shape, tp, dtype_bytes, _scheme(shape, "attention"))
        return
    full = attention_layers(shape)
    differing = full - (shape.sliding.layers if shape.sliding else 0)
    special = min(differing, full) if shape.global_head_dim or shape.global_kv_heads else 0
    groups = [
        (full - special, shape.kv_heads, shape.head_dim, 2),
        (special, shape.global_kv_heads or shape.kv_heads, shape.global_head_dim or shape.head_dim,
         1 if shape.global_k_is_v else 2),
    ]  # fmt: skip
    quant = _scheme(shape, "attention")
    for count, kv_heads, dim, matrices in groups:
        if count:
            yield from _heads(shape, count, kv_heads, dim, matrices, tp, dtype_bytes, quant)
    if shape.linear is not None:
        yield from _gated_delta(shape, tp, dtype_bytes, quant)


def _heads(
    shape: ModelShape,
    count: int,
    kv_heads: int,
    dim: int,
    matrices: int,
    tp: int,
    dtype_bytes: int,
    quant: QuantScheme | None,
) -> Iterator[Tensor]:
    hidden, kv = shape.hidden_size, max(1, kv_heads // tp)
    # Qwen3-Next doubles the query projection with an output gate
    gate = 2 if shape.architecture.startswith("Qwen3") and shape.linear is not None else 1
    rows = (gate * shape.heads / tp + matrices * kv) * dim
    whole = (gate * shape.heads + matrices * kv_heads) * dim
    for one in linear("qkv_proj", count, rows, hidden, sharded=1, dtype_bytes=dtype_bytes,
                      quant=quant):  # fmt: skip
        yield one._replace(elements=count * whole * hidden if one.elements else 0)
    yield from linear("o_proj", count, hidden, shape.heads * dim / tp, sharded=tp,
                      dtype_bytes=dtype_bytes, quant=quant)  # fmt: skip
    if shape.attention_bias:
        yield Tensor("qkv bias", count, count * whole, rows * dtype_bytes)
    yield Tensor("norms", 2 * count, 2 * count * hidden, hidden * dtype_bytes)


def _latent_attention(
    shape: ModelShape, tp: int, dtype_bytes: int, *, absorbed: bool
) -> Iterator[Tensor]:
    """DeepSeek MLA; kv_b_proj is kept and its two halves are stored again in the model's type.

    Source: vllm/v1/attention/backends/mla/common.py process_weights_after_loading (W_UV, W_UK_T).
    """
    mla, hidden, count = shape.mla, shape.hidden_size, attention_layers(shape)
    assert mla is not None
    quant = _scheme(shape, "attention")
    heads = shape.heads / tp
    query = (mla.nope_head_dim + mla.rope_head_dim) * heads
    latent = mla.kv_lora_rank + mla.rope_head_dim
    first = (mla.q_lora_rank or 0) + latent
    yield from linear("qkv_a_proj", count, first, hidden, sharded=1, dtype_bytes=dtype_bytes,
                      quant=quant)  # fmt: skip
    source = mla.q_lora_rank or hidden
    yield from linear("q_b_proj", count, query, source, sharded=tp, dtype_bytes=dtype_bytes,
                      quant=quant)  # fmt: skip
    both = mla.nope_head_dim + mla.v_head_dim
    yield from linear("kv_b_proj", count, both * heads, mla.kv_lora_rank, sharded=tp,
                      dtype_bytes=dtype_bytes, quant=quant)  # fmt: skip
    yield from linear("o_proj", count, hidden, heads * mla.v_head_dim, sharded=tp,
                      dtype_bytes=dtype_bytes, quant=quant)  # fmt: skip
    if absorbed:
        # W_Q_UK and W_UV_O of 0.7.3, requantized to fp8 where the model is
        width = dtype_bytes if quant is None else 1
        cells = heads * mla.kv_lora_rank * (source + hidden)
        yield Tensor("W_Q_UK, W_UV_O", count, 0, cells * width)
    else:
        yield Tensor("W_UK_T, W_UV", count, 0, both * heads * mla.kv_lora_rank * dtype_bytes)


def _gated_delta(
    shape: ModelShape, tp: int, dtype_bytes: int, quant: QuantScheme | None
) -> Iterator[Tensor]:
    """Gated delta net of Qwen3-Next: in_proj_qkvz, in_proj_ba, conv1d, out_proj."""
    state, hidden = shape.linear, shape.hidden_size
    assert state is not None
    keys, values = state.key_heads * state.key_head_dim, state.value_heads * state.value_head_dim
    yield from linear("in_proj_qkvz", state.layers, (2 * keys + 2 * values) / tp, hidden,
                      sharded=tp, dtype_bytes=dtype_bytes, quant=quant)  # fmt: skip
    yield from linear("out_proj", state.layers, hidden, values / tp, sharded=tp,
                      dtype_bytes=dtype_bytes, quant=quant)  # fmt: skip
    small = 2 * state.value_heads * hidden + (2 * keys + values) * state.conv_kernel
    yield Tensor("gates and convolution", state.layers, state.layers * small,
                 small / tp * dtype_bytes)  # fmt: skip


def _mlp(shape: ModelShape, tp: int, dtype_bytes: int) -> Iterator[Tensor]:
    hidden, matrices = shape.hidden_size, 2 if shape.gated_mlp else 1
    every = shape.layers if shape.mlp_layers is None else shape.mlp_layers
    dense = every if shape.moe is None else shape.moe.dense_layers
    if dense:
        yield from _dense("mlp", dense, shape.intermediate_size, matrices, shape, tp, dtype_bytes)
    moe = shape.moe
    layers = every - dense
    if moe is None or not layers:
        return
    yield from _experts(shape, layers, tp, dtype_bytes)
    if "GptOss" in shape.architecture:
        rows = moe.experts * (2 * moe.intermediate_size / tp + hidden)
        yield Tensor("expert biases", layers, layers * rows * tp, rows * dtype_bytes)
    yield Tensor(
        "router", layers, layers * moe.experts * hidden, moe.experts * hidden * dtype_bytes
    )
    if moe.shared_intermediate_size:
        yield from _dense("shared_experts", layers, moe.shared_intermediate_size, matrices, shape,
                          tp, dtype_bytes)  # fmt: skip


def _dense(
    kind: str, count: int, width: int, matrices: int, shape: ModelShape, tp: int, dtype_bytes: int
) -> Iterator[Tensor]:
    quant = _scheme(shape, kind)
    yield from linear(kind + " up", count, matrices * width / tp, shape.hidden_size, sharded=tp,
                      dtype_bytes=dtype_bytes, quant=quant)  # fmt: skip
    yield from linear(kind + " down", count, shape.hidden_size, width / tp, sharded=tp,
                      dtype_bytes=dtype_bytes, quant=quant)  # fmt: skip


def _experts(shape: ModelShape, layers: int, tp: int, dtype_bytes: int) -> Iterator[Tensor]:
    """All experts of a layer are one tensor for w13 and one for w2 (fused_moe/layer.py).

    mxfp4: the Marlin backend pads the hidden size to 256 and the rank's width to 128
    (quantization/mxfp4.py, create_weights).
    """
    moe, quant = shape.moe, _scheme(shape, "experts")
    assert moe is not None
    hidden, width = float(shape.hidden_size), moe.intermediate_size / tp
    real = hidden * width
    if quant is not None and quant.method == "mxfp4":
        hidden = ceil_div(shape.hidden_size, _MXFP4_HIDDEN) * _MXFP4_HIDDEN
        width = -(-width // _MXFP4_INTERMEDIATE) * _MXFP4_INTERMEDIATE
    gates = 2 if shape.gated_mlp else 1
    for part, rows, columns, times in (
        ("w13", gates * width, hidden, gates),
        ("w2", hidden, width, 1),
    ):
        one_expert = list(linear(part, layers, rows, columns, sharded=1, dtype_bytes=dtype_bytes,
                                 quant=quant))  # fmt: skip
        for one in one_expert:
            elements = layers * moe.experts * times * real * tp if one.elements else 0
            yield Tensor(f"experts {one.part}", layers, elements, one.size_bytes * moe.experts)


def _vision(shape: ModelShape, tp: int, dtype_bytes: int) -> Iterator[Tensor]:
    """A ViT of known depth and width: 4 h*h and 2 h*I a layer, unquantized, split by TP."""
    tower = shape.vision
    if tower is None or not tower.layers or not tower.hidden_size:
        return
    hidden, width = tower.hidden_size, tower.intermediate_size or 4 * tower.hidden_size
    cells = 4 * hidden * hidden + 2 * hidden * width
    yield Tensor("vision tower", tower.layers, tower.layers * cells, cells * dtype_bytes / tp)
