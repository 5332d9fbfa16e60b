from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError
from nodeprep.model.memory import MoeShape, SlidingShape
from nodeprep.parse.hf_config import (
    parse_hf_config,
    parse_hf_config_text,
    parse_safetensors_index,
)

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def parsed(**changes: Any) -> Any:
    config = {key: value for key, value in (LLAMA | changes).items() if value is not ...}
    return parse_hf_config(json.dumps(config).encode(), "model")


def test_a_dense_model() -> None:
    shape = parsed()
    assert (shape.layers, shape.kv_heads, shape.head_dim) == (80, 8, 128)
    assert shape.quantization is None
    assert not shape.tied_embeddings


def test_head_dim_need_not_be_hidden_over_heads() -> None:
    assert parsed(head_dim=256).head_dim == 256


def test_missing_kv_heads_mean_all_heads_and_multi_query_one() -> None:
    assert parsed(num_key_value_heads=...).kv_heads == 64
    assert parsed(num_key_value_heads=..., multi_query=True).kv_heads == 1


def test_the_language_model_may_be_nested() -> None:
    outer = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "torch_dtype": "bfloat16",
        "text_config": {**LLAMA, "model_type": "gemma3_text", "sliding_window": 1024},
        "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
    }
    shape = parse_hf_config(json.dumps(outer), "gemma")
    assert shape.architecture == "Gemma3ForConditionalGeneration"
    assert shape.sliding == SlidingShape(layers=67, window=1024)
    assert shape.vision is not None
    assert shape.vision.layers == 27
    assert shape.tied_embeddings


def test_experts() -> None:
    shape = parsed(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768,
                   shared_expert_intermediate_size=512)  # fmt: skip
    assert shape.moe == MoeShape(
        experts=128, experts_per_token=8, intermediate_size=768, shared_intermediate_size=512
    )


def test_yarn_lengthens_the_rotary_table() -> None:
    shape = parsed(
        max_position_embeddings=40960,
        rope_scaling={
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32768,
        },
    )
    assert shape.rotary_positions == 131_072


@pytest.mark.parametrize(
    ("section", "name", "bits", "group", "skips"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", 8, None, ("lm_head",)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", 8, None,
         ("lm_head",)),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 4, 128, ("lm_head",)),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq", 8, None, ("lm_head",)),
        ({"quant_method": "mxfp4"}, "mxfp4", 4, 32, ("attention", "lm_head", "mlp")),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt", 4, 16, ("lm_head",)),
        ({"quantization": {"quant_algo": "FP8"}}, "modelopt", 8, None, ("lm_head",)),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bitsandbytes", 8, None,
         ("lm_head",)),
        ({"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*"],
          "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int",
                                                    "group_size": 32}}}},
         "compressed-tensors", 4, 32, ("lm_head", "attention")),
    ],
)  # fmt: skip
def test_quantization(
    section: dict[str, Any], name: str, bits: int, group: int | None, skips: tuple[str, ...]
) -> None:
    shape = parsed(quantization_config=section)
    assert shape.quantization == name
    assert shape.quant is not None
    assert (shape.quant.weight_bits, shape.quant.group_size) == (bits, group)
    assert set(shape.quant.skips) == set(skips)


@pytest.mark.parametrize(
    ("ignored", "skips"),
    [
        (["self_attn.kv_b_proj"], {"lm_head"}),
        (["model.layers.0.self_attn.q_proj"], {"lm_head"}),
        ([f"model.layers.{i}.self_attn.{p}_proj" for i in range(80) for p in "qkvo"],
         {"attention", "lm_head"}),
        (["re:.*mlp\\.(gate|up|down)_proj.*"], {"mlp", "lm_head"}),
        (["model.layers.*.mlp.router", "model.embed_tokens"], {"lm_head"}),
        (["re:.*shared_experts.*"], {"shared_experts", "lm_head"}),
    ],
)  # fmt: skip
def test_ignore_lists(ignored: list[str], skips: set[str]) -> None:
    section = {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ignored}
    assert set(parsed(quantization_config=section).quant.skips) == skips


def test_an_unknown_method_is_named_and_not_guessed() -> None:
    shape = parsed(quantization_config={"quant_method": "brandnew"})
    assert shape.quantization == "brandnew"
    assert shape.quant is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", ...),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 10**30),
        ("num_hidden_layers", "eighty"),
        ("num_hidden_layers", True),
        ("hidden_size", 8192.5),
        ("hidden_size", 0),
        ("vocab_size", None),
        ("num_key_value_heads", [8, "4"]),
        ("num_attention_heads", {}),
        ("intermediate_size", ...),
    ],
)
def test_errors_name_the_key(key: str, value: Any) -> None:
    with pytest.raises(ParseError) as raised:
        parsed(**{key: value})
    assert key in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "nan", "[" * 100_000, '{"a": "\\ud800"}'])
def test_what_is_not_a_config_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_hf_config_text(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [*LLAMA, "quantization_config", "text_config", "layer_types", "sliding_window", "rope_scaling",
     "num_experts", "kv_lora_rank", "qk_rope_head_dim", "vision_config", "linear_num_key_heads"]
)  # fmt: skip


@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_hostile_values_give_a_shape_or_a_parse_error(changes: dict[str, Any]) -> None:
    with contextlib.suppress(ParseError):
        assert parse_hf_config(json.dumps(LLAMA | changes), "model").layers > 0


def test_the_index_of_the_safetensors() -> None:
    assert parse_safetensors_index('{"metadata": {"total_size": 16060522496}}') == 16_060_522_496
    assert parse_safetensors_index('{"metadata": {"total_size": 1.5e9}}') == 1_500_000_000
    assert parse_safetensors_index('{"metadata": {"total_size": -1}}') is None
    assert parse_safetensors_index('{"weight_map": {}}') is None


def test_a_pasted_config_names_itself() -> None:
    text = json.dumps(LLAMA | {"_name_or_path": "meta-llama/Llama-3.1-70B"})
    assert parse_hf_config_text(text).name == "meta-llama/Llama-3.1-70B"
    assert parse_hf_config_text(json.dumps(LLAMA)).name == "llama"
