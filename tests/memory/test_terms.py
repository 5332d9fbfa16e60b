"""Terms against figures that vLLM printed; each names its public source."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodeprep.memory import sampler
from nodeprep.memory.activation import (
    encoder_bytes,
    encoder_cache_bytes,
    forward_bytes,
    workspace_bytes,
)
from nodeprep.memory.allocator import allocated_bytes
from nodeprep.memory.budget import cublas_bytes
from nodeprep.memory.communication import communication_bytes, nccl_buffer_bytes
from nodeprep.memory.cuda_graphs import capture_sizes, graph_bytes
from nodeprep.memory.plan import plan
from nodeprep.memory.resolve import resolve
from nodeprep.memory.terms import cached_tokens, rank_terms
from nodeprep.memory.weights import weight_bytes
from nodeprep.model.memory import VisionShape
from nodeprep.units import GIB, MIB, gib
from tests.memory.shapes import LLAMA_70B, LLAMA_70B_FP8, request, shape


@pytest.mark.parametrize(
    ("size_mib", "taken_mib"), [(270, 270), (135, 136), (129.5, 130), (24.5, 24.5), (0.5, 0.5)]
)
def test_the_allocator_keeps_a_rest_of_one_mib(size_mib: float, taken_mib: float) -> None:
    assert allocated_bytes(size_mib * MIB) == taken_mib * MIB


@pytest.mark.parametrize(
    ("name", "tp", "loaded_gib"),
    [
        ("llama-3.1-8b", 1, 14.9888),  # vllm#10517
        ("llama-3-8b", 1, 14.9596),  # faradawn/bench3
        ("r1-distill-qwen-14b", 1, 27.5916),  # jayashan10/Deepseek-qwen-deployment
        ("r1-distill-qwen-14b", 2, 13.9476),  # vllm#13061
        ("qwen3-30b-a3b-2507", 1, 56.9342),  # kolyangg/mlops-assignment
        ("gpt-oss-120b", 1, 65.9651),  # vllm#23278
    ],
)
def test_what_model_loading_took(name: str, tp: int, loaded_gib: float) -> None:
    assert gib(weight_bytes(shape(name), tp, 2)) == pytest.approx(loaded_gib, abs=0.03)


def test_sorting_takes_38_bytes_a_logit() -> None:
    n, vocab = 256, 151_936
    total = sampler.logits_bytes(n, vocab, 2) + sampler.sampler_bytes("sort", n, vocab, 2, 132)
    assert total == 38 * n * vocab


def test_triton_takes_a_buffer_row_a_multiprocessor() -> None:
    n, vocab = 256, 151_936
    assert sampler.sampler_bytes("triton", n, vocab, 2, 58) == 12 * n * vocab + 58 * vocab * 4
    assert sampler.sampler_bytes("triton", 4, vocab, 2, 58) == sampler.sampler_bytes(
        "sort", 4, vocab, 2, 58
    )


def test_runner_v2_copies_the_logits_up_to_0_25() -> None:
    n, vocab = 256, 151_936
    assert sampler.sampler_bytes("copy", n, vocab, 2, 58) == 4 * n * vocab
    assert sampler.sampler_bytes("logits", n, vocab, 2, 58) == 0


def test_runner_v2_extrapolates_its_full_graphs() -> None:
    """Logs of 0.29 and 0.30: Qwen3 8B with 128 sequences 0.28 GiB, with 256 about 0.44 to 1.2; the
    estimate grows with the square of the sequences, since both number and size do."""
    small, large = (
        graph_bytes(shape("qwen3-8b"), seqs, 1, 2, nvlink=False, extrapolated=True)
        for seqs in (128, 256)
    )
    assert gib(small) == pytest.approx(0.28, abs=0.12)
    assert gib(large) == pytest.approx(0.8, abs=0.3)
    plain = [graph_bytes(shape("qwen3-8b"), seqs, 1, 2, nvlink=False) for seqs in (128, 256)]
    assert large - plain[1] > 3 * (small - plain[0])


def test_graphs_hold_nccls_collectives_where_there_is_no_nvlink() -> None:
    """A log of 0.27.1, Qwen3 235B on four RTX PRO 6000 with 32 sequences: 0.32 GiB of graphs."""
    wide = shape("qwen3-235b-a22b")
    pcie, mesh = (graph_bytes(wide, 32, 4, 2, nvlink=nvlink) for nvlink in (False, True))
    assert gib(pcie) == pytest.approx(0.32, abs=0.1)
    assert pcie > mesh
    alone = [graph_bytes(wide, 32, 1, 2, nvlink=nvlink) for nvlink in (False, True)]
    assert alone[0] == alone[1]


def test_a_cold_start_of_runner_v2_times_its_embedding() -> None:
    """A log of 0.27.1, Qwen3 8B on an RTX 4090: 1.18 GiB of peak when it compiles, 0.19 when not;
    runner V1 (0.21) shows none of it."""
    asked = request(vllm_version="0.27.1", gpu_name="NVIDIA GeForce RTX 4090")
    cold = rank_terms(resolve(shape("qwen3-8b"), asked), 0)
    assert gib(cold.peak) == pytest.approx(1.18, abs=0.03)
    warm = replace(resolve(shape("qwen3-8b"), asked), compiled=True)
    assert gib(rank_terms(warm, 0).peak) == pytest.approx(0.26, abs=0.1)
    rank = plan(shape("qwen3-8b"), asked).ranks[0]
    room = rank.kv_cache_bytes_high - rank.kv_cache_bytes
    assert room > cold.peak - rank_terms(warm, 0).peak


def test_the_pixels_are_alive_beside_the_encoder() -> None:
    """Logs of Qwen3.5 9B on an L40S, 0.18 and 0.19: about 1.86 GiB of peak, all of it the
    encoder's 65,536 patches and their 16,384 tokens."""
    tower = VisionShape(hidden_size=1152, intermediate_size=4304, patches_per_token=4,
                        item_tokens=16_384)  # fmt: skip
    seen = shape("qwen3-8b", vision=tower)
    assert gib(encoder_bytes(seen, 16_384, 2)) == pytest.approx(1.75, abs=0.12)


