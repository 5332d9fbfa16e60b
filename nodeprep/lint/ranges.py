"""Values that no release can start with, and values that the text does not give; pure."""

from __future__ import annotations

import json
import math
import re

from nodeprep.model.base import Record
from nodeprep.model.serving import KnobValue
from nodeprep.serving.flags import FlagSpec

_VARIABLE = re.compile(r"\$(?:[A-Za-z_{(@*]|\d)|`")
_NOT_FINITE = re.compile(r"[+-]?\.?(?:nan|inf|infinity)", re.IGNORECASE)


class Range(Record, frozen=True):
    """What a number may be, both ends included."""

    low: float
    high: float
    above: bool = False
    """The low end itself is no value."""
    automatic: bool = False
    """-1 and `auto` leave it to the engine."""


_MOST_RANKS = 65_536
_MOST_TOKENS = 100_000_000
"""Ten times the longest context of any published model."""
_COUNT = Range(low=1, high=_MOST_TOKENS)
_RANKS = Range(low=1, high=_MOST_RANKS)
_GIB = Range(low=0, high=1 << 20)

RANGES = {
    "block-size": Range(low=1, high=1 << 16),
    "cpu-offload-gb": _GIB,
    "data-parallel-size": _RANKS,
    "gpu-memory-utilization": Range(low=0, high=1, above=True),
    "max-model-len": Range(low=1, high=_MOST_TOKENS, automatic=True),
    "max-num-batched-tokens": _COUNT,
    "max-num-seqs": _COUNT,
    "pipeline-parallel-size": _RANKS,
    "port": Range(low=0, high=65_535),
    "swap-space": _GIB,
    "tensor-parallel-size": _RANKS,
}
"""By the flag's own name; what is not listed has no bounds worth checking."""


def range_problem(name: str, value: KnobValue | None, number: int | None = None) -> str | None:
    """Why a number cannot be, in one sentence; None for what may be and for what is no number.

    `number`: what a text such as `4k` stands for.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "it is no finite number"
    bounds = RANGES.get(name)
    if bounds is None:
        return None
    if isinstance(value, str):
        if _NOT_FINITE.fullmatch(value.strip()):
            return "it is no finite number"
        if number is None:
            return None
    amount = number if isinstance(value, str) else value
    if amount is None or (bounds.automatic and amount == -1):
        return None
    if amount < bounds.low or amount > bounds.high or (bounds.above and amount == bounds.low):
        first = f"over {bounds.low:g}" if bounds.above else f"{bounds.low:g} at least"
        return f"it must be {first} and {int(bounds.high):,} at most"
    return None


_JSON_TEXT = (
    "default-mm-loras", "diffusion-config", "ec-transfer-config", "engram-config",
    "kv-events-config", "kv-transfer-config", "limit-mm-per-prompt", "media-io-kwargs",
    "mm-processor-kwargs", "model-class-overrides", "model-loader-extra-config",
    "override-generation-config", "override-neuron-config", "override-pooler-config",
    "pooler-config", "quantization-config", "reasoning-config", "rope-scaling",
    "speculative-config", "tokenizer-pool-extra-config", "watermark-config",
    "weight-transfer-config",
)  # fmt: skip
"""Options of optional JSON, whose type the table cannot tell from other optional values
(engine/arg_utils.py: dictionaries and dataclasses of 0.8.5, 0.11.2 and 0.33.0)."""


def takes_json(spec: FlagSpec) -> bool:
    return spec.kind == "json" or spec.name in _JSON_TEXT


def json_problem(spec: FlagSpec, value: KnobValue) -> str | None:
    """What is wrong with a text that begins as JSON where JSON is read; None when nothing is."""
    text = value.strip() if isinstance(value, str) else ""
    if not takes_json(spec) or not text.startswith("{") or is_unresolved(text):
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"it is no JSON: {error.msg.lower()} at character {error.pos + 1}"
    except RecursionError:
        return "it is no JSON: nested too deep"
    return None


def is_unresolved(value: KnobValue | None) -> bool:
    """Whether a variable or a command stands there that only the shell, or compose, fills in."""
    return isinstance(value, str) and _VARIABLE.search(value) is not None
