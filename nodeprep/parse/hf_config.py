"""A model's Hugging Face `config.json` -> ModelShape.

A typical input, cut to what is read::

    {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 80, "hidden_size": 8192,
     "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672,
     "vocab_size": 128256, "torch_dtype": "bfloat16"}

Families name the same number differently (`n_layer`, `num_local_experts`, `text_config`...); the
aliases are those of vllm/config/model.py and of the model files beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from nodeprep.errors import ParseError
from nodeprep.model.memory import (
    LinearAttentionShape,
    MlaShape,
    ModelShape,
    MoeShape,
    SlidingShape,
    VisionShape,
)
from nodeprep.parse.hf_quantization import parse_quantization

MAX_BYTES = 8 << 20
_LARGEST = 10**8
_DTYPES = {"bfloat16", "float16", "float32", "float64", "half", "float"}
_INNER = ("text_config", "llm_config", "language_config", "text_model_config")
_TIED = ("gemma", "gpt2", "falcon", "cohere", "bloom", "mpt", "starcoder2", "opt")
_TWO_MATRICES = {
    "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "mpt", "phi",
    "starcoder2", "nemotron", "persimmon",
}  # fmt: skip
_POOLING = re.compile(r"ForSequenceClassification|ForTokenClassification|EmbeddingModel|Reward")

Config = Mapping[str, object]


def parse_hf_config_text(text: str) -> ModelShape:
    """The shape in a pasted config.json; the name is `_name_or_path` or the model type."""
    config = _load(text)
    for key in ("_name_or_path", "model_type"):
        name = config.get(key)
        if isinstance(name, str) and name and name.isprintable():
            return _shape(config, name[:200])
    return _shape(config, "config.json")


def parse_hf_config(data: bytes | str, name: str) -> ModelShape:
    """The shape of the model `name`.  Raises ParseError naming the key that is missing or wrong."""
    return _shape(_load(data), name)


def parse_safetensors_index(data: bytes | str) -> int | None:
    """Bytes of all tensors, from `model.safetensors.index.json`; None: the file does not say."""
    metadata = _load(data).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 0 < total < 1 << 50:
        return None
    return total


def _load(data: bytes | str) -> dict[str, object]:
    if len(data) > MAX_BYTES:
        raise ParseError(
            f"config.json is larger than {MAX_BYTES >> 20} MiB",
            hint="give the config.json of the model, not its weights",
        )
    try:
        config = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise ParseError(
            f"config.json is not JSON: {str(error)[:120]}", hint="give a Hugging Face config.json"
        ) from None
    if not isinstance(config, dict):
        raise ParseError("config.json is not an object", hint="give a Hugging Face config.json")
    return config


def _shape(outer: dict[str, object], name: str) -> ModelShape:
    config = _flattened(outer)
    family = str(config.get("model_type", ""))[:60]
    layers = _need(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers", most=10_000)
    hidden = _need(config, "hidden_size", "n_embd", "d_model")
    heads = _need(config, "num_attention_heads", "n_head", "n_heads", "num_heads")
    moe = _moe(config, layers)
    mla = _mla(config)
    quantization, quant = None, None
    section = config.get("quantization_config")
    if isinstance(section, dict):
        quantization, quant = parse_quantization(section, layers)
    positions = _positions(config)
    vision = outer.get("vision_config")
    return ModelShape(
        name=name,
        architecture=_architecture(outer, config),
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=_kv_heads(config, heads),
        head_dim=_head_dim(config, hidden, heads, mla),
        intermediate_size=_intermediate(config, hidden, moe, family),
        vocab_size=_need(config, "vocab_size", "padded_vocab_size"),
        max_position_embeddings=positions,
        dtype=_dtype(config),
        quantization=quantization,
        quant=quant,
        tied_embeddings=_tied(outer, config, family),
        attention_bias=_bias(config, family),
        moe=moe,
        mla=mla,
        linear=_linear(config, layers),
        sliding=_sliding(config, layers, family),
        vision=_vision(vision) if isinstance(vision, dict) else None,
        global_head_dim=_maybe(config, "global_head_dim"),
        global_kv_heads=_maybe(config, "num_global_key_value_heads"),
        global_k_is_v=config.get("attention_k_eq_v") is True,
        kv_shared_layers=_maybe(config, "num_kv_shared_layers", least=0) or 0,
        mtp_layers=_maybe(config, "mtp_num_hidden_layers", "num_nextn_predict_layers", least=0)
        or 0,
        pooling=bool(_POOLING.search(_architecture(outer, config))),
        gated_mlp=family not in _TWO_MATRICES,
        rotary_positions=_rotary_positions(config, positions),
        source="config.json",
    )


def _flattened(outer: dict[str, object]) -> dict[str, object]:
    """The language model's own keys over the outer ones: text_config and its like."""
    config = outer
    thinker = outer.get("thinker_config")
    if isinstance(thinker, dict):
        config = {**config, **thinker}
    for key in _INNER:
        inner = config.get(key)
        if isinstance(inner, dict):
            kept = {k: v for k, v in inner.items() if v is not None}
            return {**config, **kept}
    return config


