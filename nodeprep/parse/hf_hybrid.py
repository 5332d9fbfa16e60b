"""Models whose layers are not all alike: attention, state-space, convolution and MLP layers mixed.

Every family writes the mix its own way: a list of types, a list of indices, a period, a pattern of
letters, one block a layer.  Sources: the model files of vllm/model_executor/models and the
families' own configuration classes.
"""

from __future__ import annotations

from typing import NamedTuple

from nodeprep.model.memory import LinearAttentionShape
from nodeprep.parse.hf_keys import Config, maybe, need

_STATE_TYPES = ("linear_attention", "mamba", "mamba2", "linear", "lightning")
_CONVOLUTION = "conv"


class Mix(NamedTuple):
    """How many layers have what; None: not said, so all alike."""

    attention: int | None = None
    mlp: int | None = None
    experts: int | None = None
    state: int | None = None
    convolution: int | None = None


def read_mix(config: Config, layers: int) -> Mix:
    """The mix of layers, by whichever way the family writes it."""
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return _of_letters(pattern, layers)
    blocks = config.get("block_configs")
    if isinstance(blocks, list) and blocks:
        return _of_blocks(blocks[:layers])
    types = layer_types(config, layers)
    if types:
        state = sum(types.count(kind) for kind in _STATE_TYPES)
        return Mix(state=state or None, convolution=types.count(_CONVOLUTION) or None)
    return _of_indices(config, layers)


def _of_letters(pattern: str, layers: int) -> Mix:
    """Nemotron-H: `M` state space, `*` attention, `-` MLP, `E` experts; one block a layer."""
    letters = pattern.replace("|", "")[:layers]
    return Mix(
        attention=letters.count("*"),
        mlp=letters.count("-") + letters.count("E"),
        experts=letters.count("E"),
        state=letters.count("M"),
    )


def _of_blocks(blocks: list[object]) -> Mix:
    """Puzzle models (Nemotron-NAS): a block may lack its attention or its MLP."""
    attention = sum(_has(block, "attention") for block in blocks)
    return Mix(attention=attention, mlp=sum(_has(block, "ffn") for block in blocks))


def _has(block: object, part: str) -> bool:
    inner = block.get(part) if isinstance(block, dict) else None
    if not isinstance(inner, dict):
        return True
    return inner.get("no_op") is not True and inner.get("replace_with_linear") is not True


def _of_indices(config: Config, layers: int) -> Mix:
    """Jamba's period, Bamba's indices, the lists of MiniMax and Kimi, Falcon-H1's both at once."""
    linear = config.get("linear_attn_config")
    if isinstance(linear, dict) and isinstance(linear.get("kda_layers"), list):
        return Mix(state=min(layers, len(linear["kda_layers"])))
    kinds = config.get("attn_type_list")
    if isinstance(kinds, list) and len(kinds) >= layers:
        return Mix(state=sum(kind == 0 for kind in kinds[:layers]))
    indices = config.get("attn_layer_indices")
    if isinstance(indices, list):
        return Mix(state=layers - min(layers, len(indices)))
    period = maybe(config, "attn_layer_period")
    if period is not None:
        first = maybe(config, "attn_layer_offset", least=0) or 0
        return Mix(state=layers - len(range(first, layers, period)))
    crossed = config.get("cross_attention_layers")
    if isinstance(crossed, list):
        return Mix(attention=layers - min(layers, len(crossed)))
    if maybe(config, "mamba_d_ssm") is not None:
        return Mix(attention=layers, state=layers)
    if config.get("model_type") in ("mamba", "mamba2", "falcon_mamba"):
        return Mix(attention=0, mlp=0, state=layers)
    if config.get("model_type") == "longcat_flash":
        return Mix(attention=2 * layers)
    return Mix()


def layer_types(config: Config, layers: int) -> list[str]:
    """The kind of each layer that owns a KV cache; empty: the file does not say."""
    types = config.get("layer_types") or config.get("layers_block_type")
    if not isinstance(types, list) or len(types) < layers:
        pattern = config.get("hybrid_layer_pattern")
        if not isinstance(pattern, list) or len(pattern) < layers:
            return []
        types = ["sliding_attention" if one == 1 else "full_attention" for one in pattern]
    shared = maybe(config, "num_kv_shared_layers", least=0) or 0
    return [one if isinstance(one, str) else "" for one in types[: max(0, layers - shared)]]


