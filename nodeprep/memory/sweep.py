"""Many plans at once: every combination of some options' values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from math import prod

from msgspec.structs import replace

from nodeprep.errors import UsageError
from nodeprep.memory.plan import plan
from nodeprep.model.memory import MemoryPlan, ModelShape, PlanRequest, SweepRow

MOST_PLANS = 512
MOST_GPUS = 1024
Axes = dict[str, tuple[str, ...]]


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UsageError(f"{text[:40]!r} is not a whole number")
    return int(text)


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text[:40]!r} is not a number") from None


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{text[:40]!r} is neither true nor false")
    return text.lower() == "true"


_FIELDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "tp": ("tensor_parallel", _whole),
    "gpu": ("gpu_name", str),
    "vllm-version": ("vllm_version", str),
    "gpu-memory-gib": ("gpu_memory_gib", _share),
    "gpu-memory-utilization": ("gpu_memory_utilization", _share),
    "max-model-len": ("max_model_len", _whole),
    "max-num-seqs": ("max_num_seqs", _whole),
    "max-num-batched-tokens": ("max_num_batched_tokens", _whole),
    "kv-cache-dtype": ("kv_cache_dtype", str),
    "quantization": ("quantization", str),
    "dtype": ("dtype", str),
    "usage": ("usage", str),
    "enforce-eager": ("enforce_eager", _truth),
}


def parse_axes(texts: Iterable[str]) -> Axes:
    """`tp=1,2,4` and its like, each axis once.  Raises UsageError."""
    axes: Axes = {}
    for text in texts:
        name, equals, values = text.partition("=")
        key = name.strip().lower().replace("_", "-")
        chosen = tuple(dict.fromkeys(one.strip() for one in values.split(",") if one.strip()))
        if key not in _FIELDS or not equals or not chosen or key in axes:
            raise UsageError(
                f"--sweep {text[:60]!r} is no axis",
                hint=f"write tp=1,2,4; each once, of: {', '.join(_FIELDS)}",
            )
        counts = {one.partition(":")[2] for one in chosen} if key == "gpu" else set()
        if len(counts) > 1:
            raise UsageError(
                f"--sweep {text[:60]!r}: one number of GPUs for all of them",
                hint="sweep their number by tp: gpu=L40S,H100 tp=1,2,4,8",
            )
        axes[key] = chosen
    number = prod(len(one) for one in axes.values())
    if number > MOST_PLANS:
        raise UsageError(f"{number} combinations are too many", hint=f"at most {MOST_PLANS}")
    return axes


def sweep(shape: ModelShape, request: PlanRequest, axes: Axes) -> tuple[SweepRow, ...]:
    """One row a combination, in the order of the axes; what is not possible says why.

    Raises UsageError for a value that is of the wrong type.
    """
    return tuple(
        _row(shape, request, dict(zip(axes, values, strict=True)))
        for values in product(*axes.values())
    )


def _row(shape: ModelShape, request: PlanRequest, settings: dict[str, str]) -> SweepRow:
    changes = {_FIELDS[name][0]: _FIELDS[name][1](text) for name, text in settings.items()}
    asked = replace(request, **changes)
    try:
        return _summary(settings, plan(shape, asked))
    except UsageError as error:
        return SweepRow(settings=settings, fits=False, limit=f"not possible: {error}")


def _summary(settings: dict[str, str], result: MemoryPlan) -> SweepRow:
    tightest = min(result.ranks, key=lambda one: one.kv_cache_bytes)
    return SweepRow(
        settings=settings,
        fits=result.fits,
        limit=result.limit,
        weights_bytes=tightest.weights_bytes,
        non_kv_bytes=tightest.non_kv_bytes,
        kv_cache_bytes=tightest.kv_cache_bytes,
        kv_cache_bytes_low=tightest.kv_cache_bytes_low,
        kv_cache_bytes_high=tightest.kv_cache_bytes_high,
        kv_bytes_per_token=result.kv_bytes_per_token,
        kv_cache_tokens=result.kv_cache_tokens,
        num_blocks=result.num_blocks,
        max_concurrency=result.max_concurrency,
        max_model_len=result.max_model_len,
    )
