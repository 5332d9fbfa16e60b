"""max_num_seqs and max_num_batched_tokens: the defaults of each version on each GPU."""

from __future__ import annotations

from nodeprep.errors import UsageError
from nodeprep.memory.gpus import GpuModel
from nodeprep.memory.versions import EngineRules
from nodeprep.model.memory import ModelShape, PlanRequest

_LONG_CONTEXT = 32_768
_SMALLEST_STEP = 2048
_MULTIMODAL_STEP_V0 = 5120
_LARGE_GIB, _HUGE_GIB = 70, 160


def step_sizes(
    shape: ModelShape,
    request: PlanRequest,
    rules: EngineRules,
    gpu: GpuModel,
    length: int,
    *,
    v1: bool,
    notes: list[str],
) -> tuple[int, int]:
    """Sequences and tokens of one engine step.  Raises UsageError.

    V1: by the GPU's memory and the usage (arg_utils.py get_batch_defaults).  V0: 256 sequences and
    max(max_model_len, 2048) tokens, fewer when it chunks by itself above 32768 tokens of context.
    """
    for name, value in (
        ("max_num_seqs", request.max_num_seqs),
        ("max_num_batched_tokens", request.max_num_batched_tokens),
    ):
        if value is not None and not 1 <= value <= 1 << 24:
            raise UsageError(f"{name} {value} is not possible", hint="1 or more")
    default_seqs, default_tokens = (
        _v1_defaults(request, rules, gpu, length)
        if v1
        else (rules.seqs_v0, _v0_tokens(shape, request, rules, length))
    )
    seqs = request.max_num_seqs or default_seqs
    tokens = request.max_num_batched_tokens or default_tokens
    if request.max_num_batched_tokens is None:
        tokens = min(tokens, seqs * length)
        notes.append(f"max_num_batched_tokens {tokens}: default of that version on {gpu.name}")
    if request.max_num_seqs is None:
        seqs = min(seqs, tokens)
        notes.append(f"max_num_seqs {seqs}: default of that version on {gpu.name}")
    elif seqs > tokens:
        raise UsageError(
            f"max_num_batched_tokens {tokens} is less than max_num_seqs {seqs}",
            hint="vLLM refuses it too: raise the tokens or lower the sequences",
        )
    return seqs, tokens


def _v1_defaults(
    request: PlanRequest, rules: EngineRules, gpu: GpuModel, length: int
) -> tuple[int, int]:
    offline = request.usage == "offline"
    small_a100 = "A100" in gpu.name and not rules.a100_is_large
    if rules.huge_tier and gpu.total_gib >= _HUGE_GIB:
        seqs, tokens = 1024, 16_384
    elif gpu.total_gib >= _LARGE_GIB and not small_a100 and gpu.capability != "12.1":
        seqs, tokens = 1024, 16_384 if offline else 8192
    else:
        seqs, tokens = 256, 8192 if offline else 2048
    return seqs, tokens if request.chunked_prefill else max(length, tokens)


def _v0_tokens(shape: ModelShape, request: PlanRequest, rules: EngineRules, length: int) -> int:
    chunks = (
        request.chunked_prefill
        and rules.chunk_tokens_v0
        and length > _LONG_CONTEXT
        and shape.vision is None
        and shape.sliding is None
        and shape.mla is None
    )
    if chunks:
        return rules.chunk_tokens_v0
    least = _MULTIMODAL_STEP_V0 if shape.vision is not None else _SMALLEST_STEP
    return max(length, least)
