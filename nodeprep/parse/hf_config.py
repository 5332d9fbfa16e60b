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

import msgspec

from nodeprep.errors import ParseError
from nodeprep.model.memory import MlaShape, ModelShape, MoeShape
from nodeprep.parse.hf_keys import Config, maybe, need
from nodeprep.parse.hf_layers import read_linear, read_mla, read_moe, read_sliding, read_vision
from nodeprep.parse.hf_quantization import parse_quantization

MAX_BYTES = 8 << 20
_DTYPES = {"bfloat16", "float16", "float32", "float64", "half", "float"}
_INNER = ("text_config", "llm_config", "language_config", "text_model_config")
_TIED = ("gemma", "gpt2", "falcon", "cohere", "bloom", "mpt", "starcoder2", "opt")
_TWO_MATRICES = {
    "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "mpt", "phi",
    "starcoder2", "nemotron", "persimmon",
}  # fmt: skip
_POOLING = re.compile(r"ForSequenceClassification|ForTokenClassification|EmbeddingModel|Reward")


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
    layers = need(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers", most=10_000)
    hidden = need(config, "hidden_size", "n_embd", "d_model")
    heads = need(config, "num_attention_heads", "n_head", "n_heads", "num_heads")
    moe = read_moe(config, layers)
    mla = read_mla(config)
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
        vocab_size=need(config, "vocab_size", "padded_vocab_size"),
        max_position_embeddings=positions,
        dtype=_dtype(config),
        quantization=quantization,
        quant=quant,
        tied_embeddings=_tied(outer, config, family),
        attention_bias=_bias(config, family),
        moe=moe,
        mla=mla,
        linear=read_linear(config, layers),
        sliding=read_sliding(config, layers, family),
        vision=read_vision(vision, outer) if isinstance(vision, dict) else None,
        global_head_dim=maybe(config, "global_head_dim"),
        global_kv_heads=maybe(config, "num_global_key_value_heads"),
        global_k_is_v=config.get("attention_k_eq_v") is True,
        kv_shared_layers=min(layers - 1, maybe(config, "num_kv_shared_layers", least=0) or 0),
        mtp_layers=maybe(config, "mtp_num_hidden_layers", "num_nextn_predict_layers", least=0) or 0,
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
    found = maybe(config, "num_key_value_heads", "num_kv_heads", "n_head_kv",
                   "multi_query_group_num")  # fmt: skip
    return found or heads


def _head_dim(config: Config, hidden: int, heads: int, mla: MlaShape | None) -> int:
    if mla is not None:
        return mla.nope_head_dim + mla.rope_head_dim
    found = maybe(config, "head_dim", "attention_head_dim", "kv_channels", "d_kv", most=65_536)
    if found is None and hidden < heads:
        raise ParseError(
            f"config.json: num_attention_heads {heads} exceeds hidden_size {hidden}",
            hint="check the file",
        )
    return found or hidden // heads


def _intermediate(config: Config, hidden: int, moe: MoeShape | None, family: str) -> int:
    dense = maybe(config, "intermediate_size_mlp") if family.startswith("llama4") else None
    found = dense or maybe(config, "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim",
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
    return maybe(config, "max_position_embeddings", "n_positions", "max_sequence_length",
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
