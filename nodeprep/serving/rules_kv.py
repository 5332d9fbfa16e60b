"""Rules for the KV cache: its type, the backend that type needs, and its scales; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.errors import UsageError
from nodeprep.serving.architecture import generation
from nodeprep.serving.decision import Decision, Warn, left_out, option, variable
from nodeprep.serving.situation import Situation

_POLICY = "policy"
_CUDA = "vLLM platforms/cuda.py"
_FLAG_BACKEND_FROM = (0, 13, 0)
_AUTOMATIC_FROM = (0, 11, 2)


def kv_cache_dtype(s: Situation) -> Iterator[Decision | Warn]:
    asked = s.policy.kv_cache_dtype
    if asked is None or asked == "auto":
        yield left_out("kv-cache-dtype", "auto", "keys and values keep the model's type", _POLICY)
        return
    yield option(
        "kv-cache-dtype",
        asked,
        f"as asked: {s.plan.kv_bytes_per_token} bytes a token on each rank"
        + (", half of 16-bit keys and values" if asked.startswith("fp8") else ""),
        _POLICY,
    )
    if asked.startswith("nvfp4") and s.capability is not None and s.capability < (10, 0):
        raise UsageError(
            f"kv_cache_dtype {asked} needs Blackwell, this is {generation(s.capability)}",
            hint="use fp8 or auto",
        )
    if asked.startswith("fp8"):
        yield from _fp8(s)


def _fp8(s: Situation) -> Iterator[Decision | Warn]:
    """FlashAttention reads FP8 keys and values on Hopper only; the others need FlashInfer."""
    if s.capability is not None and s.capability < (8, 0):
        raise UsageError(
            f"no attention backend reads FP8 keys and values on {generation(s.capability)}",
            hint="plan and render with kv_cache_dtype auto",
        )
    if s.shape is not None and s.shape.mla is not None:
        yield Warn(text="FP8 KV with multi-head latent attention: no rule for its backend here")
        return
    if _backend_given(s):
        return
    yield from _fp8_backend(s)
    if s.capability is None:
        yield Warn(text="the GPU generation is not known: whether it has an FP8 KV backend neither")


def _backend_given(s: Situation) -> bool:
    return "attention-backend" in s.extra_args or ("VLLM_ATTENTION_BACKEND" in s.policy.extra_env)


def _fp8_backend(s: Situation) -> Iterator[Decision | Warn]:
    where = generation(s.capability)
    hopper = s.capability is not None and s.capability[0] == 9
    if s.release < (0, 8, 0):
        yield variable(
            "VLLM_ATTENTION_BACKEND",
            "FLASHINFER",
            "FP8 KV otherwise falls to XFORMERS, measured on L40S at gsm8k 0.40",
            f"{_CUDA}, vLLM PR 24577",
        )
    elif s.release < _AUTOMATIC_FROM and not hopper:
        yield from _pinned_before_automatic(s, where)
    elif not hopper and s.capability is not None and s.capability < (8, 9):
        yield from _pinned_on_ampere(s, where)
    else:
        yield left_out(
            "attention-backend",
            "FLASHINFER",
            f"on {where} this release finds a backend for FP8 KV by itself",
            _CUDA,
        )


def _pinned_before_automatic(s: Situation, where: str) -> Iterator[Decision | Warn]:
    yield variable(
        "VLLM_ATTENTION_BACKEND",
        "FLASHINFER",
        f"FlashAttention cannot read FP8 KV on {where} and this release does not look further",
        _CUDA,
    )
    if s.release < (0, 10, 2):
        yield Warn(
            text=f"vLLM {s.version} runs FP8 KV on {where} with the older engine V0; "
            "0.11.2 and later keep V1 and choose the backend themselves"
        )


def _pinned_on_ampere(s: Situation, where: str) -> Iterator[Decision | Warn]:
    reason = f"on {where} only FlashInfer reads FP8 KV; Triton refuses it below capability 8.9"
    if s.release >= _FLAG_BACKEND_FROM:
        yield option("attention-backend", "FLASHINFER", reason, "vLLM triton_attn.py")
    else:
        yield variable("VLLM_ATTENTION_BACKEND", "FLASHINFER", reason, "vLLM triton_attn.py")
    yield Warn(text=f"FP8 KV on {where} saves memory, not time: the GPU has no FP8 arithmetic")


def kv_scales(s: Situation) -> Iterator[Decision | Warn]:
    """`calculate-kv-scales`: honoured 0.7.2-0.7.3 and 0.11.2-0.27.1, deprecated from 0.19.1."""
    fp8 = (s.policy.kv_cache_dtype or "").startswith("fp8")
    asked = s.policy.calculate_kv_scales
    if not fp8:
        if asked:
            yield _scales_out("only FP8 keys and values have scales")
        return
    why_not = _scales_missing(s)
    if why_not is not None:
        yield _scales_out(why_not)
    elif asked or (asked is None and _AUTOMATIC_FROM <= s.release < (0, 19, 0)):
        yield option(
            "calculate-kv-scales",
            True,
            "scales from the first batch; without them and "
            "without scales in the checkpoint FP8 KV uses 1.0",
            "vLLM config/cache.py",
        )
        yield from _scales_caveats(s)
    else:
        yield _scales_out(_scales_unwanted(s))


def _scales_missing(s: Situation) -> str | None:
    if s.release < (0, 7, 2):
        return "this release does not have it"
    if s.release >= (0, 28, 0):
        return "removed: the server would refuse to start; scales come from the checkpoint"
    if s.shape is not None and s.shape.linear is not None:
        return "it corrupts models with linear attention layers (vLLM PR 37565)"
    if (0, 8, 0) <= s.release < _AUTOMATIC_FROM:
        return "the engine of this release does not honour it (0.8.2 crashed)"
    return None


def _scales_unwanted(s: Situation) -> str:
    if s.policy.calculate_kv_scales is False:
        return "not wanted"
    if s.release < (0, 8, 0):
        return "without effect in the FlashInfer backend of this release"
    return "deprecated in this release; a checkpoint that carries KV scales is the way"


def _scales_out(reason: str) -> Decision:
    return left_out("calculate-kv-scales", True, reason, "vLLM config/cache.py, issue 15973")


def _scales_caveats(s: Situation) -> Iterator[Warn]:
    if s.release < (0, 8, 0):
        yield Warn(
            text="calculate-kv-scales: the FlashInfer backend of this release marks its batches as "
            "not to be used for scales (attention/backends/flashinfer.py), so the scale stays 1.0 "
            "unless the checkpoint carries one: check the model's accuracy"
        )
    if s.release >= (0, 19, 0):
        yield Warn(
            text="calculate-kv-scales is deprecated here and gone from 0.28.0; use a "
            "checkpoint that carries KV scales"
        )


RULES = (kv_cache_dtype, kv_scales)
