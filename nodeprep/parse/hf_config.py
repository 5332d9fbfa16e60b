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
from nodeprep.parse.hf_hybrid import read_linear, read_mix
from nodeprep.parse.hf_keys import Config, maybe, need, number
from nodeprep.parse.hf_layers import (
    read_mla,
    read_moe,
    read_sliding,
    read_vision,
    with_mix,
)
from nodeprep.parse.hf_quantization import parse_quantization

MAX_BYTES = 8 << 20
_DTYPES = {"bfloat16", "float16", "float32", "float64", "half", "float"}
_INNER = ("text_config", "llm_config", "language_config", "text_model_config")
_TIED = ("gemma", "gpt2", "falcon", "cohere", "bloom", "mpt", "starcoder2", "opt")
_SUB_CONFIGS = ("attn_config", "ffn_config")
_TWO_MATRICES = {
    "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "mpt", "phi",
    "starcoder2", "nemotron", "persimmon", "nemotron_h", "bert", "roberta", "xlm-roberta",
    "whisper",
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
    try:
        metadata = msgspec.json.decode(data, type=_Index).metadata
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise ParseError(
            f"the safetensors index is not JSON: {str(error)[:120]}", hint="fetch it again"
        ) from None
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 0 < total < 1 << 50:
        return None
    return total


class _Index(msgspec.Struct):
    metadata: object = None


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
    heads = need(config, "num_attention_heads", "n_head", "n_heads", "num_heads",
                  "decoder_attention_heads")  # fmt: skip
    mix = read_mix(config, layers)
    moe = with_mix(read_moe(config, layers), mix)
    mla = read_mla(config)
    quantization, quant = None, None
    section = config.get("quantization_config")
    if isinstance(section, dict):
        quantization, quant = parse_quantization(section, layers)
    linear = read_linear(config, layers, mix)
    if mix.attention == 0 and linear is None:
        raise ParseError(
            "config.json: no layer has attention or a state of known size", hint="check the file"
        )
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
        linear=linear,
        sliding=read_sliding(config, layers, family),
        vision=read_vision(vision, outer) if isinstance(vision, dict) else None,
        global_head_dim=maybe(config, "global_head_dim"),
        global_kv_heads=maybe(config, "num_global_key_value_heads"),
        global_k_is_v=config.get("attention_k_eq_v") is True,
        kv_shared_layers=min(layers - 1, maybe(config, "num_kv_shared_layers", least=0) or 0),
        mtp_layers=maybe(config, "mtp_num_hidden_layers", "num_nextn_predict_layers", least=0) or 0,
        pooling=bool(_POOLING.search(_architecture(outer, config))),
        gated_mlp=family not in _TWO_MATRICES,
        attention_layers=mix.attention,
        mlp_layers=mix.mlp,
        index_head_dim=maybe(config, "index_head_dim") if mla is not None else None,
        rotary_positions=_rotary_positions(config, positions),
        source="config.json",
    )


def _flattened(outer: dict[str, object]) -> dict[str, object]:
    """The language model's own keys over the outer ones: text_config and its like."""
    config = outer
    for key in _SUB_CONFIGS:
        part = outer.get(key)
        if isinstance(part, dict):
            config = {**part, **config}
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
                   "multi_query_group_num", "num_attention_groups", "kv_n_heads")  # fmt: skip
    if found is None:
        return max(1, heads // _heads_in_group(config))
    return found


def _heads_in_group(config: Config) -> int:
    """Query heads that share a KV head in a Puzzle model (Nemotron-NAS)."""
    blocks = config.get("block_configs")
    for block in blocks if isinstance(blocks, list) else ():
        part = block.get("attention") if isinstance(block, dict) else None
        if isinstance(part, dict) and isinstance(part.get("n_heads_in_group"), int):
            return max(1, number(part, "n_heads_in_group", 1, 65_536) or 1)
    return 1


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
                            "d_ff", "block_ff_dim", "encoder_ffn_dim")  # fmt: skip
    if found is not None:
        # the first Qwen counts gate and up together
        if family == "qwen":
            return found // 2
        adjusted = family.startswith("lfm2") and config.get("block_auto_adjust_ff_dim") is not False
        return 2 * found // 3 if adjusted and "block_ff_dim" in config else found
    if family in ("mamba", "mamba2", "falcon_mamba"):
        return 2 * hidden
    multiple = _ffn_multiple(config)
    if multiple is not None:
        return round(multiple * hidden * 2 / 3)
    if moe is not None:
        return moe.intermediate_size
    if family in _TWO_MATRICES:
        return 4 * hidden
    raise ParseError("config.json has no intermediate_size", hint="check the file")


def _ffn_multiple(config: Config) -> float | None:
    """Mean `ffn_mult` of a Puzzle model's blocks; two thirds of it times hidden is the width.

    Source: vllm/model_executor/models/nemotron_nas.py _ffn_mult_to_intermediate_size.
    """
    blocks = config.get("block_configs")
    if not isinstance(blocks, list):
        return None
    parts = [block.get("ffn") for block in blocks[:10_000] if isinstance(block, dict)]
    found = [part.get("ffn_mult") for part in parts if isinstance(part, dict)]
    numbers = [one for one in found if isinstance(one, (int, float)) and 0 < one < 1000]
    return sum(numbers) / len(numbers) if numbers else None


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
                  "seq_length", "max_seq_len", "model_max_length",
                  "max_target_positions", "max_position_embedding", most=1 << 31)  # fmt: skip


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
