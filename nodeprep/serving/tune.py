"""Facts, gate and memory plan become one configuration; pure.

What is decided stands in the rules (rules_*.py); here their decisions are gathered, checked against
the release's flag table, and compared with a configuration somebody runs already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from nodeprep.errors import UsageError
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.gate import GateResult
from nodeprep.model.memory import MemoryPlan, ModelShape
from nodeprep.model.serving import GivenConfig, Interconnect, Knob, ServingConfig
from nodeprep.serving import (
    compare,
    flags,
    placement,
    rules_engine,
    rules_env,
    rules_kv,
    text,
)
from nodeprep.serving.decision import Decision, Place, Warn
from nodeprep.serving.extras import extra_options, extra_variables
from nodeprep.serving.situation import Situation, assess
from nodeprep.settings import ServingPolicy
from nodeprep.units import GIB, show_bytes

_TAG = re.compile(r":v?(\d{1,6}\.\d{1,6}\.\d{1,6})(?![\d.])")

RULES = (*rules_engine.RULES, *rules_kv.RULES, *rules_env.RULES)


def tune(
    facts: NodeFacts,
    gate: GateResult | None,
    plan: MemoryPlan,
    policy: ServingPolicy,
    shape: ModelShape | None = None,
    *,
    p2p_verified: bool,
    given: GivenConfig | None = None,
    disk_free_bytes: int | None = None,
    group: placement.Group | None = None,
) -> ServingConfig:
    """The configuration of this node for this model and release.

    `p2p_verified`: a gate with checked data passed over peer-to-peer on this boot.  `given`: a
    configuration to compare with; every departure is listed with its reason.  `disk_free_bytes`:
    room where the cache lies.  `group`: its GPUs; None: those that reach each other best.

    Raises UsageError for a combination that cannot start: a model that does not fit, a GPU without
    a backend, an option the release does not have.
    """
    if not plan.fits:
        raise UsageError(
            f"{plan.model} does not fit on {plan.tensor_parallel}x {plan.gpu} "
            f"with vLLM {plan.vllm_version}: {plan.limit or 'the memory plan says so'}",
            hint=_ways_out(plan),
        )
    situation = assess(facts, gate, plan, policy, shape, p2p_verified=p2p_verified, chosen=group)
    decisions, warnings = _decide(situation)
    config = ServingConfig(
        model=served_model(policy, plan, shape),
        vllm_version=situation.version,
        image=_image(policy, situation.version),
        tensor_parallel=situation.tensor_parallel,
        gpu_uuids=_uuids(situation),
        options=_placed(decisions, Place.OPTION),
        env=_placed(decisions, Place.ENV),
        left_out=_placed(decisions, Place.LEFT_OUT),
        shm_bytes=shm_bytes(situation.tensor_parallel),
        host_address=text.address(policy.host_address),
        port=policy.port,
        cpu_affinity=None,
        numa_nodes=placement.numa_nodes(facts, situation.group),
        warnings=(
            *warnings,
            *_situation_warnings(situation),
            *_disk_warnings(situation, disk_free_bytes),
        ),
        simulated=facts.origin is not Origin.LIVE or (gate is not None and gate.simulated),
        node=_node(facts, situation),
        gpu_indices=tuple(gpu.index for gpu in situation.group),
        all_gpus=len(situation.group) == len(facts.gpus),
        interconnect=situation.interconnect,
        api_key_file=policy.api_key_file,
        hf_token_file=policy.hf_token_file,
        cache_dir=policy.cache_dir,
        vllm_program=policy.vllm_program,
    )
    return config if given is None else compare.with_differences(config, given)


def tune_groups(
    facts: NodeFacts,
    measured: Sequence[GateResult],
    plan: MemoryPlan,
    policy: ServingPolicy,
    shape: ModelShape | None = None,
    *,
    disk_free_bytes: int | None = None,
) -> tuple[ServingConfig, ...]:
    """One configuration for each of `policy.groups` servers, on ports that follow each other.

    `measured`: gates of this boot.  That over a server's own GPUs decides, else the first.
    Raises UsageError as `tune` does, and for more groups than the node has GPUs for.
    """
    size = policy.tensor_parallel or plan.tensor_parallel
    groups = placement.choose_groups(facts, size, max(policy.groups, 1))
    own = {gate.gpus: gate for gate in measured}
    made = []
    for number, group in enumerate(groups):
        indices = tuple(gpu.index for gpu in group)
        gate = own.get(indices, measured[0] if measured else None)
        config = tune(
            facts, gate, plan, policy, shape,
            p2p_verified=gate is not None and gate.p2p_verified,
            disk_free_bytes=disk_free_bytes, group=group,
        )  # fmt: skip
        made.append(
            replace(config, instance=number, instances=len(groups), port=policy.port + number)
        )
    return tuple(made)


def _decide(s: Situation) -> tuple[list[Decision], list[str]]:
    made: list[Decision | Warn] = [one for rule in RULES for one in rule(s)]
    decided = [one for one in made if isinstance(one, Decision)]
    options = {one.knob.name for one in decided if one.place is Place.OPTION}
    variables = {one.knob.name: one.knob.value for one in decided if one.place is Place.ENV}
    decided += extra_options(s, options)
    decided += extra_variables(s, variables)
    _check_against_release(decided, s.version)
    return decided, [one.text for one in made if isinstance(one, Warn)]


def _check_against_release(decisions: Iterable[Decision], version: str) -> None:
    """Nothing leaves here that the release's own parser would refuse."""
    for one in decisions:
        if one.place is not Place.OPTION:
            continue
        name, value = one.knob.name, one.knob.value
        spec = flags.flag(name, version)
        problem = flags.absence(name, version) if spec is None else flags.check_value(spec, value)
        if problem is not None:
            raise UsageError(
                f"vLLM {version} does not take --{name} {value}: {problem}",
                hint="choose another value or another release",
            )


