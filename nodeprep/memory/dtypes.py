"""Bytes of the types that vLLM names."""

from __future__ import annotations

from nodeprep.errors import UsageError

_ACTIVATION = {
    "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4,
    "bf16": 2, "fp16": 2, "fp32": 4,
}  # fmt: skip
_KV = {
    "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "fp8_inc": 1.0, "fp8_ds_mla": 1.0, "int8": 1.0,
    "bfloat16": 2.0, "float16": 2.0, "float32": 4.0,
    # one e4m3 scale for 16 values of 4 bits
    "nvfp4": 0.5 + 1 / 16,
}  # fmt: skip

DTYPES = tuple(_ACTIVATION)
KV_DTYPES = ("auto", *_KV)


def activation_bytes(dtype: str) -> int:
    """Bytes of one value of the model's type.  Raises UsageError."""
    size = _ACTIVATION.get(dtype)
    if size is None:
        raise UsageError(f"dtype {dtype[:40]!r} is not known", hint=f"one of {', '.join(DTYPES)}")
    return size


def kv_bytes(kv_cache_dtype: str, model_bytes: int) -> float:
    """Bytes of one value in the KV cache; `auto` is the model's type.  Raises UsageError."""
    if kv_cache_dtype == "auto":
        return float(model_bytes)
    size = _KV.get(kv_cache_dtype)
    if size is None:
        raise UsageError(
            f"KV cache dtype {kv_cache_dtype[:40]!r} is not known",
            hint=f"one of {', '.join(KV_DTYPES)}",
        )
    return size