def _number(config: Config, key: str, least: int, most: int) -> int | None:
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, list) and value and all(one == value[0] for one in value):
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParseError(
            f"config.json: {key} is {str(value)[:60]!r}, not a whole number",
            hint="nodeprep plans models whose layers share one shape; check the file",
        )
    if not least <= value <= most:
        raise ParseError(
            f"config.json: {key} is {str(value)[:40]}, outside {least}..{most}",
            hint="check the file",
        )
    return value


def _maybe(config: Config, *keys: str, least: int = 1, most: int = _LARGEST) -> int | None:
    for key in keys:
        value = _number(config, key, least, most)
        if value is not None:
            return value
    return None


def _need(config: Config, *keys: str, most: int = _LARGEST) -> int:
    value = _maybe(config, *keys, most=most)
    if value is None:
        raise ParseError(
            f"config.json has no {keys[0]}",
            hint="give the config.json of a text generation model (not of an adapter or pipeline)",
        )
    return value


def _architecture(outer: Config, config: Config) -> str:
    names = outer.get("architectures") or config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        name = names[0][:120]
        if name.isprintable():
            return name
    return ""


def _kv_heads(config: Config, heads: int) -> int:
    if config.get("multi_query") is True and config.get("new_decoder_architecture") is not True:
        return 1
    found = _maybe(config, "num_key_value_heads", "num_kv_heads", "n_head_kv",
                   "multi_query_group_num")  # fmt: skip
    return found or heads


def _head_dim(config: Config, hidden: int, heads: int, mla: MlaShape | None) -> int:
    if mla is not None:
        return mla.nope_head_dim + mla.rope_head_dim
    found = _maybe(config, "head_dim", "attention_head_dim", "kv_channels", "d_kv", most=65_536)
    if found is None and hidden < heads:
        raise ParseError(
            f"config.json: num_attention_heads {heads} exceeds hidden_size {hidden}",
            hint="check the file",
        )
    return found or hidden // heads


def _intermediate(config: Config, hidden: int, moe: MoeShape | None, family: str) -> int:
    dense = _maybe(config, "intermediate_size_mlp") if family.startswith("llama4") else None
    found = dense or _maybe(config, "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim",
                            "d_ff")  # fmt: skip
    if found is not None:
        return found
    if moe is not None:
        return moe.intermediate_size
    if family in _TWO_MATRICES:
        return 4 * hidden
    raise ParseError("config.json has no intermediate_size", hint="check the file")


def _dtype(config: Config) -> str:
    """`torch_dtype` or, since transformers 4.56, `dtype`; float32 where nothing is said."""
    for key in ("torch_dtype", "dtype"):
        value = config.get(key)
        if isinstance(value, str):
            name = value.removeprefix("torch.")
            if name in _DTYPES:
                return {"half": "float16", "float": "float32"}.get(name, name)
    return "float32"


def _tied(outer: Config, config: Config, family: str) -> bool:
    for source in (config, outer):
        value = source.get("tie_word_embeddings")
        if isinstance(value, bool):
            return value
    return family.startswith(_TIED)


def _bias(config: Config, family: str) -> bool:
    named = ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias")
    if any(config.get(key) is True for key in named):
        return True
    return family.startswith(("qwen2", "gpt_oss", "gpt2"))


def _positions(config: Config) -> int | None:
    return _maybe(config, "max_position_embeddings", "n_positions", "max_sequence_length",
                  "seq_length", "max_seq_len", "model_max_length", most=1 << 31)  # fmt: skip


