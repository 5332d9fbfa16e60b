"""`quantization_config` of a Hugging Face config.json -> QuantScheme.

Every quantizer writes its own keys; vLLM reads them in
vllm/model_executor/layers/quantization/*.py (`from_config`), and the names here are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodeprep.errors import ParseError
from nodeprep.model.memory import QuantScheme

_FP8_METHODS = {"fp8", "fbgemm_fp8", "ptpc_fp8"}
_INT4_METHODS = {"awq", "awq_marlin", "gptq", "gptq_marlin", "auto-round", "auto_round", "intel"}
_CLASSES = (
    ("shared_experts", re.compile(r"shared_?expert")),
    ("attention", re.compile(r"self_attn|linear_attn|attention")),
    ("experts", re.compile(r"experts")),
    ("mlp", re.compile(r"mlp|feed_forward")),
    ("lm_head", re.compile(r"lm_head")),
)
_ROUTER = re.compile(r"router|gate\.weight$|(mlp|moe|feed_forward)\\?\.gate($|[^_a-z])")
_PROJECTION = re.compile(r"\.(\w+_proj)$")
_LAYER = re.compile(r"layers\\?\.(\d+)\\?\.")


def scheme_named(method: str) -> QuantScheme | None:
    """The scheme of `--quantization METHOD` applied to an unquantized model; None: not known here.

    fp8 quantizes while loading, one scale a tensor; bitsandbytes stores NF4 with one 8-bit
    absmax for 64 weights (double quantization); gguf is taken as Q8_0, 34 bytes for 32 weights.
    """
    known = {
        "fp8": QuantScheme(method="fp8", weight_bits=8, activation_bits=8, skips=("lm_head",)),
        "bitsandbytes": QuantScheme(
            method="bitsandbytes", weight_bits=4, group_size=64, scale_bytes=1, skips=("lm_head",)
        ),
        "gguf": QuantScheme(method="gguf", weight_bits=8, group_size=32, scale_bytes=2),
        "awq": QuantScheme(
            method="awq", weight_bits=4, group_size=128, zero_point_bits=4, skips=("lm_head",)
        ),
        "gptq": QuantScheme(
            method="gptq", weight_bits=4, group_size=128, zero_point_bits=4, skips=("lm_head",)
        ),
        "mxfp4": QuantScheme(
            method="mxfp4", weight_bits=4, group_size=32, scale_bytes=1,
            skips=("attention", "lm_head"),
        ),
        "nvfp4": QuantScheme(
            method="modelopt", weight_bits=4, group_size=16, scale_bytes=1, activation_bits=4,
            skips=("lm_head",),
        ),
        "int8": QuantScheme(
            method="compressed-tensors", weight_bits=8, activation_bits=8, skips=("lm_head",)
        ),
    }  # fmt: skip
    aliases = {
        "awq_marlin": "awq", "gptq_marlin": "gptq", "modelopt_fp4": "nvfp4", "modelopt": "fp8",
        "w8a8": "int8", "w4a16": "gptq", "fbgemm_fp8": "fp8", "ptpc_fp8": "fp8",
        "experts_int8": "int8", "fp8-dynamic": "fp8",
    }  # fmt: skip
    if method == "fp8-block":
        return QuantScheme(
            method="fp8", weight_bits=8, block=(128, 128), scale_bytes=4, activation_bits=8,
            skips=("lm_head",),
        )  # fmt: skip
    return known.get(aliases.get(method, method))


def parse_quantization(config: dict[str, object], layers: int) -> tuple[str, QuantScheme | None]:
    """The method's name, and its numbers where they are known.

    Raises ParseError for a wrong type under a key that is used.
    """
    method = config.get("quant_method")
    if method is None and ("quantization" in config or "quant_algo" in config):
        method = "modelopt"
    if not isinstance(method, str) or not re.fullmatch(r"[\w.-]{1,40}", method):
        raise ParseError(
            "config.json: quantization_config.quant_method is not a name",
            hint="give --quantization instead",
        )
    method = method.lower()
    skips = _skips(config, layers)
    if method in _FP8_METHODS:
        return _fp8(method, config, skips)
    if method in _INT4_METHODS:
        return method, _integer(method, config, skips)
    if method == "compressed-tensors":
        return method, _compressed(config, skips)
    if method in {"modelopt", "modelopt_fp4"}:
        return method, _modelopt(config, skips, layers)
    if method == "mxfp4":
        # gpt-oss quantizes nothing but the experts (vllm: mxfp4.py, Mxfp4Config.get_quant_method)
        return method, QuantScheme(
            method=method, weight_bits=4, group_size=32, scale_bytes=1,
            skips=("attention", "lm_head", "mlp"),
        )  # fmt: skip
    if method == "bitsandbytes":
        if config.get("load_in_8bit") is True:
            return method, QuantScheme(method=method, weight_bits=8, skips=(*skips, "lm_head"))
        return method, scheme_named("bitsandbytes")
    return method, scheme_named(method)


def _fp8(
    method: str, config: dict[str, object], skips: tuple[str, ...]
) -> tuple[str, QuantScheme | None]:
    shape = config.get("weight_block_size")
    block = None
    if shape is not None:
        if not isinstance(shape, list) or len(shape) != 2:
            raise _bad("weight_block_size", shape)
        block = (_small(shape[0], "weight_block_size"), _small(shape[1], "weight_block_size"))
    name = "fp8-block" if block else method
    return name, QuantScheme(
        method=method, weight_bits=8, block=block, scale_bytes=4, activation_bits=8,
        skips=_with_head(skips),
    )  # fmt: skip


def _integer(method: str, config: dict[str, object], skips: tuple[str, ...]) -> QuantScheme:
    bits = config.get("bits", config.get("w_bit", 4))
    group = config.get("group_size", config.get("q_group_size", 128))
    size = None if group == -1 else _small(group, "group_size")
    stored = _small(bits, "bits")
    return QuantScheme(
        method=method, weight_bits=stored, group_size=size, zero_point_bits=stored,
        skips=_with_head(skips) if config.get("lm_head") is not True else skips,
    )  # fmt: skip


def _compressed(config: dict[str, object], skips: tuple[str, ...]) -> QuantScheme | None:
    groups = config.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        return None
    first = next(iter(groups.values()))
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        return None
    bits = _small(weights.get("num_bits"), "config_groups.weights.num_bits")
    inputs = first.get("input_activations")
    acts = inputs.get("num_bits") if isinstance(inputs, dict) else None
    group = weights.get("group_size")
    size = _small(group, "config_groups.weights.group_size") if group not in (None, -1) else None
    structure = weights.get("block_structure")
    block = None
    if weights.get("strategy") == "block" and isinstance(structure, list) and len(structure) == 2:
        block = (_small(structure[0], "block_structure"), _small(structure[1], "block_structure"))
    four_bit_float = weights.get("type") == "float" and bits == 4
    return QuantScheme(
        method="compressed-tensors", weight_bits=bits, group_size=size, block=block,
        scale_bytes=1 if four_bit_float else 2,
        zero_point_bits=bits if weights.get("symmetric") is False else 0,
        activation_bits=acts if isinstance(acts, int) and not isinstance(acts, bool) else None,
        skips=skips,
    )  # fmt: skip


def _modelopt(config: dict[str, object], skips: tuple[str, ...], layers: int) -> QuantScheme | None:
    inner = config.get("quantization")
    values = inner if isinstance(inner, dict) else config
    algo = values.get("quant_algo")
    if isinstance(inner, dict):
        skips = (*skips, *_skips(inner, layers))
    if algo in ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"):
        return QuantScheme(
            method="modelopt", weight_bits=8, scale_bytes=4, activation_bits=8,
            block=(128, 128) if algo == "FP8_PB_WO" else None, skips=_with_head(skips),
        )  # fmt: skip
    # MIXED_PRECISION keeps attention in fp8 or 16 bits; which layers is in a file of its own
    return QuantScheme(
        method="modelopt", weight_bits=4, group_size=16, scale_bytes=1, activation_bits=4,
        skips=_with_head((*skips, "attention") if algo == "MIXED_PRECISION" else skips),
    )  # fmt: skip


def _skips(config: dict[str, object], layers: int) -> tuple[str, ...]:
    """Module classes that the ignore lists leave unquantized in most layers."""
    patterns: list[str] = []
    for key in ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules"):
        value = config.get(key)
        if isinstance(value, list):
            patterns.extend(one for one in value[:20_000] if isinstance(one, str))
    found: dict[str, set[str]] = {}
    projections: dict[str, set[str]] = {}
    for pattern in patterns:
        name = _class_of(pattern[:300])
        if name is not None:
            number = _LAYER.search(pattern)
            single = _PROJECTION.search(pattern)
            found.setdefault(name, set()).add(number[1] if number else "*")
            projections.setdefault(name, set()).add(single[1] if single else "*")
    return tuple(
        name
        for name, where in found.items()
        if ("*" in where or len(where) * 2 > layers) and _whole(projections[name])
    )


def _whole(projections: set[str]) -> bool:
    """A list that names one projection, kv_b_proj say, leaves the rest of its class quantized."""
    return "*" in projections or len(projections) > 1


def _class_of(pattern: str) -> str | None:
    if _ROUTER.search(pattern) or re.search(r"visual|vision|embed|norm|mtp", pattern):
        return None
    return next((name for name, words in _CLASSES if words.search(pattern)), None)


def _with_head(skips: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*skips, "lm_head")))


def _small(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65_536:
        raise _bad(key, value)
    return value


def _bad(key: str, value: object) -> ParseError:
    return ParseError(
        f"config.json: quantization_config.{key} is {str(value)[:60]!r}, not a small number",
        hint="correct the file, or give --quantization",
    )
