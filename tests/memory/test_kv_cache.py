from __future__ import annotations

import json

import pytest

from nodeprep.memory import kv_cache
from nodeprep.memory.plan import cache_layout
from nodeprep.memory.resolve import resolve
from nodeprep.parse.hf_config import parse_hf_config
from nodeprep.units import GIB
from tests.memory.shapes import request, shape


def test_a_dense_model_is_one_group() -> None:
    cache = cache_layout(resolve(shape(), request()))
    assert (cache.groups, cache.block_tokens, cache.block_bytes) == (1, 16, 16 * 131_072)
    assert kv_cache.blocks_in(10 * cache.block_bytes + 1, cache) == 10
    assert kv_cache.blocks_in(-5, cache) == 0


def test_gpt_oss_alternates_two_groups() -> None:
    """36 layers: 18 full, 18 with a window of 128; tokens halve before 0.20.1."""
    cache = cache_layout(resolve(shape("gpt-oss-120b"), request(max_model_len=131_072)))
    assert (cache.groups, cache.group_layers) == (2, 18)
    window_blocks = -(-(127 + 2048) // 16) + 1
    assert cache.blocks_per_request == 131_072 // 16 + window_blocks
    assert kv_cache.reported_tokens(1001, cache, 131_072, "groups") == 500 * 16


def test_a_window_keeps_two_steps_from_0_26() -> None:
    """Asynchronous scheduling: the step before is not settled when the next one is scheduled."""
    asked = {"max_model_len": 131_072, "max_num_batched_tokens": 4096}
    shapes = shape("gpt-oss-120b")
    before = cache_layout(resolve(shapes, request(vllm_version="0.25.1", **asked)))
    after = cache_layout(resolve(shapes, request(vllm_version="0.26.0", **asked)))
    assert after.blocks_per_request - before.blocks_per_request == 4096 // 16


def test_gemma_4_on_0_26_keeps_whole_requests_of_16384() -> None:
    """A log of 0.26.0 on a B300: 13.25 requests of 16,384 tokens, 217,116 tokens in 182.37 GiB.

    Ten full layers and fifty sliding ones, whose window and two steps are longer than the request.
    """
    text = {
        "num_hidden_layers": 60, "hidden_size": 5376, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 256, "global_head_dim": 512,
        "num_global_key_value_heads": 4, "attention_k_eq_v": True, "intermediate_size": 21504,
        "vocab_size": 262144, "sliding_window": 1024, "max_position_embeddings": 262144,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
        "model_type": "gemma4_text", "architectures": ["Gemma4ForCausalLM"],
    }  # fmt: skip
    asked = request(vllm_version="0.26.0", max_model_len=16_384, max_num_batched_tokens=8192)
    cache = cache_layout(resolve(parse_hf_config(json.dumps(text), "gemma"), asked))
    blocks = kv_cache.blocks_in(182.37 * GIB, cache)
    assert kv_cache.reported_tokens(blocks, cache, 16_384, "concurrency") == pytest.approx(
        217_116, rel=0.01
    )


def test_gemma_3_has_five_sliding_layers_for_one_full() -> None:
    cache = cache_layout(resolve(shape("gemma-3-27b"), request(max_model_len=65_536)))
    assert {one.kind: one.layers for one in cache.kinds} == {"full": 10, "sliding": 52}
    assert (cache.group_layers, cache.groups) == (10, 7)


def test_before_0_9_2_a_sliding_layer_keeps_everything() -> None:
    cache = cache_layout(resolve(shape("gemma-2-9b"), request(vllm_version="0.8.5")))
    assert {one.kind for one in cache.kinds} == {"full"}
    assert cache.groups == 1


def test_a_linear_layers_state_sets_the_block() -> None:
    """vllm#40691: Qwen3.5-27B on 0.19.0 printed 290,864 tokens and 33.04x of 32,768."""
    run = resolve(shape("qwen3.5-27b"), request(vllm_version="0.19.0", max_model_len=32_768))
    cache = cache_layout(run)
    assert (cache.block_tokens, cache.groups, cache.group_layers) == (784, 4, 16)
    blocks = 1487
    assert kv_cache.reported_tokens(blocks, cache, 32_768, "groups") == 290_864
    assert round(kv_cache.concurrency(blocks, cache), 2) == 33.04


@pytest.mark.parametrize(("version", "printed"), [("0.20.0", 55_000), ("0.21.0", 525_000)])
def test_gemma_4_is_reported_tenfold_from_0_21(version: str, printed: int) -> None:
    """vllm#43308: Gemma 4 31B with about 50 GiB; the memory is the same, the figure is not."""
    text = {
        "num_hidden_layers": 60, "hidden_size": 5376, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 256, "global_head_dim": 512,
        "num_global_key_value_heads": 4, "attention_k_eq_v": True, "intermediate_size": 21504,
        "vocab_size": 262144, "sliding_window": 1024, "max_position_embeddings": 262144,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    }  # fmt: skip
    model = parse_hf_config(json.dumps({"model_type": "gemma4", "text_config": text}), "gemma-4")
    run = resolve(model, request(vllm_version=version, gpu_name="A100 80GB", max_model_len=131_072))
    cache = cache_layout(run)
    blocks = kv_cache.blocks_in(50 * GIB, cache)
    tokens = kv_cache.reported_tokens(blocks, cache, 131_072, run.rules.reported)
    assert tokens == pytest.approx(printed, rel=0.06)


def test_mla_is_not_divided_by_the_ranks() -> None:
    layers = 61
    one = resolve(shape("deepseek-v3"), request(gpu_name="NVIDIA H200", tensor_parallel=8))
    assert kv_cache.token_bytes(cache_layout(one).kinds) == layers * 576 * 2
    old = resolve(
        shape("deepseek-v3"),
        request(vllm_version="0.7.3", gpu_name="NVIDIA H200", tensor_parallel=8),
    )
    assert kv_cache.token_bytes(cache_layout(old).kinds) == layers * 640 * 2


def test_fp8_ds_mla_has_its_own_size() -> None:
    run = resolve(shape("deepseek-v3"), request(gpu_name="NVIDIA H200", tensor_parallel=8,
                                                kv_cache_dtype="fp8_ds_mla"))  # fmt: skip
    assert kv_cache.token_bytes(cache_layout(run).kinds) == 61 * 656


@pytest.mark.parametrize(("counts", "size"), [([10, 52], 10), ([18, 18], 18), ([12, 13], 13)])
def test_group_size(counts: list[int], size: int) -> None:
    kinds = tuple(
        kv_cache.LayerKind(kind, count, 1024.0, 128)
        for kind, count in zip(("full", "sliding"), counts, strict=True)
    )
    assert kv_cache.layout(kinds, 16, 4096, 2048).group_layers == size
