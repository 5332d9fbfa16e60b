"""Whatever a config.json says, a plan or a clear refusal comes out."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ParseError, UsageError
from nodeprep.memory.plan import plan
from nodeprep.parse.hf_config import parse_hf_config
from tests.memory.shapes import parts, request

BASE: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}
NUMBERS = st.integers(-1, 9) | st.sampled_from([16, 1000, 10**7, 10**8, 10**20])
KEYS = st.sampled_from(
    [*BASE, "head_dim", "num_experts", "moe_intermediate_size", "first_k_dense_replace",
     "num_experts_per_tok", "n_shared_experts", "kv_lora_rank", "qk_rope_head_dim", "v_head_dim",
     "qk_nope_head_dim", "q_lora_rank", "linear_num_key_heads", "linear_num_value_heads",
     "linear_key_head_dim", "linear_value_head_dim", "full_attention_interval", "sliding_window",
     "sliding_window_pattern", "num_kv_shared_layers", "global_head_dim", "mamba_n_heads",
     "num_global_key_value_heads", "attention_chunk_size", "decoder_sparse_step"]
)  # fmt: skip
TYPES = st.lists(
    st.sampled_from(["full_attention", "sliding_attention", "linear_attention", "mamba", "odd"]),
    max_size=9,
)
VERSIONS = st.sampled_from(["0.6.2", "0.7.3", "0.8.5", "0.16.0", "0.33.0"])


@given(st.dictionaries(KEYS, NUMBERS, max_size=12), TYPES, VERSIONS)
def test_a_plan_or_a_refusal(changes: dict[str, int], types: list[str], version: str) -> None:
    config = BASE | changes | ({"layer_types": types} if types else {})
    with contextlib.suppress(ParseError, UsageError):
        shape = parse_hf_config(json.dumps(config), "model")
        result = plan(shape, request(vllm_version=version, tensor_parallel=2))
        for rank in result.ranks:
            assert parts(rank) == rank.requested_bytes
        assert result.num_blocks >= 0
        assert json.loads(json.dumps(result.max_concurrency)) >= 0
