"""What must hold for every model, GPU and version."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.memory.catalogue import entries
from nodeprep.memory.kv_cache import head_bytes, layer_kinds, layout
from nodeprep.memory.plan import plan
from nodeprep.memory.versions import parse_version, rules_for
from nodeprep.memory.weights import rank_tensors, weight_bytes
from tests.memory.shapes import parts, request, shape

NAMES = st.sampled_from([one.name for one in entries()])
VERSIONS = st.sampled_from(
    ["0.4.3", "0.6.3", "0.6.4.post1", "0.7.3", "0.8.5", "0.9.2", "0.10.2", "0.11.2", "0.16.0",
     "0.20.2", "0.26.0", "0.28.0", "0.33.0"]
)  # fmt: skip
GPUS = st.sampled_from(["NVIDIA L40S", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", "Tesla T4"])
TPS = st.sampled_from([1, 2])


@given(NAMES, VERSIONS, GPUS, TPS)
def test_a_ranks_parts_sum_to_the_budget(name: str, version: str, gpu: str, tp: int) -> None:
    result = plan(shape(name), request(vllm_version=version, gpu_name=gpu, tensor_parallel=tp))
    for rank in result.ranks:
        assert parts(rank) == rank.requested_bytes
        assert rank.kv_cache_bytes_low <= rank.kv_cache_bytes <= rank.kv_cache_bytes_high
        assert rank.activation_bytes >= 0
    assert result.fits == (result.limit is None)
    tightest = min(one.kv_cache_bytes for one in result.ranks)
    assert result.limiting_rank is not None
    assert result.ranks[result.limiting_rank].kv_cache_bytes == tightest


@given(NAMES, VERSIONS, st.floats(0.1, 1.0), st.floats(0.1, 1.0))
def test_more_utilization_is_never_less_cache(
    name: str, version: str, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    plans = [
        plan(shape(name), request(vllm_version=version, gpu_memory_utilization=share))
        for share in (low, high)
    ]
    assert plans[0].num_blocks <= plans[1].num_blocks
    assert plans[0].kv_cache_tokens <= plans[1].kv_cache_tokens


@given(NAMES, VERSIONS, st.integers(8, 1024), st.integers(8, 1024))
def test_more_sequences_are_never_more_cache(name: str, version: str, one: int, other: int) -> None:
    """From 128 sequences on; below, torch.sort takes a hungrier path."""
    low, high = sorted((max(one, 128), max(other, 128)))
    blocks = [
        plan(
            shape(name),
            request(vllm_version=version, max_num_seqs=n, max_num_batched_tokens=2048),
        ).num_blocks
        for n in (low, high)
    ]
    assert blocks[1] <= blocks[0]


@given(NAMES, VERSIONS, st.integers(1024, 65_536), st.integers(1024, 65_536))
def test_more_batched_tokens_are_never_more_cache(
    name: str, version: str, one: int, other: int
) -> None:
    low, high = sorted((one, other))
    blocks = [
        plan(
            shape(name),
            request(vllm_version=version, max_num_batched_tokens=tokens, max_num_seqs=64),
        ).num_blocks
        for tokens in (low, high)
    ]
    assert blocks[1] <= blocks[0]


@given(NAMES, st.integers(16, 65_536), st.integers(16, 65_536))
def test_longer_requests_are_never_more_at_once(name: str, one: int, other: int) -> None:
    low, high = sorted((one, other))
    many, few = (
        plan(
            shape(name),
            request(max_model_len=length, gpu_name="NVIDIA H200", max_num_batched_tokens=8192),
        ).max_concurrency
        for length in (low, high)
    )
    assert few <= many


@given(NAMES, TPS)
def test_fp8_halves_the_cache_of_a_token(name: str, tp: int) -> None:
    plain, small = (
        plan(shape(name), request(tensor_parallel=tp, kv_cache_dtype=kind)).kv_bytes_per_token
        for kind in ("auto", "fp8")
    )
    assert 2 * small == plain


@given(st.integers(1, 64), st.integers(1, 64))
def test_kv_heads_are_replicated_when_there_are_fewer_than_ranks(kv_heads: int, tp: int) -> None:
    one = head_bytes(1, 128, 1, 2)
    rank = head_bytes(kv_heads, 128, tp, 2)
    assert rank == one * max(1, kv_heads // tp)
    if kv_heads <= tp:
        assert rank == one


@given(NAMES, st.sampled_from([2, 4, 8]))
def test_ranks_hold_at_least_the_model(name: str, tp: int) -> None:
    """Sharding repeats some tensors and loses none."""
    model = shape(name)
    if model.heads % tp or (model.kv_heads % tp and tp % model.kv_heads):
        return
    whole = sum(one.copies * one.size_bytes for one in rank_tensors(model, 1, 2))
    rank = sum(one.copies * one.size_bytes for one in rank_tensors(model, tp, 2))
    assert rank * tp >= whole * 0.999
    assert weight_bytes(model, tp, 2) < weight_bytes(model, 1, 2)


@given(NAMES, st.sampled_from([16, 32, 64]), st.integers(64, 100_000))
def test_a_request_never_needs_more_than_all_its_tokens(name: str, block: int, length: int) -> None:
    kinds = layer_kinds(shape(name), 1, 2.0, 2, rules_for(parse_version("0.16.0")), "auto")
    cache = layout(kinds, block, length, 8192)
    blocks = -(-length // cache.block_tokens)
    assert 1 <= cache.blocks_per_request <= cache.groups * (blocks + 1)