def _rotary_positions(config: Config, positions: int | None) -> int | None:
    """YaRN builds its table over original length x factor (vllm: rotary_embedding/yarn)."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    if not isinstance(scaling, dict):
        return positions
    kind = scaling.get("rope_type", scaling.get("type"))
    factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
    yarn = kind in ("yarn", "deepseek_yarn")
    if yarn and isinstance(factor, (int, float)) and isinstance(original, int):
        return max(1, min(int(original * factor), 1 << 31)) if 0 < factor < 1e6 else positions
    return positions


def _moe(config: Config, layers: int) -> MoeShape | None:
    experts = _maybe(config, "num_local_experts", "num_experts", "n_routed_experts",
                     "moe_num_experts", "num_moe_experts", least=0, most=1 << 16)  # fmt: skip
    if experts is None or experts < 2:
        return None
    width = _need(config, "moe_intermediate_size", "expert_intermediate_size",
                  "intermediate_size")  # fmt: skip
    top = _maybe(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k",
                 "top_k_experts", most=1 << 16)  # fmt: skip
    return MoeShape(
        experts=experts,
        experts_per_token=min(top or 1, experts),
        intermediate_size=width,
        shared_intermediate_size=_shared_width(config, width),
        dense_layers=min(_dense_layers(config, layers), layers),
    )


def _shared_width(config: Config, width: int) -> int:
    """Width of all shared experts; Llama 4 has one as wide as a routed expert."""
    given = _maybe(config, "shared_expert_intermediate_size", "shared_intermediate_size", least=0)
    if given is not None:
        return given
    count = _maybe(config, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
                   least=0, most=1024)  # fmt: skip
    if count is None:
        return width if str(config.get("model_type", "")).startswith("llama4") else 0
    return count * width


def _dense_layers(config: Config, layers: int) -> int:
    first = _maybe(config, "first_k_dense_replace", "moe_layer_start_index", least=0)
    if first is not None:
        return first
    only = config.get("mlp_only_layers")
    if isinstance(only, list) and only:
        return len(only)
    step = _maybe(config, "decoder_sparse_step", "interleave_moe_layer_step", least=0)
    return layers - layers // step if step and step > 1 else 0


def _mla(config: Config) -> MlaShape | None:
    rank = _maybe(config, "kv_lora_rank")
    rope = _maybe(config, "qk_rope_head_dim")
    if rank is None or rope is None:
        return None
    return MlaShape(
        kv_lora_rank=rank,
        rope_head_dim=rope,
        nope_head_dim=_need(config, "qk_nope_head_dim"),
        v_head_dim=_need(config, "v_head_dim"),
        q_lora_rank=_maybe(config, "q_lora_rank"),
    )


def _layer_types(config: Config, layers: int) -> list[str]:
    types = config.get("layer_types")
    if not isinstance(types, list):
        return []
    names = [one if isinstance(one, str) else "" for one in types[:layers]]
    return names if len(names) == layers else []


def _linear(config: Config, layers: int) -> LinearAttentionShape | None:
    key_heads = _maybe(config, "linear_num_key_heads")
    if key_heads is None:
        return None
    types = _layer_types(config, layers)
    every = _maybe(config, "full_attention_interval", least=1) or 4
    count = types.count("linear_attention") if types else layers - layers // every
    return LinearAttentionShape(
        layers=count,
        key_heads=key_heads,
        value_heads=_need(config, "linear_num_value_heads"),
        key_head_dim=_need(config, "linear_key_head_dim"),
        value_head_dim=_need(config, "linear_value_head_dim"),
        conv_kernel=_maybe(config, "linear_conv_kernel_dim") or 4,
    )


def _sliding(config: Config, layers: int, family: str) -> SlidingShape | None:
    types = _layer_types(config, layers)
    chunk = _maybe(config, "attention_chunk_size")
    if chunk is not None and family.startswith("llama4"):
        count = types.count("chunked_attention") if types else layers - layers // 4
        return SlidingShape(layers=count, window=chunk, chunked=True)
    window = _maybe(config, "sliding_window", "sliding_window_size", least=0)
    if not window or config.get("use_sliding_window") is False:
        return None
    if types:
        count = types.count("sliding_attention")
    else:
        usual = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
        every = _maybe(config, "sliding_window_pattern") or usual.get(family)
        count = layers - layers // every if every else layers
    return SlidingShape(layers=count, window=window) if count else None


def _vision(config: dict[str, object]) -> VisionShape:
    return VisionShape(
        layers=_maybe(config, "depth", "num_hidden_layers", "num_layers", most=10_000),
        hidden_size=_maybe(config, "hidden_size", "embed_dim"),
        intermediate_size=_maybe(config, "intermediate_size"),
    )