def _placed(decisions: Iterable[Decision], place: Place) -> tuple[Knob, ...]:
    """The knobs of one place; what was rendered after all is not also left out."""
    rendered = {one.knob.name for one in decisions if one.place is not Place.LEFT_OUT}
    return tuple(
        one.knob
        for one in decisions
        if one.place is place and (place is not Place.LEFT_OUT or one.knob.name not in rendered)
    )


def _ways_out(plan: MemoryPlan) -> str:
    ways = ", ".join(f"{name} {value}" for name, value in sorted(plan.recommended.items()))
    return f"try {ways}" if ways else "more GPUs, a smaller type, or a shorter max_model_len"


def served_model(policy: ServingPolicy, plan: MemoryPlan, shape: ModelShape | None) -> str:
    """What `vllm serve` is given: a Hugging Face name, or the folder of a config.json."""
    named = policy.model or ""
    if named.startswith(("/", ".", "~")) or named.endswith("config.json"):
        return text.path(named.removesuffix("config.json").rstrip("/") or "/", "model path")
    candidates = (named, plan.model, shape.name if shape is not None else "")
    full = next((one for one in candidates if "/" in one), None)
    return text.model_name(full or named or plan.model)


def _image(policy: ServingPolicy, version: str) -> str:
    tag = version.strip().removeprefix("v").partition("+")[0]
    return text.image_name(policy.image or f"vllm/vllm-openai:v{tag}")


def _uuids(s: Situation) -> tuple[str, ...]:
    """UUIDs in bus order; empty unless every GPU of the group has a usable one."""
    uuids = [gpu.uuid for gpu in s.group if gpu.uuid is not None and _is_uuid(gpu.uuid)]
    return tuple(uuids) if len(uuids) == len(s.group) else ()


def _is_uuid(uuid: str) -> bool:
    try:
        text.gpu_name(uuid)
    except UsageError:
        return False
    return True


def shm_bytes(tensor_parallel: int) -> int:
    """Size of /dev/shm: 1 GiB and 1 GiB for each rank.

    NCCL's host path takes (4 + 0.5 + 4.7) MiB for each channel and connection (src/init.cc): 8
    channels, 4 connections and 2 communicators are 0.6 GiB a rank; the engine's message queue and
    its share of multimodal input take the rest.  It is a limit, not an allocation.
    """
    return GIB * (1 + tensor_parallel)


def _node(facts: NodeFacts, s: Situation) -> str:
    where = f"recorded machine {facts.machine}" if facts.machine else "this node"
    gpu = s.group[0].name if s.group and s.group[0].name else s.plan.gpu
    return f"{where} ({s.tensor_parallel}x {gpu}, {s.interconnect.value})"


_CACHE_ROOM_BYTES = 4 * GIB
"""Compiled kernels and graphs beside the weights."""


def _disk_warnings(s: Situation, free_bytes: int | None) -> Iterator[str]:
    """Whether weights (unless they lie in a folder of their own) and cache have room."""
    if free_bytes is None:
        return
    weights = 0 if (s.policy.model or "").startswith("/") else weight_bytes(s.plan, s.shape)
    needed = weights + _CACHE_ROOM_BYTES
    if free_bytes < needed:
        yield (
            f"{show_bytes(free_bytes)} free at {s.policy.cache_dir}, {show_bytes(needed)} needed "
            "for weights and compiled kernels, unless the weights lie there already"
        )


def weight_bytes(plan: MemoryPlan, shape: ModelShape | None) -> int:
    """Bytes of the checkpoint: of its files where known, else of all ranks together."""
    if shape is not None and shape.weight_file_bytes is not None:
        return shape.weight_file_bytes
    return sum(rank.weights_bytes for rank in plan.ranks)


def _situation_warnings(s: Situation) -> Iterator[str]:
    if not s.group:
        yield "the GPUs of the node are not known: the files name all GPUs, not a group"
    elif not _uuids(s):
        yield "GPUs are named by index, not by UUID: an index may move after a change of hardware"
    if s.is_group and s.interconnect in (Interconnect.HOST, Interconnect.UNKNOWN):
        yield f"tensor parallel over {s.interconnect.value}: every layer waits for it twice"
    if not flags.is_known(s.version):
        low, high = flags.neighbours(s.version)
        yield f"vLLM {s.version} is not in the flag table; checked against {low} and {high}"
    if "@sha256:" not in (s.policy.image or ""):
        yield "the image is named by tag, which can move; give its digest in serving.image"
    tagged = _TAG.search(s.policy.image or "")
    if tagged is not None and flags.release_of(tagged[1]) != s.release:
        yield f"the image is tagged {tagged[1]}, the options are those of {s.version}"
    if s.capability is not None and s.capability >= (10, 0) and s.release < (0, 9, 0):
        yield "images before 0.9.0 were built with CUDA 12.4, which has no code for Blackwell"
    if not s.policy.api_key_file:
        yield "no API key file: whoever reaches the port can use the model"
