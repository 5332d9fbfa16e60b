"""Everything the rules look at, worked out once: group, way between its GPUs, vetoes; pure."""

from __future__ import annotations

from nodeprep.errors import UsageError
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.model.gpu import Gpu
from nodeprep.model.memory import MemoryPlan, ModelShape
from nodeprep.model.serving import Interconnect, KnobValue
from nodeprep.serving import flags, placement, text
from nodeprep.serving.architecture import Capability, capability
from nodeprep.settings import ServingPolicy

_UNSAFE = {
    GateVerdict.WRONG_DATA: "the gate read wrong values back",
    GateVerdict.HUNG: "the gate hung",
}
_SIZES = (2, 4, 6, 8)
_SIZES_FROM_0_27_1 = (*_SIZES, 16)


class CustomAllReduce(Record, frozen=True):
    """vLLM's own all-reduce kernel: whether it runs, and whether we switch it off by name."""

    active: bool
    disable: bool
    reason: str


class Situation(Record, frozen=True):
    version: str
    release: flags.Release
    facts: NodeFacts
    plan: MemoryPlan
    policy: ServingPolicy
    shape: ModelShape | None
    tensor_parallel: int
    group: tuple[Gpu, ...]
    """Empty when the node's GPUs are not known."""
    interconnect: Interconnect
    capability: Capability | None
    """The lowest of the group; None: not known of some GPU."""
    p2p_granted: bool | None
    p2p_verified: bool
    veto: str | None
    """Why peer-to-peer must not be used; None: nothing speaks against it."""
    custom_all_reduce: CustomAllReduce
    extra_args: dict[str, KnobValue]
    """The user's options under the flags' own names."""

    @property
    def is_group(self) -> bool:
        return self.tensor_parallel > 1


def assess(
    facts: NodeFacts,
    gate: GateResult | None,
    plan: MemoryPlan,
    policy: ServingPolicy,
    shape: ModelShape | None,
    *,
    p2p_verified: bool,
    chosen: placement.Group | None = None,
) -> Situation:
    """The situation of one node, model and release.

    `chosen`: the GPUs of the group; None: the best of the node.  Raises UsageError where no
    situation can be.
    """
    version = policy.vllm_version or plan.vllm_version
    release = flags.release_of(version)
    size = policy.tensor_parallel or plan.tensor_parallel
    _check_numbers(policy, size)
    if shape is not None and shape.heads % size:
        raise UsageError(
            f"{shape.name}: {shape.heads} attention heads do not divide by tensor parallel {size}",
            hint="choose a tensor parallel size that divides the attention heads",
        )
    extra = _extra_args(policy, version)
    group = placement.choose_group(facts, size) if chosen is None else chosen
    link = placement.interconnect(facts, group)
    granted = placement.p2p_granted(facts, group) if group else None
    unsafe = _unsafe(gate)
    verified = p2p_verified and unsafe is None
    veto = _veto(facts, group, link, granted, verified) if unsafe is None else unsafe
    way = _Way(size=size, release=release, link=link, granted=granted, verified=verified, veto=veto)
    return Situation(
        version=version,
        release=release,
        facts=facts,
        plan=plan,
        policy=policy,
        shape=shape,
        tensor_parallel=size,
        group=group,
        interconnect=link,
        capability=_lowest(group),
        p2p_granted=granted,
        p2p_verified=verified,
        veto=veto if size > 1 else None,
        custom_all_reduce=_custom_all_reduce(way, extra),
        extra_args=extra,
    )


def _unsafe(gate: GateResult | None) -> str | None:
    """What the gate itself says against peer-to-peer."""
    if gate is None:
        return None
    return gate.veto or _UNSAFE.get(gate.verdict)


