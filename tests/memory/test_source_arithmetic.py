"""The numbers of the two documents that this arithmetic comes from, where they are right."""

from __future__ import annotations

import pytest

from nodeprep.memory.kv_cache import head_bytes, token_bytes
from nodeprep.memory.plan import cache_layout, plan, sessions
from nodeprep.memory.resolve import resolve
from nodeprep.memory.sampler import blocks_lost, gather_extra_bytes
from nodeprep.units import GIB, MIB, gib, mib
from tests.memory.shapes import LLAMA_70B, LLAMA_70B_FP8, request, shape

VOCAB = 128_256


@pytest.mark.parametrize(("value_bytes", "expected"), [(2, 327_680), (1, 163_840)])
def test_kv_bytes_of_one_token(value_bytes: float, expected: int) -> None:
    assert 80 * head_bytes(8, 128, 1, value_bytes) == expected


@pytest.mark.parametrize(("dtype", "expected_gib"), [("auto", 10.0), ("fp8", 5.0)])
def test_one_session_of_32768_tokens(dtype: str, expected_gib: float) -> None:
    run = resolve(shape(LLAMA_70B), request(kv_cache_dtype=dtype, max_model_len=32_768))
    assert token_bytes(cache_layout(run).kinds) * 32_768 == expected_gib * GIB


@pytest.mark.parametrize(
    ("tp", "at_32", "at_128"), [(1, 0.0, 0.0), (2, 7.8, 31.3), (4, 11.7, 47.0), (8, 13.7, 54.8)]
)
def test_rank_0_extra_in_mib(tp: int, at_32: float, at_128: float) -> None:
    assert round(mib(gather_extra_bytes(VOCAB, tp, 32)), 1) == at_32
    assert round(mib(gather_extra_bytes(VOCAB, tp, 128)), 1) == at_128


def test_49_million_bytes_at_batch_128_and_tp_4() -> None:
    whole, own = VOCAB * 128 * 4, VOCAB // 4 * 128 * 4
    assert whole - own == gather_extra_bytes(VOCAB, 4, 128)
    assert round((whole - own) / 1e6) == 49


def test_88_blocks_at_tp_8() -> None:
    extra = gather_extra_bytes(VOCAB, 8, 128)
    assert blocks_lost(extra, 16, 327_680 / 8) == 88


@pytest.mark.parametrize(
    ("dtype", "chunked", "expected"), [("auto", False, 17), ("fp8_e4m3", True, 36)]
)
def test_sessions_of_16k_on_four_l40s(dtype: str, chunked: bool, expected: int) -> None:
    """About 17 in BF16 unchunked and 36 in fp8: 14 is near the limit, 46 needs shared prefixes."""
    result = plan(
        shape(LLAMA_70B_FP8),
        request(
            vllm_version="0.7.2", gpu_count=4, tensor_parallel=4, gpu_memory_utilization=0.92,
            max_model_len=32_768, max_num_batched_tokens=4096 if chunked else None,
            chunked_prefill=chunked, max_num_seqs=64,
            kv_cache_dtype=dtype,
        ),
    )  # fmt: skip
    assert gib(result.ranks[0].weights_bytes) == pytest.approx(16.9, abs=0.2)
    assert sessions(result, 16_384) == pytest.approx(expected, abs=1.5)


def test_5_per_cent_of_an_a100() -> None:
    low = plan(shape(), request(gpu_name="NVIDIA A100-SXM4-80GB", gpu_memory_utilization=0.85))
    high = plan(shape(), request(gpu_name="NVIDIA A100-SXM4-80GB", gpu_memory_utilization=0.90))
    freed = high.ranks[0].requested_bytes - low.ranks[0].requested_bytes
    assert gib(freed) == pytest.approx(4.0, abs=0.05)
    assert 54 * MIB < gather_extra_bytes(VOCAB, 8, 128) < 55 * MIB