def read_linear(config: Config, layers: int, mix: Mix) -> LinearAttentionShape | None:
    """The layers that keep a state: gated delta nets, Mamba 1 and 2, short convolutions."""
    key_heads = maybe(config, "linear_num_key_heads")
    if key_heads is not None:
        return _delta_net(config, layers, mix, key_heads)
    kimi = config.get("linear_attn_config")
    if isinstance(kimi, dict) and mix.state:
        return _kimi(kimi, mix.state)
    if mix.convolution:
        hidden = need(config, "hidden_size")
        # one value a channel and tap, no recurrent part
        return LinearAttentionShape(
            layers=mix.convolution, key_heads=0, value_heads=1, key_head_dim=0,
            value_head_dim=hidden, conv_kernel=maybe(config, "conv_L_cache") or 3,
        )  # fmt: skip
    if not mix.state:
        return None
    if isinstance(config.get("attn_type_list"), list):
        return _lightning(config, mix.state)
    return _mamba(config, mix.state)


def _delta_net(config: Config, layers: int, mix: Mix, key_heads: int) -> LinearAttentionShape:
    every = maybe(config, "full_attention_interval", least=1) or 4
    count = layers - layers // every if mix.state is None else mix.state
    return LinearAttentionShape(
        layers=count,
        key_heads=key_heads,
        value_heads=need(config, "linear_num_value_heads"),
        key_head_dim=need(config, "linear_key_head_dim"),
        value_head_dim=need(config, "linear_value_head_dim"),
        conv_kernel=maybe(config, "linear_conv_kernel_dim") or 4,
        state_bytes=_state_bytes(config),
    )


def _kimi(kimi: Config, count: int) -> LinearAttentionShape:
    """Kimi delta attention: as many key as value heads (kimi_linear.py)."""
    heads, width = need(kimi, "num_heads"), need(kimi, "head_dim")
    return LinearAttentionShape(
        layers=count, key_heads=heads, value_heads=heads, key_head_dim=width,
        value_head_dim=width, conv_kernel=maybe(kimi, "short_conv_kernel_size") or 4,
        state_bytes=4,
    )  # fmt: skip


def _lightning(config: Config, count: int) -> LinearAttentionShape:
    """MiniMax keeps a head_dim x head_dim matrix a head and has no convolution."""
    heads = need(config, "num_attention_heads")
    width = maybe(config, "head_dim") or need(config, "hidden_size") // heads
    return LinearAttentionShape(
        layers=count, key_heads=heads, value_heads=heads, key_head_dim=width,
        value_head_dim=width, conv_kernel=1, state_bytes=4,
    )  # fmt: skip


def _mamba(config: Config, layers: int) -> LinearAttentionShape | None:
    """Mamba in the same words: groups and state are the keys, heads the values.

    Mamba 1 has no heads: its inner width (expand x hidden) is one head.
    """
    inner = (maybe(config, "mamba_expand", "expand") or 2) * need(config, "hidden_size")
    heads = maybe(config, "mamba_n_heads", "mamba_num_heads") or _own_heads(config)
    state = maybe(config, "mamba_d_state", "ssm_state_size", "state_size")
    if state is None:
        return None
    return LinearAttentionShape(
        layers=layers,
        key_heads=(maybe(config, "mamba_n_groups", "n_groups") or 1) if heads else 0,
        value_heads=heads or 1,
        key_head_dim=state,
        value_head_dim=maybe(config, "mamba_d_head", "mamba_head_dim") or inner // (heads or 1),
        conv_kernel=maybe(config, "mamba_d_conv", "conv_kernel") or 4,
        state_bytes=_state_bytes(config),
    )


def _own_heads(config: Config) -> int | None:
    return maybe(config, "num_heads") if config.get("model_type") == "mamba2" else None


def _state_bytes(config: Config) -> int | None:
    return 4 if config.get("mamba_ssm_dtype") == "float32" else None