def test_kernels_are_tuned_with_256_mib() -> None:
    tiny = shape("qwen2.5-0.5b")
    for eager, least in ((False, 256 * MIB), (True, 0)):
        rank = plan(tiny, request(vllm_version="0.27.1", enforce_eager=eager)).ranks[0]
        peak = rank.activation_bytes + rank.sampler_bytes + rank.logits_bytes
        assert peak >= least
        assert (peak >= 256 * MIB) is not eager


def test_where_the_memory_is_the_hosts_the_process_counts() -> None:
    spark, card = (
        plan(shape(), request(gpu_name=name, gpu_memory_gib=96.0)).ranks[0]
        for name in ("NVIDIA GB10", "NVIDIA RTX PRO 6000")
    )
    assert spark.other_bytes - card.other_bytes == 700 * MIB
    assert (
        spark.kv_cache_bytes_high - spark.kv_cache_bytes_low
        > card.kv_cache_bytes_high - card.kv_cache_bytes_low
    )


def test_the_forward_pass_of_20000_tokens() -> None:
    """vllm#10517: peak_torch 17.06 GiB with 14.99 GiB of weights."""
    peak = forward_bytes(shape(), 20_000, 1, 2, max_model_len=20_000, v1=False,
                         moe_workspace=False)  # fmt: skip
    assert gib(peak + cublas_bytes(8)) == pytest.approx(2.07, abs=0.02)


def test_experts_keep_their_workspace() -> None:
    moe = shape("qwen3-30b-a3b")
    assert workspace_bytes(moe, 8192, 1, 2) == 8192 * 8 * (2048 + 2048) * 2
    assert workspace_bytes(shape(), 8192, 1, 2) == 0


def test_v0_samples_on_rank_0_alone() -> None:
    result = plan(shape(LLAMA_70B), request(vllm_version="0.7.2", tensor_parallel=8))
    assert result.engine == "V0"
    assert result.limiting_rank == 0
    assert result.ranks[0].sampler_bytes > 0
    assert all(one.sampler_bytes == 0 for one in result.ranks[1:])
    assert result.ranks[0].logits_bytes > result.ranks[1].logits_bytes


def test_v1_samples_on_every_rank() -> None:
    result = plan(shape(LLAMA_70B), request(vllm_version="0.11.0", tensor_parallel=8))
    assert len({one.kv_cache_bytes for one in result.ranks}) == 1


def test_nccl_is_the_same_on_every_rank_and_absent_alone() -> None:
    assert communication_bytes(1, nvlink=True, major=9) == 0
    assert nccl_buffer_bytes(1, 1) == 4 * MIB + MIB // 2 + 4_915_200
    result = plan(shape(LLAMA_70B), request(vllm_version="0.10.2", tensor_parallel=8))
    assert len({one.nccl_bytes for one in result.ranks}) == 1


def test_captured_batch_sizes() -> None:
    assert capture_sizes(16) == 7  # 1, 2, 4, 8, 16, 24, 32: `PIECEWISE=7 (largest=32)`
    assert capture_sizes(64) == 19  # `PIECEWISE=19 (largest=128)`
    assert capture_sizes(256) == capture_sizes(1024) == 51


