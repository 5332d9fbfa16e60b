"""Nodes, plans and policies of the serving tests: each says only what matters to it."""

from __future__ import annotations

from typing import Any

from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.model.memory import MemoryPlan, ModelShape
from nodeprep.model.pci import PciFunction, PortType
from nodeprep.model.serving import GivenConfig, ServingConfig
from nodeprep.model.topology import P2pStatus
from nodeprep.serving.tune import tune
from nodeprep.settings import ServingPolicy
from tests import build

LLAMA = "meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic"
"""As the source document names it."""

PASSED = GateResult(verdict=GateVerdict.PASS, reason="24.1 GB/s at the largest size")

UUIDS = tuple(f"GPU-{index:08x}-0000-4000-8000-000000000000" for index in range(16))


def shape(**fields: Any) -> ModelShape:
    defaults: dict[str, Any] = {
        "name": LLAMA, "architecture": "LlamaForCausalLM", "layers": 80, "hidden_size": 8192,
        "heads": 64, "kv_heads": 8, "head_dim": 128, "intermediate_size": 28672,
        "vocab_size": 128256, "max_position_embeddings": 131072, "dtype": "bfloat16",
        "quantization": "compressed-tensors", "tied_embeddings": False,
    }  # fmt: skip
    return ModelShape(**(defaults | fields))


def plan(version: str, gpu: str = "NVIDIA L40S", tp: int = 4, **fields: Any) -> MemoryPlan:
    defaults: dict[str, Any] = {
        "fits": True, "model": LLAMA, "gpu": gpu, "tensor_parallel": tp, "vllm_version": version,
        "engine": "V0", "kv_bytes_per_token": 40960, "block_size_tokens": 16, "ranks": (),
        "limiting_rank": 0, "limit": None, "kv_cache_tokens": 588000, "num_blocks": 36750,
        "max_concurrency": 17.9, "max_model_len": 32768, "max_num_seqs": 64,
        "max_num_batched_tokens": 4096, "gpu_memory_utilization": 0.92, "assumptions": (),
        "warnings": (), "recommended": {},
    }  # fmt: skip
    return MemoryPlan(**(defaults | fields))


def policy(**fields: Any) -> ServingPolicy:
    defaults: dict[str, Any] = {
        "model": LLAMA, "tensor_parallel": 4, "gpu_memory_utilization": 0.92,
        "max_model_len": 32768, "max_num_seqs": 64, "max_num_batched_tokens": 4096,
        "kv_cache_dtype": "fp8_e4m3",
    }  # fmt: skip
    return ServingPolicy(**(defaults | fields))


def with_uuids(node: NodeFacts) -> NodeFacts:
    import msgspec

    gpus = tuple(msgspec.structs.replace(gpu, uuid=UUIDS[gpu.index]) for gpu in node.gpus)
    return msgspec.structs.replace(node, gpus=gpus)


def l40s_switch(control: int = 0x11, **fields: Any) -> NodeFacts:
    """Four L40S under one switch, redirection off unless said."""
    made = build.facts(build.switch_of(4, control=control), **fields)
    return with_uuids(made)


def direct(count: int, sockets: int, control: int | None = None) -> list[PciFunction]:
    """GPUs on root ports of their own, spread over sockets."""
    functions = []
    for index in range(count):
        bus = 0x08 * (index + 1)
        place: dict[str, Any] = {
            "root_bus": f"0000:{bus:02x}",
            "numa_node": index * sockets // count,
        }
        root = f"{bus:02x}:01.1"
        functions.append(build.bridge(root, port_type=PortType.ROOT_PORT, control=control,
                                      secondary_bus=bus + 1, **place))  # fmt: skip
        functions.append(build.gpu_function(f"{bus + 1:02x}:00.0", parent=root, **place))
    return functions


def l40s_host(**fields: Any) -> NodeFacts:
    return with_uuids(build.facts(direct(4, 2), p2p=P2pStatus.CNS, **fields))


def nvlink(name: str, count: int, links: int, **fields: Any) -> NodeFacts:
    made = build.facts(direct(count, 2 if count > 2 else 1), nvlinks=links,
                       gpu_fields={"name": name}, **fields)  # fmt: skip
    return with_uuids(made)


def h100_sxm8(**fields: Any) -> NodeFacts:
    return nvlink("NVIDIA H100 80GB HBM3", 8, 18, **fields)


def a100_pair(**fields: Any) -> NodeFacts:
    return nvlink("NVIDIA A100-SXM4-80GB", 2, 12, **fields)


def single_4090(**fields: Any) -> NodeFacts:
    gpu = {"name": "NVIDIA GeForce RTX 4090"}
    return with_uuids(build.facts(direct(1, 1), gpu_fields=gpu, **fields))


def b200_sxm8(**fields: Any) -> NodeFacts:
    return nvlink("NVIDIA B200", 8, 18, **fields)


NODES = {
    "l40s-switch": l40s_switch,
    "l40s-host": l40s_host,
    "h100-sxm8": h100_sxm8,
    "a100-pair": a100_pair,
    "rtx4090": single_4090,
    "b200-sxm8": b200_sxm8,
}

# The manifest and the command line that the source document runs on this node with v0.7.2.
SOURCE_MANIFEST = GivenConfig(
    options={
        "model": LLAMA, "tensor_parallel_size": 4, "dtype": "bfloat16",
        "kv_cache_dtype": "fp8_e4m3", "calculate_kv_scales": True,
        "gpu_memory_utilization": 0.92, "max_model_len": 32768, "block_size": 32,
        "enable_chunked_prefill": True, "max_num_batched_tokens": 4096, "max_num_seqs": 64,
        "enable_prefix_caching": True, "disable_custom_all_reduce": False, "enforce_eager": False,
    },
    env={
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:512",
        "NCCL_P2P_DISABLE": "0", "NCCL_SHM_DISABLE": "0", "NCCL_P2P_LEVEL": "PXB",
        "NCCL_IB_DISABLE": "1",
    },
    container={
        "image": "vllm/vllm-openai:v0.7.2", "ipc": "host", "shm-size": "32g",
        "publish": "8000:8000", "gpus": "all",
    },
)  # fmt: skip

SOURCE_POLICY = policy(
    vllm_version="0.7.2", dtype="bfloat16", calculate_kv_scales=True, block_size=32,
    enable_prefix_caching=True,
)  # fmt: skip

REPLAY: dict[str, Any] = {"origin": Origin.REPLAY, "machine": "l40s-clean"}


def tuned(
    node: NodeFacts,
    version: str,
    *,
    verified: bool = True,
    gate: GateResult | None = PASSED,
    tp: int = 4,
    plan_fields: dict[str, Any] | None = None,
    **fields: Any,
) -> ServingConfig:
    memory = plan(version, tp=tp, **(plan_fields or {}))
    wanted = policy(vllm_version=version, tensor_parallel=tp, **fields)
    return tune(node, gate, memory, wanted, shape(), p2p_verified=verified)


def value(config: ServingConfig, name: str) -> object:
    knob = config.option(name)
    return None if knob is None else knob.value


def variable(config: ServingConfig, name: str) -> object:
    knob = config.variable(name)
    return None if knob is None else knob.value
