"""Rules for the engine's environment: CUDA, NCCL, peer-to-peer, the allocator; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.serving.decision import Decision, Warn, left_out, variable
from nodeprep.serving.situation import Situation

_ALLOC = "PYTORCH_CUDA_ALLOC_CONF"
_EXPANDABLE = "expandable_segments:True"
_CONNECTORS = ("kv-transfer-config", "kv-offloading-size")
_INFINIBAND = 0x0207
_ETHERNET = 0x0200
_RDMA_ETHERNET_VENDORS = (0x15B3, 0x14E4, 0x1D0F)
"""NVIDIA (Mellanox), Broadcom, Amazon: Ethernet functions that carry RDMA."""


def device_order(s: Situation) -> Iterator[Decision | Warn]:
    yield variable(
        "CUDA_DEVICE_ORDER",
        "PCI_BUS_ID",
        f"the {s.tensor_parallel} ranks follow the bus, as nvidia-smi and nodeprep number the GPUs",
        "CUDA programming guide",
    )


def peer_to_peer(s: Situation) -> Iterator[Decision | Warn]:
    """A veto sets NCCL's and vLLM's switches together: either alone leaves the other in use."""
    if not s.is_group:
        return
    source = "vLLM envs.py"
    if s.veto is not None:
        yield variable("NCCL_P2P_DISABLE", "1", f"peer-to-peer is vetoed: {s.veto}", "gate, audit")
        yield variable(
            "VLLM_SKIP_P2P_CHECK", "0", "vetoed: vLLM must test peer-to-peer itself", source
        )
        return
    yield left_out("NCCL_P2P_DISABLE", "0", "NCCL's default", "NCCL documentation")
    if s.p2p_verified:
        yield left_out("VLLM_SKIP_P2P_CHECK", "0", "peer-to-peer was verified on this boot", source)
    else:
        yield variable(
            "VLLM_SKIP_P2P_CHECK",
            "0",
            "no gate has verified peer-to-peer on this boot: vLLM tests it instead of trusting "
            "the driver (default 1 from 0.10.1)",
            source,
        )


def nccl(s: Situation) -> Iterator[Decision | Warn]:
    if not s.is_group:
        return
    yield left_out(
        "NCCL_P2P_LEVEL",
        "PXB",
        "a policy, not a proof, and NCCL's default since "
        "2.23; the transport is read from NCCL's log by the gate",
        "NCCL documentation",
    )
    yield left_out("NCCL_SHM_DISABLE", "0", "NCCL's default", "NCCL documentation")
    if s.policy.nccl_ib_disable or (s.policy.nccl_ib_disable is None and _no_fabric(s)):
        why = "asked for" if s.policy.nccl_ib_disable else "the node has no adapter it could use"
        yield variable(
            "NCCL_IB_DISABLE",
            "1",
            f"one node, {why}: NCCL need not look for InfiniBand",
            "NCCL documentation",
        )
    else:
        yield left_out(
            "NCCL_IB_DISABLE",
            "1",
            "not asked for, and the node has (or may have) a usable adapter",
            "NCCL documentation",
        )


def _no_fabric(s: Situation) -> bool:
    """Whether the bus is known and holds no adapter NCCL could drive."""
    functions = s.facts.functions.values()
    return bool(functions) and not any(
        one.class_code >> 8 == _INFINIBAND
        or (one.class_code >> 8 == _ETHERNET and one.vendor_id in _RDMA_ETHERNET_VENDORS)
        for one in functions
    )


def allocator(s: Situation) -> Iterator[Decision | Warn]:
    """Expandable segments cannot be shared over CUDA IPC, which vLLM's own all-reduce needs."""
    why_not = _no_expandable(s)
    if why_not is None:
        yield variable(
            _ALLOC,
            _EXPANDABLE,
            "freed memory stays usable whatever its size, so "
            "a prefill finds contiguous room; safe: vLLM's own all-reduce is off",
            "PyTorch notes/cuda, vLLM issue 42609",
        )
        return
    yield left_out(_ALLOC, _EXPANDABLE, why_not, "vLLM issue 42609")
    if s.policy.expandable_segments:
        yield Warn(text=f"expandable segments asked for and left out: {why_not}")


def _no_expandable(s: Situation) -> str | None:
    if s.policy.expandable_segments is False:
        return "not wanted"
    if s.custom_all_reduce.active:
        return "vLLM's own all-reduce is active and cannot share such memory: 'invalid argument'"
    if any(name in s.extra_args for name in _CONNECTORS):
        return "a KV connector registers cache memory, which cannot be expandable"
    if s.extra_args.get("enable-sleep-mode"):
        return "sleep mode uses its own memory pool, which refuses expandable segments"
    return None


def privacy(s: Situation) -> Iterator[Decision | Warn]:
    yield variable(
        "VLLM_NO_USAGE_STATS", "1", "a production node reports to nobody else", "vLLM usage_stats"
    )
    if s.policy.offline:
        yield variable(
            "HF_HUB_OFFLINE", "1", "asked for: weights come from cache or disk", "policy"
        )
        yield variable("TRANSFORMERS_OFFLINE", "1", "asked for: nothing is fetched", "policy")


RULES = (device_order, peer_to_peer, nccl, allocator, privacy)