def test_more_than_the_gpu_does_not_fit() -> None:
    result = plan(shape(LLAMA_70B), request())
    assert not result.fits
    assert result.limit is not None
    assert "weights" in result.limit
    size = result.recommended["tensor_parallel_size"]
    assert plan(shape(LLAMA_70B), request(tensor_parallel=size)).fits
    assert not plan(shape(LLAMA_70B), request(tensor_parallel=size // 2)).fits


def test_one_request_too_long_is_named() -> None:
    result = plan(shape(), request(gpu_name="NVIDIA GeForce RTX 4090", max_model_len=131_072))
    assert not result.fits
    assert result.limit is not None
    assert "131072 tokens" in result.limit
    assert 0 < result.recommended["max_model_len"] < 131_072


def test_too_much_utilization_fails_at_start() -> None:
    result = plan(shape(), request(gpu_memory_utilization=0.999))
    assert not result.fits
    assert result.limit is not None
    assert result.limit.startswith("free memory at start")


def test_the_reserve_outside_the_budget_is_weighed() -> None:
    tight = plan(shape(), request(gpu_memory_utilization=0.985))
    assert any("outside the budget" in one for one in tight.warnings)
    roomy = plan(shape(), request(gpu_memory_utilization=0.90))
    assert not any("outside the budget" in one for one in roomy.warnings)


@pytest.mark.parametrize("wanted", [None, 2, 16])
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_what_is_recommended_together_holds_together(tp: int, wanted: int | None) -> None:
    asked = request(
        vllm_version="0.20.2", tensor_parallel=tp, max_model_len=131_072, concurrency=wanted
    )
    result = plan(shape(LLAMA_70B_FP8), asked)
    knobs = result.recommended
    if knobs["max_model_len"]:
        held = knobs["kv_cache_memory_bytes"] // result.kv_bytes_per_token
        assert knobs["max_model_len"] * (wanted or 1) <= held
        assert not {"tensor_parallel_size", "kv_cache_dtype"} & knobs.keys()
    else:
        assert "kv_cache_memory_bytes" not in knobs


def test_replicas_are_only_advised_where_they_hold_as_many_requests() -> None:
    long, short = (
        plan(shape(LLAMA_70B_FP8), request(tensor_parallel=4, max_model_len=length, gpu_count=4))
        for length in (16_384, 2048)
    )
    assert "tensor-parallel-size" not in [one.option for one in long.advice]
    assert short.fits


def test_safe_kv_bytes_leave_a_margin() -> None:
    result = plan(shape(), request(vllm_version="0.11.0"))
    safe = result.recommended["kv_cache_memory_bytes"]
    assert 0 < safe < result.ranks[0].kv_cache_bytes_low < result.ranks[0].kv_cache_bytes
    assert result.ranks[0].kv_cache_bytes - safe < 2 * GIB
    assert "kv_cache_memory_bytes" not in plan(shape(), request(vllm_version="0.9.2")).recommended


VLM = {"patches_per_token": 4, "item_tokens": 16_384, "hidden_size": 1280,
       "intermediate_size": 5120}  # fmt: skip


def test_v0_profiles_as_many_sequences_as_carry_an_image() -> None:
    """256 sequences shrink to 2 of 16384 image tokens each: hardly anything is sampled."""
    base = {"vllm_version": "0.7.3", "gpu_name": "NVIDIA H200", "max_model_len": 32_768}
    text = plan(shape(), request(**base)).ranks[0]
    images = plan(shape(vision=VisionShape(**VLM)), request(**base)).ranks[0]
    assert images.sampler_bytes * 90 < text.sampler_bytes
    assert images.logits_bytes == 2 * 128_256 * 2
    assert images.activation_bytes > 32_768 * 4 * 2 * (5120 + 1280) * 2


def test_v0_leaves_out_an_image_that_is_too_long() -> None:
    """A context of 8192 tokens carries no image of 16384, so only text is profiled."""
    base = {"vllm_version": "0.7.3", "gpu_name": "NVIDIA H200", "max_model_len": 8192}
    images = plan(shape(vision=VisionShape(**VLM)), request(**base)).ranks[0]
    assert images.activation_bytes < GIB
    assert images.logits_bytes == 128_256 * 2


def test_flashinfer_samples_with_a_third() -> None:
    base = {"vllm_version": "0.10.1.1", "gpu_name": "NVIDIA A100-SXM4-80GB"}
    plain, less = (plan(shape(), request(**base, flashinfer=given)) for given in (None, True))
    assert less.ranks[0].sampler_bytes * 3 == plain.ranks[0].sampler_bytes
    assert any("--flashinfer" in one for one in plain.assumptions)
    assert not any("--flashinfer" in one for one in less.assumptions)


def test_more_parameters_than_the_shape_has_never_make_weights_negative() -> None:
    small = plan(shape(LLAMA_70B), request(params_billion=8.0, tensor_parallel=8)).ranks[0]
    assert 0 < small.weights_bytes < 3 * GIB
    assert small.kv_cache_bytes < small.requested_bytes


def test_memory_in_use_by_others_fails_the_check_at_start() -> None:
    result = plan(shape(), request(busy_gib=6.0))
    assert result.limit is not None
    assert result.limit.startswith("free memory at start")
    assert any("other processes" in one for one in result.assumptions)


@pytest.mark.parametrize(
    ("version", "tokens"), [("0.10.2", 16_384), ("0.11.2", 153_600), ("0.13.0", 16_384)]
)
def test_a_deepstack_tower_keeps_a_whole_video_in_0_11_and_0_12(version: str, tokens: int) -> None:
    """Logs of Qwen3-VL 30B, 0.11.0: an encoder budget of 153,600 tokens, one video."""
    tower = VisionShape(item_tokens=16_384, output_levels=4)
    run = resolve(shape("qwen3-30b-a3b-2507", vision=tower), request(vllm_version=version))
    assert cached_tokens(run) == tokens
    assert encoder_cache_bytes(run.shape, tokens, 2) == tokens * 2048 * 4 * 2
