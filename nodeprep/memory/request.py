"""From a node and its policy to what the engine is asked for."""

from __future__ import annotations

from nodeprep.errors import UsageError
from nodeprep.memory.versions import newest_version
from nodeprep.model.facts import NodeFacts
from nodeprep.model.memory import PlanRequest
from nodeprep.model.serving import goal_tokens
from nodeprep.settings import ServingPolicy
from nodeprep.units import gib


def request_for(facts: NodeFacts, policy: ServingPolicy) -> PlanRequest:
    """The request for the GPUs of a node. Raises UsageError when there are none."""
    if not facts.gpus:
        raise UsageError("no GPU to plan for")
    first = facts.gpus[0]
    return PlanRequest(
        vllm_version=policy.vllm_version or newest_version(),
        gpu_name=first.name or facts.functions[first.bdf].vendor_device,
        gpu_count=len(facts.gpus),
        tensor_parallel=policy.tensor_parallel or len(facts.gpus),
        gpu_memory_utilization=policy.gpu_memory_utilization,
        max_model_len=policy.max_model_len,
        max_num_seqs=policy.max_num_seqs,
        max_num_batched_tokens=policy.max_num_batched_tokens
        or goal_tokens(policy.goal, first.memory_total_bytes),
        kv_cache_dtype=policy.kv_cache_dtype,
    )


def busy_gib(facts: NodeFacts) -> float | None:
    """What processes hold on the busiest GPU, in GiB; None: no process is known to hold any."""
    held = [sum(one.memory_bytes or 0 for one in gpu.processes or ()) for gpu in facts.gpus]
    return gib(max(held)) if any(held) else None
