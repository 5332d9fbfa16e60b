"""KV cache: bytes a token, layer groups, blocks, and the figures vLLM prints from them.

Source: vllm/v1/kv_cache_interface.py (page sizes, max_memory_usage_bytes) and
vllm/v1/core/kv_cache_utils.py (grouping, blocks, concurrency).
"""

from __future__ import annotations

from typing import NamedTuple

from nodeprep.memory.versions import EngineRules
from nodeprep.memory.weights import attention_layers, ceil_div
from nodeprep.model.memory import ModelShape

DEFAULT_BLOCK = 16
_MLA_BLOCK = 64
_MLA_PADDED = 640
_FP8_DS_MLA_BYTES = 656
_INDEXER_GROUP = 128


class LayerKind(NamedTuple):
    """Layers whose cache is managed alike."""

    kind: str
    """full, sliding, chunked, linear."""
    layers: int
    token_bytes: float
    """Of one layer on one rank; for linear layers the whole state of a sequence."""
    window: int = 0
    """Tokens that a sliding or chunked layer sees; for linear layers the blocks of a sequence."""


class KvLayout(NamedTuple):
    """Where a block's bytes go."""

    kinds: tuple[LayerKind, ...]
    block_tokens: int
    page_bytes: float
    """One block of one layer."""
    group_layers: int
    """Layers that share one block table; every group owns this many pages a block."""
    groups: int
    blocks_per_request: int
    """Blocks that one request of max_model_len takes, over all groups."""

    @property
    def block_bytes(self) -> float:
        return self.page_bytes * self.group_layers