def _check_numbers(policy: ServingPolicy, size: int) -> None:
    """What no engine can be asked for."""
    counts = {
        "tensor_parallel": size,
        "max_model_len": policy.max_model_len,
        "max_num_seqs": policy.max_num_seqs,
        "max_num_batched_tokens": policy.max_num_batched_tokens,
        "block_size": policy.block_size,
        "groups": policy.groups,
    }
    for name, count in counts.items():
        if count is not None and count < 1:
            raise UsageError(f"serving.{name} {count} is not a positive number")
    if policy.goal not in (None, "latency", "throughput"):
        raise UsageError(
            f"serving.goal {policy.goal[:40]!r} is no goal", hint="use latency or throughput"
        )
    share = policy.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"serving.gpu_memory_utilization {share} is not between 0 and 1")


def _extra_args(policy: ServingPolicy, version: str) -> dict[str, KnobValue]:
    """Raises UsageError for a name no option can have, and for one option said twice."""
    found: dict[str, KnobValue] = {}
    for given, value in policy.extra_args.items():
        text.option_name(given.lstrip("-").replace("_", "-"))
        name, said = flags.meant(given, value, version)
        if said is None:
            raise UsageError(f"extra_args: {given} takes only true", hint=f"or set {name}")
        if name in found:
            raise UsageError(f"extra_args: {name} is said twice", hint="remove one of them")
        found[name] = said
    return found


def _lowest(group: tuple[Gpu, ...]) -> Capability | None:
    known = [capability(gpu) for gpu in group]
    if not known or None in known:
        return None
    return min(one for one in known if one is not None)


def _veto(
    facts: NodeFacts,
    group: tuple[Gpu, ...],
    link: Interconnect,
    granted: bool | None,
    verified: bool,
) -> str | None:
    """What on the PCIe way makes peer-to-peer unsafe; a passed gate on this boot outweighs it."""
    if verified or granted is False or link in (Interconnect.NVLINK, Interconnect.SINGLE):
        return None
    ports = placement.redirecting_ports(facts, group)
    if ports:
        return f"ACS redirects peer traffic at {', '.join(ports[:4])} and no gate passed since"
    groups = placement.translating_groups(facts, group)
    if groups:
        return (
            f"the IOMMU translates DMA of the GPUs (group {', '.join(map(str, groups[:4]))}) "
            "and no gate passed on this boot"
        )
    return None


class _Way(Record, frozen=True):
    """What decides over vLLM's own all-reduce kernel."""

    size: int
    release: flags.Release
    link: Interconnect
    granted: bool | None
    verified: bool
    veto: str | None


def _custom_all_reduce(way: _Way, extra: dict[str, KnobValue]) -> CustomAllReduce:
    """vLLM's own gate (custom_all_reduce.py), and ours before it."""
    if way.size == 1:
        return CustomAllReduce(active=False, disable=False, reason="one GPU: nothing to reduce")
    off = _why_off(way)
    if off is None and extra.get("disable-custom-all-reduce") is True:
        off = "asked for in extra_args"
    if off is not None:
        return CustomAllReduce(active=False, disable=True, reason=off)
    return CustomAllReduce(
        active=True, disable=False, reason=f"{way.link.value}, and the gate verified peer-to-peer"
    )


def _why_off(way: _Way) -> str | None:
    sizes = _SIZES if way.release < (0, 27, 1) else _SIZES_FROM_0_27_1
    if way.veto is not None:
        return f"peer-to-peer is vetoed: {way.veto}"
    if way.size not in sizes:
        return f"vLLM's own kernel has no variant for {way.size} GPUs; said by name it is silent"
    if way.size > 2 and way.link is not Interconnect.NVLINK:
        return (
            "vLLM leaves its own kernel out for more than two GPUs without an NVLink mesh; said by "
            "name it does not warn, and expandable segments are safe"
        )
    if way.granted is False:
        return "the driver grants no peer access, which vLLM's own kernel needs"
    if not way.verified:
        return "no gate has verified peer-to-peer on this boot; `nodeprep bringup` lifts this"
    return None
