"""Models whose layers differ: what their config.json says, in layers, parameters and cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodeprep.errors import ParseError
from nodeprep.memory.kv_cache import layer_kinds, layout
from nodeprep.memory.plan import plan
from nodeprep.memory.versions import parse_version, rules_for
from nodeprep.memory.weights import parameters
from nodeprep.model.memory import ModelShape
from nodeprep.parse.hf_config import parse_hf_config
from tests.memory.shapes import request

BASE: dict[str, Any] = {
    "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128_256,
    "torch_dtype": "bfloat16", "max_position_embeddings": 131_072,
}  # fmt: skip
NEMOTRON_H = BASE | {
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "num_hidden_layers": 52,
    "intermediate_size": 21_504, "attention_head_dim": 128, "mamba_num_heads": 128,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "vocab_size": 131_072,
}  # fmt: skip
JAMBA = BASE | {
    "model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 4, "num_experts": 16,
    "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts_per_tok": 2,
    "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_expand": 2, "vocab_size": 65_536,
}  # fmt: skip
BAMBA = BASE | {
    "model_type": "bamba", "attn_layer_indices": [9, 18, 27], "mamba_n_heads": 128,
    "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1,
}  # fmt: skip
KIMI = {
    "model_type": "kimi_linear", "num_hidden_layers": 27, "hidden_size": 2304,
    "intermediate_size": 9216, "num_attention_heads": 32, "num_key_value_heads": 32,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
    "moe_intermediate_size": 1024, "first_k_dense_replace": 1, "vocab_size": 163_840,
    "torch_dtype": "bfloat16", "model_max_length": 1_048_576,
    "linear_attn_config": {"kda_layers": list(range(20)), "head_dim": 128, "num_heads": 32,
                           "short_conv_kernel_size": 4},
}  # fmt: skip
LFM = BASE | {
    "model_type": "lfm2_moe", "num_hidden_layers": 24, "hidden_size": 2048,
    "intermediate_size": 7168, "moe_intermediate_size": 1792, "num_experts": 32,
    "num_experts_per_tok": 4, "num_dense_layers": 2, "vocab_size": 65_536, "conv_L_cache": 3,
    "layer_types": ["conv", "conv", "full_attention", "conv"] * 6,
}  # fmt: skip
MINIMAX = BASE | {
    "model_type": "minimax_text_01", "num_hidden_layers": 80, "hidden_size": 6144,
    "intermediate_size": 9216, "num_attention_heads": 64, "head_dim": 128, "vocab_size": 200_064,
    "attn_type_list": ([0] * 7 + [1]) * 10, "num_local_experts": 32, "num_experts_per_tok": 2,
}  # fmt: skip


def shape(config: dict[str, Any]) -> ModelShape:
    return parse_hf_config(json.dumps(config), "model")


@pytest.mark.parametrize(
    ("config", "attention", "state", "billion"),
    [
        (NEMOTRON_H, 4, 24, 8.1), (JAMBA, 4, 28, 51.6), (BAMBA, 3, 29, 9.8),
        (KIMI, 7, 20, 49.1), (LFM, 6, 18, 8.3), (MINIMAX, 10, 70, 456),
    ],
    ids=["nemotron-h", "jamba", "bamba", "kimi-linear", "lfm2-moe", "minimax"],
)  # fmt: skip
def test_layers_and_published_parameters(
    config: dict[str, Any], attention: int, state: int, billion: float
) -> None:
    model = shape(config)
    assert model.linear is not None
    assert model.linear.layers == state
    kinds = layer_kinds(model, 1, 2.0, 2, rules_for(parse_version("0.20.2")), "auto")
    assert {one.kind: one.layers for one in kinds} == {"full": attention, "linear": state}
    assert parameters(model) / 1e9 == pytest.approx(billion, rel=0.02)


@pytest.mark.parametrize("config", [NEMOTRON_H, JAMBA, BAMBA, KIMI, LFM, MINIMAX])
@pytest.mark.parametrize("version", ["0.9.2", "0.16.0", "0.22.0", "0.33.0"])
def test_every_mix_is_planned(config: dict[str, Any], version: str) -> None:
    result = plan(shape(config), request(gpu_name="NVIDIA H200", tensor_parallel=8,
                                         vllm_version=version))  # fmt: skip
    assert result.fits
    assert result.kv_cache_tokens > 8192


def test_the_attention_block_grows_to_the_state() -> None:
    """`Setting attention block size to 2096 tokens`: 2 KV heads of 256 in fp8, 2 MiB of state."""
    config = BASE | {
        "model_type": "qwen3_5_text", "num_hidden_layers": 40, "hidden_size": 2048,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
        "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "mamba_ssm_dtype": "float32",
    }  # fmt: skip
    for version, states in (("0.24.0", 1), ("0.26.0", 2)):
        rules = rules_for(parse_version(version))
        cache = layout(layer_kinds(shape(config), 1, 1.0, 2, rules, "fp8"), 16, 131_072, 8192)
        assert (cache.block_tokens, cache.group_layers, cache.groups) == (2096, 10, 4)
        assert cache.blocks_per_request == -(-131_072 // 2096) + 3 * states


def test_a_sparse_indexer_caches_its_keys() -> None:
    mla = {
        "model_type": "deepseek_v32", "num_hidden_layers": 61, "hidden_size": 7168,
        "intermediate_size": 18_432, "num_attention_heads": 128, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129_280,
        "torch_dtype": "bfloat16", "max_position_embeddings": 163_840,
    }  # fmt: skip
    rules = rules_for(parse_version("0.20.2"))
    plain, sparse = (
        layer_kinds(shape(mla | more), 8, 2.0, 2, rules, "auto")[0].token_bytes
        for more in ({}, {"index_head_dim": 128})
    )
    assert (plain, sparse - plain) == (576 * 2, 128 + 4)


def test_puzzle_models_lack_layers() -> None:
    block = {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}}
    without = {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"ffn_mult": 1.3125}}
    model = shape(
        BASE | {"model_type": "nemotron-nas", "num_key_value_heads": None,
                "intermediate_size": None, "block_configs": [block, without] * 16}
    )  # fmt: skip
    assert (model.attention_layers, model.kv_heads) == (16, 4)
    assert model.intermediate_size == round((5.25 + 1.3125) / 2 * 4096 * 2 / 3)


def test_gemma_4_has_an_mlp_beside_its_experts() -> None:
    model = shape(
        BASE | {"model_type": "gemma4_text", "num_experts": 128, "top_k_experts": 8,
                "moe_intermediate_size": 704, "intermediate_size": 2112}
    )  # fmt: skip
    assert model.moe is not None
    assert (model.moe.shared_intermediate_size, model.moe.dense_layers) == (2112, 0)


@pytest.mark.parametrize(
    "more",
    [
        {"block_configs": [None, 1, "x", {"attention": 3}]}, {"attn_type_list": ["x"] * 40},
        {"linear_attn_config": {"kda_layers": "x"}}, {"layer_types": [["conv"]] * 40},
        {"attn_layer_indices": list(range(10_000))}, {"hybrid_layer_pattern": [None] * 40},
    ],
)  # fmt: skip
def test_odd_mixes_do_not_break(more: dict[str, Any]) -> None:
    model = shape(BASE | more)
    result = plan(model, request(gpu_name="NVIDIA H200"))
    assert result.ranks[0].weights_bytes > 0


@pytest.mark.parametrize("pattern", ["M" * 100_000, "\x00?!", "----"])
def test_a_pattern_without_a_cache_is_refused(pattern: str) -> None:
    with pytest.raises(ParseError, match="no layer"):
        shape(BASE | {"hybrid_override_pattern": pattern})