def head_bytes(
    kv_heads: int, head_dim: int, tp: int, value_bytes: float, matrices: int = 2
) -> float:
    """K and V of one token in one layer on one rank: 2 x max(1, kv_heads // tp) x head_dim x bytes.

    KV heads are replicated when there are fewer of them than ranks.
    """
    return matrices * max(1, kv_heads // tp) * head_dim * value_bytes


def latent_bytes(kv_lora: int, rope: int, value_bytes: float, *, padded: bool, kind: str) -> float:
    """MLA keeps one latent vector a token, on every rank alike.

    0.7.1 to 0.7.3 pad 576 elements to 640 (attention/backends/mla/common.py); fp8_ds_mla stores
    512 fp8 values, 4 float32 scales and 64 bfloat16 values: 656 bytes.
    """
    if kind == "fp8_ds_mla":
        return _FP8_DS_MLA_BYTES
    elements = kv_lora + rope
    return (max(_MLA_PADDED, elements) if padded else elements) * value_bytes


def state_bytes(shape: ModelShape, tp: int, dtype_bytes: int) -> float:
    """State of one sequence in one linear-attention layer: convolution and recurrent part.

    (conv - 1) x (2 x K + V) / tp in the model's type, V heads / tp x v_dim x k_dim in that of the
    state (float32 for Qwen3.5, `mamba_ssm_dtype`).
    Source: vllm/model_executor/layers/mamba/mamba_utils.py gated_delta_net_state_shape.
    """
    state = shape.linear
    assert state is not None
    keys, values = state.key_heads * state.key_head_dim, state.value_heads * state.value_head_dim
    convolution = (state.conv_kernel - 1) * (2 * keys + values)
    recurrent = state.value_heads * state.value_head_dim * state.key_head_dim
    return (convolution * dtype_bytes + recurrent * (state.state_bytes or dtype_bytes)) / tp


def layer_kinds(
    shape: ModelShape, tp: int, value_bytes: float, dtype_bytes: int, rules: EngineRules, kind: str
) -> tuple[LayerKind, ...]:
    """The kinds of layers that own a cache.

    A sparse indexer's key is cached beside the latent vector: one byte a value and a float32 scale
    for 128 of them (deepseek_v2.py, DeepseekV32IndexerCache).
    """
    if shape.mla is not None:
        token = (
            latent_bytes(shape.mla.kv_lora_rank, shape.mla.rope_head_dim, value_bytes,
                         padded=rules.mla_padded, kind=kind)
            if rules.mla
            else head_bytes(shape.heads, shape.head_dim, tp, value_bytes)
        )  # fmt: skip
        indexer = 0
        if shape.index_head_dim is not None:
            indexer = shape.index_head_dim + -(-shape.index_head_dim // _INDEXER_GROUP) * 4
        found = [LayerKind("full", attention_layers(shape) - shape.kv_shared_layers,
                           token + indexer)]  # fmt: skip
        if shape.linear is not None:
            found.append(_states(shape, tp, dtype_bytes, rules))
        return tuple(found)
    local = head_bytes(shape.kv_heads, shape.head_dim, tp, value_bytes)
    full = head_bytes(
        shape.global_kv_heads or shape.kv_heads, shape.global_head_dim or shape.head_dim, tp,
        value_bytes,
    )  # fmt: skip
    kinds: list[LayerKind] = []
    rest = attention_layers(shape) - shape.kv_shared_layers
    if shape.linear is not None:
        kinds.append(_states(shape, tp, dtype_bytes, rules))
    window = shape.sliding
    if window is not None:
        rest -= window.layers
        name = "chunked" if window.chunked else "sliding"
        kinds.append(LayerKind(name if rules.hybrid else "full", window.layers, local,
                               window.window))  # fmt: skip
    if rest > 0:
        kinds.insert(0, LayerKind("full", rest, full))
    return tuple(kinds)


def _states(shape: ModelShape, tp: int, dtype_bytes: int, rules: EngineRules) -> LayerKind:
    assert shape.linear is not None
    size = state_bytes(shape, tp, dtype_bytes)
    return LayerKind("linear", shape.linear.layers, size, rules.state_blocks)


def layout(
    kinds: tuple[LayerKind, ...], block_tokens: int, max_model_len: int, batched_tokens: int
) -> KvLayout:
    """Groups of layers with one page size, as the hybrid KV cache manager forms them.

    Group size: the fewest layers of a kind, or the most when they differ by less than a quarter;
    short groups are padded.  Pages are unified by longer blocks for the smaller layers; a linear
    layer's state is one page, and the attention block grows until it holds it.
    """
    attention = [one for one in kinds if one.kind != "linear"]
    states = [one for one in kinds if one.kind == "linear"]
    largest = max((one.token_bytes for one in attention), default=0.0)
    if states and attention:
        needed = max(one.token_bytes for one in states) / attention[0].token_bytes
        block_tokens = max(block_tokens, ceil_div(int(-(-needed // 1)), 16) * 16)
    page = largest * block_tokens if attention else max(one.token_bytes for one in states)
    counts = [one.layers for one in kinds]
    size = _uniform(kinds) or _group_size(counts)
    groups, blocks = 0, 0
    for one in kinds:
        number = ceil_div(one.layers, size)
        groups += number
        tokens = block_tokens if one.kind == "linear" else int(page // one.token_bytes)
        blocks += number * _request_blocks(one, tokens, max_model_len, batched_tokens)
    if _uniform(kinds):
        page = sum(one.layers * one.token_bytes for one in kinds) * block_tokens / size
        groups = 1
        blocks = ceil_div(max_model_len, block_tokens)
    return KvLayout(kinds, block_tokens, page, size, groups, max(1, blocks))


def _uniform(kinds: tuple[LayerKind, ...]) -> int:
    """All layers when every one is full attention: one group, whatever their sizes; else 0."""
    return sum(one.layers for one in kinds) if all(one.kind == "full" for one in kinds) else 0


def _group_size(counts: list[int]) -> int:
    fewest, most = min(counts), max(counts)
    return most if most < fewest * 1.25 else fewest


def _request_blocks(one: LayerKind, block: int, max_len: int, batched: int) -> int:
    """Blocks of one request in one group (max_memory_usage_bytes / page)."""
    if one.kind == "linear":
        return max(1, one.window)
    if one.kind == "sliding":
        return ceil_div(min(one.window - 1 + batched, max_len), block) + 1
    if one.kind == "chunked":
        return ceil_div(min(one.window + batched, max_len), block)
    return ceil_div(max_len, block)


def blocks_in(available_bytes: float, plan: KvLayout) -> int:
    """Whole blocks in that memory: floor(available / page / layers of a group)."""
    return max(0, int(available_bytes // plan.block_bytes))


def concurrency(blocks: int, plan: KvLayout) -> float:
    """Requests of max_model_len at once."""
    return blocks / plan.blocks_per_request


def reported_tokens(blocks: int, plan: KvLayout, max_model_len: int, how: str) -> int:
    """The number after `GPU KV cache size`, as that release works it out.

    blocks x block size; from 0.9.2 divided by the number of groups first; from 0.20.1 on
    concurrency x max_model_len, which for hybrid models is another figure (vllm#40691).
    """
    if how == "concurrency":
        return int(concurrency(blocks, plan) * max_model_len)
    if how == "groups":
        return blocks // plan.groups * plan.block_tokens
    return blocks * plan.block_tokens


def request_tokens_bytes(plan: KvLayout) -> float:
    """KV bytes of one request of max_model_len on one rank."""
    return plan.blocks_per_request * plan.block_bytes


def token_bytes(kinds: tuple[LayerKind, ...]) -> int:
    """KV bytes that one more token costs on one rank while no window is full."""
    return round(sum(one.layers * one.token_bytes for one in kinds if one.kind != "linear"))


def default_block(shape: ModelShape, rules: EngineRules) -> int:
    """16 tokens; 64 for MLA, whose kernels want it (platforms/cuda.py check_and_update_config)."""
    return _MLA_BLOCK if shape.mla is not None and rules.mla else DEFAULT_BLOCK
