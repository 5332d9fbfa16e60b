from __future__ import annotations

from typing import Any

import pytest

from nodeprep.errors import UsageError
from nodeprep.memory.resolve import resolve
from tests.memory.shapes import LLAMA_70B, request, shape


@pytest.mark.parametrize(
    ("version", "gpu", "usage", "seqs", "tokens"),
    [
        ("0.7.2", "NVIDIA H100 80GB HBM3", "server", 256, 8192),
        ("0.8.5", "NVIDIA A100-SXM4-80GB", "server", 1024, 8192),
        ("0.9.2", "NVIDIA A100-SXM4-80GB", "server", 256, 2048),
        ("0.11.0", "NVIDIA H100 80GB HBM3", "server", 1024, 8192),
        ("0.11.0", "NVIDIA H100 80GB HBM3", "offline", 1024, 16_384),
        ("0.11.0", "NVIDIA L40S", "server", 256, 2048),
        ("0.27.0", "NVIDIA B200", "server", 1024, 8192),
        ("0.28.0", "NVIDIA B200", "server", 1024, 16_384),
    ],
)
def test_default_steps(version: str, gpu: str, usage: str, seqs: int, tokens: int) -> None:
    run = resolve(shape(), request(vllm_version=version, gpu_name=gpu, usage=usage))
    assert (run.max_num_seqs, run.max_num_batched_tokens) == (seqs, tokens)


def test_v0_chunks_long_contexts_by_itself() -> None:
    long = request(vllm_version="0.7.2", max_model_len=131_072)
    assert resolve(shape(), long).max_num_batched_tokens == 2048
    old = request(vllm_version="0.6.3", max_model_len=131_072)
    assert resolve(shape(), old).max_num_batched_tokens == 512
    off = request(vllm_version="0.7.2", max_model_len=131_072, chunked_prefill=False)
    assert resolve(shape(), off).max_num_batched_tokens == 131_072


@pytest.mark.parametrize(
    ("version", "gpu", "dtype", "v1"),
    [
        ("0.7.3", "NVIDIA L40S", "auto", False),
        ("0.8.5", "NVIDIA L40S", "auto", True),
        ("0.8.5", "NVIDIA L40S", "fp8", False),
        ("0.8.5", "NVIDIA H200", "fp8", True),
        ("0.8.5", "Tesla T4", "auto", False),
        ("0.10.2", "NVIDIA L40S", "fp8", True),
        ("0.11.0", "Tesla T4", "auto", True),
    ],
)
def test_engine(version: str, gpu: str, dtype: str, v1: bool) -> None:
    run = resolve(shape(), request(vllm_version=version, gpu_name=gpu, kv_cache_dtype=dtype))
    assert run.v1 is v1


def test_quantization_on_the_command_line() -> None:
    run = resolve(shape(), request(quantization="fp8"))
    assert run.shape.quant is not None
    assert run.shape.quant.weight_bits == 8
    odd = resolve(shape(), request(quantization="some_new_method"))
    assert odd.shape.quant is None
    assert any("some_new_method" in one for one in odd.warnings)


@pytest.mark.parametrize(
    "fields",
    [
        {"tensor_parallel": 3},
        {"tensor_parallel": 16},
        {"tensor_parallel": 0},
        {"gpu_memory_utilization": 0.0},
        {"gpu_memory_utilization": 1.5},
        {"max_model_len": 0},
        {"max_num_seqs": -1},
        {"max_num_seqs": 512, "max_num_batched_tokens": 256},
        {"kv_cache_dtype": "int3"},
        {"dtype": "int8"},
        {"params_billion": -1.0},
        {"block_size": 0},
        {"vllm_version": "latest"},
        {"gpu_name": "Voodoo 2"},
        {"quantization": "a b; rm"},
    ],
)
def test_wrong_requests_are_usage_errors_with_a_hint(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        resolve(shape(LLAMA_70B), request(**fields))
    assert raised.value.hint
