"""What differs between layers: experts, latent and sliding attention, a vision tower.

The names are those of the families' own config.json; see parse/hf_config.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from nodeprep.model.memory import MlaShape, MoeShape, SlidingShape, VisionShape
from nodeprep.parse.hf_hybrid import Mix, layer_types
from nodeprep.parse.hf_keys import Config, maybe, need

_QWEN_IMAGE_TOKENS = 16_384
"""max_pixels 12,845,056 over 28 x 28 pixels a token (preprocessor_config.json of Qwen2-VL)."""


def read_moe(config: Config, layers: int) -> MoeShape | None:
    experts = maybe(config, "num_local_experts", "num_experts", "n_routed_experts",
                     "moe_num_experts", "num_moe_experts", "n_experts", least=0,
                     most=1 << 16)  # fmt: skip
    if experts is None or experts < 2:
        return None
    width = need(config, "moe_intermediate_size", "expert_intermediate_size",
                  "expert_ffn_hidden_size", "intermediate_size", "ffn_hidden_size")  # fmt: skip
    top = maybe(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k",
                 "top_k_experts", "moe_top_k", most=1 << 16)  # fmt: skip
    return MoeShape(
        experts=experts,
        experts_per_token=min(top or 1, experts),
        intermediate_size=width,
        shared_intermediate_size=_shared_width(config, width),
        dense_layers=min(_dense_layers(config, layers), layers),
    )


def with_mix(moe: MoeShape | None, mix: Mix) -> MoeShape | None:
    """Where experts and plain MLPs are layers of their own, the mix counts the plain ones."""
    if moe is None or mix.experts is None or mix.mlp is None:
        return moe
    return replace(moe, dense_layers=mix.mlp - mix.experts)


def _shared_width(config: Config, width: int) -> int:
    """Width of all shared experts; Llama 4 has one as wide as a routed expert."""
    given = maybe(config, "shared_expert_intermediate_size", "shared_intermediate_size",
                   "moe_shared_expert_intermediate_size", "share_expert_dim", least=0)  # fmt: skip
    if given is not None:
        return given
    if str(config.get("model_type", "")).startswith("gemma4"):
        # every layer has an ordinary MLP beside its experts (gemma4.py)
        return maybe(config, "intermediate_size") or 0
    count = maybe(config, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
                   least=0, most=1024)  # fmt: skip
    if count is None:
        return width if str(config.get("model_type", "")).startswith("llama4") else 0
    return count * width


def _dense_layers(config: Config, layers: int) -> int:
    first = maybe(config, "first_k_dense_replace", "moe_layer_start_index", least=0)
    if first is not None:
        return first
    dense = maybe(config, "num_dense_layers", least=0)
    if dense is not None:
        return dense
    listed = config.get("moe_layer_freq")
    if isinstance(listed, list) and len(listed) >= layers:
        return sum(one == 0 for one in listed[:layers])
    only = config.get("mlp_only_layers")
    if isinstance(only, list) and only:
        return len(only)
    step = maybe(config, "decoder_sparse_step", "interleave_moe_layer_step",
                  "expert_layer_period", least=0)  # fmt: skip
    return layers - layers // step if step and step > 1 else 0


def read_mla(config: Config) -> MlaShape | None:
    rank = maybe(config, "kv_lora_rank")
    rope = maybe(config, "qk_rope_head_dim")
    if rank is None or rope is None:
        return None
    return MlaShape(
        kv_lora_rank=rank,
        rope_head_dim=rope,
        nope_head_dim=need(config, "qk_nope_head_dim"),
        v_head_dim=maybe(config, "v_head_dim")
        or need(config, "hidden_size") // need(config, "num_attention_heads", "n_heads"),
        q_lora_rank=maybe(config, "q_lora_rank"),
    )


def read_sliding(config: Config, layers: int, family: str) -> SlidingShape | None:
    types = layer_types(config, layers)
    chunk = maybe(config, "attention_chunk_size")
    if chunk is not None and family.startswith("llama4"):
        count = types.count("chunked_attention") if types else layers - layers // 4
        return SlidingShape(layers=count, window=chunk, chunked=True)
    window = maybe(config, "sliding_window", "sliding_window_size", least=0)
    if not window or config.get("use_sliding_window") is False:
        return None
    if types:
        count = types.count("sliding_attention")
    else:
        usual = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
        every = maybe(config, "sliding_window_pattern") or usual.get(family)
        count = layers - layers // every if every else layers
    return SlidingShape(layers=count, window=window) if count else None


def read_vision(config: dict[str, object], outer: Config) -> VisionShape:
    """Towers with a `depth` (Qwen-VL and its kin) take images of any size, merged 2 x 2.

    Others have one image size; `mm_tokens_per_image` says what is left of its patches.
    """
    deepstack = config.get("deepstack_visual_indexes")
    levels = 1 + len(deepstack) if isinstance(deepstack, list) and len(deepstack) < 64 else 1
    ratio: int | None
    tokens: int | None
    if "depth" in config:
        merge = maybe(config, "spatial_merge_size", most=64) or 2
        ratio, tokens = merge * merge, _QWEN_IMAGE_TOKENS
    else:
        image, patch = maybe(config, "image_size"), maybe(config, "patch_size")
        patches = (image // patch) ** 2 if image and patch else None
        tokens = maybe(outer, "mm_tokens_per_image") or patches
        ratio = max(1, patches // tokens) if patches and tokens else None
    return VisionShape(
        layers=maybe(config, "depth", "num_hidden_layers", "num_layers", most=10_000),
        hidden_size=maybe(config, "hidden_size", "embed_dim"),
        intermediate_size=maybe(config, "intermediate_size"),
        patches_per_token=ratio,
        item_tokens=tokens,
        output_levels=levels,
    )
