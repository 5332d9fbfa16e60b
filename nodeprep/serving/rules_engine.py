"""Rules for the engine's own options; pure.  A rule yields decisions, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.errors import UsageError
from nodeprep.serving import flags
from nodeprep.serving.decision import Decision, Warn, left_out, option
from nodeprep.serving.situation import Situation

_PLAN = "memory plan"
_POLICY = "policy"
_ARGS = "vLLM engine/arg_utils.py"


def parallel(s: Situation) -> Iterator[Decision | Warn]:
    ways = "one GPU" if s.tensor_parallel == 1 else f"over {s.interconnect.value}"
    yield option(
        "tensor-parallel-size",
        s.tensor_parallel,
        f"the weights of {s.plan.model} are split {s.tensor_parallel} ways, {ways}",
        _PLAN,
    )


def dtype(s: Situation) -> Iterator[Decision | Warn]:
    asked = s.policy.dtype
    if asked is None or asked == "auto":
        yield left_out("dtype", "auto", "the checkpoint says its own activation type", _POLICY)
        return
    yield option("dtype", asked, "activation type asked for", _POLICY)


def memory(s: Situation) -> Iterator[Decision | Warn]:
    asked = s.policy.gpu_memory_utilization
    value = s.plan.gpu_memory_utilization if asked is None else asked
    spec = flags.flag("gpu-memory-utilization", s.version)
    default = spec.default if spec is not None else None
    yield option(
        "gpu-memory-utilization",
        value,
        f"share of each GPU the engine may plan with (default of this release {default}); "
        f"{_plan_room(s)}",
        _PLAN if asked is None else _POLICY,
    )
    if asked is not None and asked != s.plan.gpu_memory_utilization:
        yield Warn(text=_planned_for("gpu-memory-utilization", s.plan.gpu_memory_utilization))


def _plan_room(s: Situation) -> str:
    tokens = s.plan.kv_cache_tokens
    return f"leaves KV room for {tokens} tokens" if tokens > 0 else "KV room not known"


def _planned_for(name: str, value: float) -> str:
    return f"the memory plan was made for {name} {value}: its figures are not those of this file"


def limits(s: Situation) -> Iterator[Decision | Warn]:
    """Context, sequences and tokens of one step; the engine refuses tokens below sequences."""
    policy, plan = s.policy, s.plan
    length = policy.max_model_len or plan.max_model_len
    sequences = policy.max_num_seqs or plan.max_num_seqs
    tokens = policy.max_num_batched_tokens or plan.max_num_batched_tokens
    if tokens < sequences:
        if policy.max_num_batched_tokens is not None and policy.max_num_seqs is not None:
            raise UsageError(
                f"max_num_batched_tokens {tokens} is below max_num_seqs {sequences}: "
                "the engine refuses to start",
                hint=f"set max_num_seqs to {tokens} or less",
            )
        yield Warn(
            text=f"max-num-seqs lowered from {sequences} to {tokens}: it may not exceed "
            "max-num-batched-tokens"
        )
        sequences = tokens
    yield option(
        "max-model-len",
        length,
        f"longest prompt and answer together; KV holds "
        f"{plan.max_concurrency:.1f} requests of this length",
        _origin(policy.max_model_len),
    )
    yield option(
        "max-num-seqs",
        sequences,
        "most requests in one step; sizes the sampler's peak and the captured graphs",
        _origin(policy.max_num_seqs),
    )
    yield option(
        "max-num-batched-tokens",
        tokens,
        "tokens of one step, which bounds the activation peak of a prefill; lower favours "
        "inter-token latency, higher time to first token"
        + (f"; the goal is {policy.goal}" if _by_goal(s) else ""),
        _POLICY if _by_goal(s) else _origin(policy.max_num_batched_tokens),
    )
    for name, asked, planned in (
        ("max-model-len", policy.max_model_len, plan.max_model_len),
        ("max-num-seqs", policy.max_num_seqs, plan.max_num_seqs),
        ("max-num-batched-tokens", policy.max_num_batched_tokens, plan.max_num_batched_tokens),
    ):
        if asked is not None and asked != planned:
            yield Warn(text=_planned_for(name, planned))


def _by_goal(s: Situation) -> bool:
    return s.policy.goal is not None and s.policy.max_num_batched_tokens is None


def _origin(asked: int | None) -> str:
    return _PLAN if asked is None else _POLICY


def chunked_prefill(s: Situation) -> Iterator[Decision | Warn]:
    name = "enable-chunked-prefill"
    if s.shape is not None and s.shape.pooling:
        yield left_out(name, True, "a pooling model reads each prompt once, whole", _ARGS)
        return
    if s.release >= (0, 11, 0):
        yield left_out(
            name,
            True,
            "engine V1 always chunks prefills of generating models",
            _ARGS,
        )
        return
    reason = "without it engine V0 runs a whole prompt in one step: the activation spike"
    if s.release >= (0, 8, 0):
        reason = "V1 chunks by itself; where this release falls back to V0 it must be said"
    yield option(name, True, reason, _ARGS)


def prefix_caching(s: Situation) -> Iterator[Decision | Warn]:
    asked = s.policy.enable_prefix_caching
    default_on = s.release >= (0, 11, 0)
    name = "enable-prefix-caching"
    impossible = _no_prefix_caching(s)
    if impossible is not None:
        yield left_out(name, True, impossible, "vLLM config.py")
    elif asked is False:
        yield option(name, False, "asked for: no reuse of shared prefixes", _POLICY)
    elif default_on:
        yield left_out(name, True, "on by default in engine V1", _ARGS)
    else:
        yield option(
            name,
            True,
            "blocks of shared prompt prefixes are computed once; off by default in engine V0",
            _ARGS,
        )


def _no_prefix_caching(s: Situation) -> str | None:
    """Where the engine refuses to start with it, or it has no use."""
    if s.shape is None:
        return None
    if s.shape.pooling:
        return "a pooling model keeps no blocks to share"
    if s.shape.sliding is not None and s.release < (0, 8, 0):
        return "engine V0 refuses to start with it for a model with a sliding window"
    return None


def eager(s: Situation) -> Iterator[Decision | Warn]:
    name = "enforce-eager"
    if s.policy.enforce_eager:
        yield option(name, True, "asked for: no CUDA graphs, less memory, slower decoding", _POLICY)
        return
    yield left_out(
        name, False, "CUDA graphs stay on: without them decoding waits for the CPU", "vLLM default"
    )


def block_size(s: Situation) -> Iterator[Decision | Warn]:
    asked = s.policy.block_size
    if asked is None:
        yield left_out(
            "block-size",
            s.plan.block_size_tokens,
            "the engine takes the size its attention backend wants",
            "vLLM default",
        )
        return
    problem = _block_problem(s, asked)
    if problem is not None:
        raise UsageError(f"block_size {asked}: {problem}", hint="use 16, or leave it out")
    yield option(
        "block-size",
        asked,
        "tokens in one KV block, as asked; larger blocks make "
        "shorter block tables and coarser prefix sharing",
        _POLICY,
    )


def _block_problem(s: Situation, asked: int) -> str | None:
    if s.release < (0, 8, 0) and asked > 32:
        return "engine V0 on CUDA takes at most 32"
    if asked % 16 and not (s.release < (0, 8, 0) and asked == 8):
        return "CUDA attention backends take multiples of 16"
    return None


def custom_all_reduce(s: Situation) -> Iterator[Decision | Warn]:
    kernel = s.custom_all_reduce
    name, source = "disable-custom-all-reduce", "vLLM custom_all_reduce.py"
    if kernel.disable:
        yield option(name, True, kernel.reason, source)
    else:
        yield left_out(name, kernel.active is False, kernel.reason, source)


RULES = (
    parallel,
    dtype,
    memory,
    limits,
    chunked_prefill,
    prefix_caching,
    block_size,
    eager,
    custom_all_reduce,
)
