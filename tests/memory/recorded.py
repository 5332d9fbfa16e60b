"""Recorded vLLM starts, one a line of JSON: the config.json of each, and its plan.

A line has `config` (L layers, h hidden, heads, kv, hd head size, inter, vocab, params_b; moe, mla,
hybrid, sliding, vision where they apply), the conditions, and `measured` with what the log says.
"""

from __future__ import annotations

import json
from typing import Any

from nodeprep.memory.plan import plan
from nodeprep.model.memory import MemoryPlan, PlanRequest
from nodeprep.parse.hf_config import parse_hf_config

Case = dict[str, Any]


def usable(case: Case) -> bool:
    config, version = case["config"], case.get("vllm") or ""
    known = bool(config.get("L") and config.get("h") and version)
    return known and tuple(int(part) for part in version.split(".")[:2]) >= (0, 4)


def fails_to_start(case: Case) -> bool:
    logged = case["measured"].get("available_kv_gib")
    return usable(case) and logged is not None and logged <= 0


def planned(case: Case) -> MemoryPlan:
    shape = parse_hf_config(json.dumps(hf_config(case)), case["model"])
    scheme = (case.get("quantization") or "none").split(" ")[0]
    online = {"fp8-online": "fp8", "bnb4": "bitsandbytes", "gguf-q8": "gguf"}
    return plan(
        shape,
        PlanRequest(
            vllm_version=case["vllm"],
            gpu_name=case["gpu"],
            gpu_count=case["tp"],
            tensor_parallel=case["tp"],
            gpu_memory_gib=case.get("gpu_total_gib"),
            gpu_memory_utilization=case.get("gpu_memory_utilization"),
            max_model_len=case.get("max_model_len"),
            max_num_seqs=case.get("max_num_seqs"),
            max_num_batched_tokens=case.get("max_num_batched_tokens"),
            kv_cache_dtype=case.get("kv_cache_dtype"),
            quantization=online.get(scheme),
            dtype="float32" if case.get("dtype") in ("fp32", "float32") else None,
            enforce_eager=bool(case.get("enforce_eager")),
            params_billion=case["config"].get("params_b"),
            usage="offline" if case.get("usage") == "llm" else "server",
        ),
    )


def hf_config(case: Case) -> dict[str, Any]:
    """A config.json with the numbers of the case, in the words of a family that has them."""
    c = case["config"]
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "num_hidden_layers": c["L"], "hidden_size": c["h"], "num_attention_heads": c["heads"],
        "num_key_value_heads": c["kv"], "head_dim": c["hd"], "intermediate_size": c.get("inter"),
        "vocab_size": c["vocab"], "tie_word_embeddings": bool(c.get("tied")),
        "attention_bias": bool(c.get("qkv_bias")), "torch_dtype": "bfloat16",
        "max_position_embeddings": 131_072,
    }  # fmt: skip
    for name, write in (("moe", _moe), ("mla", _mla), ("hybrid", _hybrid), ("sliding", _sliding)):
        if c.get(name):
            write(config, c, c[name])
    quantization = quantization_config(case.get("quantization") or "none")
    if quantization:
        config["quantization_config"] = quantization
    tower = c.get("vision")
    if tower or c.get("vision_params_b"):
        tower = tower or {}
        config["vision_config"] = {
            "depth": tower.get("depth"), "hidden_size": tower.get("hidden"),
            "intermediate_size": tower.get("inter"),
        }  # fmt: skip
    return config


def _moe(config: dict[str, Any], _: Case, moe: Case) -> None:
    config |= {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
        "num_experts": moe["experts"], "num_experts_per_tok": moe["topk"],
        "moe_intermediate_size": moe["inter"], "n_shared_experts": moe.get("shared", 0),
        "first_k_dense_replace": moe.get("dense_layers", 0),
    }  # fmt: skip


def _mla(config: dict[str, Any], _: Case, mla: Case) -> None:
    config |= {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "head_dim": None,
        "kv_lora_rank": mla["kv_lora"], "qk_rope_head_dim": mla["rope"],
        "qk_nope_head_dim": mla["nope"], "v_head_dim": mla["v"], "q_lora_rank": mla.get("q_lora"),
    }  # fmt: skip


def _hybrid(config: dict[str, Any], c: Case, hybrid: Case) -> None:
    every = c["L"] // hybrid["full_attention_layers"]
    config |= {
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "full_attention_interval": every, "linear_num_key_heads": hybrid["linear_k_heads"],
        "linear_num_value_heads": hybrid["linear_v_heads"],
        "linear_key_head_dim": hybrid["linear_k_dim"],
        "linear_value_head_dim": hybrid["linear_v_dim"], "linear_conv_kernel_dim": hybrid["conv"],
    }  # fmt: skip


def _sliding(config: dict[str, Any], c: Case, sliding: Case) -> None:
    every = max(1, c["L"] // sliding["full_layers"]) if "full_layers" in sliding else 2
    oss = "full_layers" not in sliding
    config |= {
        "architectures": ["GptOssForCausalLM" if oss else "Gemma3ForCausalLM"],
        "model_type": "gpt_oss" if oss else "gemma3_text",
        "sliding_window": sliding["window"],
        "layer_types": ["full_attention" if (i + 1) % every == 0 else "sliding_attention"
                        for i in range(c["L"])],
    }  # fmt: skip


def quantization_config(scheme: str) -> dict[str, Any] | None:
    """What a checkpoint of that scheme says of itself."""
    name = scheme.split(" ")[0]
    if name.startswith("fp8-block"):
        return {"quant_method": "fp8", "weight_block_size": [128, 128]}
    if name in ("fp8", "fp8-dynamic"):
        return {"quant_method": "fp8", "activation_scheme": "dynamic"}
    if name.startswith(("awq", "gptq")):
        return {"quant_method": name, "bits": 4, "group_size": 128}
    if name.startswith("mxfp4"):
        return {"quant_method": "mxfp4"}
    if name.startswith("w8a8"):
        return _compressed(8, None, 8, [])
    if name.startswith("w4a16"):
        return _compressed(4, 128, None, [])
    if name.startswith("int4-experts"):
        plain = ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|down)_proj.*"]
        return _compressed(4, 32, None, plain)
    if name.startswith(("nvfp4", "modelopt")):
        return {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    return None


def _compressed(bits: int, group: int | None, acts: int | None, plain: list[str]) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "group_size": group}
    inputs = {"num_bits": acts} if acts else None
    return {
        "quant_method": "compressed-tensors", "ignore": ["lm_head", *plain],
        "config_groups": {"group_0": {"weights": weights, "input_activations": inputs}},
    }  # fmt: skip
