"""What the engine will run with: the request, and that version's defaults on that GPU."""

from __future__ import annotations

import re

import msgspec

from nodeprep.errors import UsageError
from nodeprep.memory.dtypes import activation_bytes, kv_bytes
from nodeprep.memory.gpus import GpuModel, find_gpu
from nodeprep.memory.kv_cache import default_block
from nodeprep.memory.steps import step_sizes
from nodeprep.memory.versions import NEWEST, EngineRules, parse_version, rules_for, show_version
from nodeprep.model.base import Record
from nodeprep.model.memory import ModelShape, PlanRequest
from nodeprep.parse.hf_quantization import scheme_named
from nodeprep.units import bytes_from_gib

_METHOD = re.compile(r"[a-z0-9][\w.-]{0,39}", re.I)


class Resolved(Record, frozen=True):
    """Everything the arithmetic needs, nothing left to guess."""

    shape: ModelShape
    rules: EngineRules
    gpu: GpuModel
    v1: bool
    v2_runner: bool
    tp: int
    nvlink: bool
    dtype_bytes: int
    kv_dtype: str
    kv_value_bytes: float
    utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_tokens: int
    eager: bool
    flashinfer: bool
    """The V1 runner samples with FlashInfer."""
    params_billion: float | None
    context_bytes: int | None
    """Measured use of the device before the baseline."""
    busy_bytes: int
    """In use by other processes."""
    concurrency: int | None
    """Requests wanted at once."""
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    compiled: bool = False
    """A start that finds the code of an earlier one compiled."""

    @property
    def context_size(self) -> int:
        """Context and driver on the device before the baseline: measured, else of the table."""
        if self.context_bytes is not None:
            return self.context_bytes
        return bytes_from_gib(self.gpu.context_gib)

    @property
    def tokens_in_flight(self) -> int:
        """Tokens of the steps that are scheduled and not yet settled."""
        return self.max_num_batched_tokens * self.rules.steps_in_flight

    @property
    def budget(self) -> str:
        return self.rules.budget_v1 if self.v1 else self.rules.budget_v0

    @property
    def sampler(self) -> str:
        if not self.v1:
            return "sort"
        if self.v2_runner:
            return self.rules.v2_sampler
        return "flashinfer" if self.flashinfer else self.rules.sampler

    @property
    def graphs_estimated(self) -> bool:
        """The version subtracts an estimate of its CUDA graphs from the KV cache."""
        if self.eager or not self.v1:
            return False
        return self.rules.graphs == "all" or (self.rules.graphs == "v1" and not self.v2_runner)


def resolve(shape: ModelShape, request: PlanRequest) -> Resolved:
    """Fills in the defaults and checks the ranges.  Raises UsageError."""
    rules = rules_for(parse_version(request.vllm_version))
    gpu = find_gpu(request.gpu_name, request.gpu_memory_gib)
    notes: list[str] = []
    warnings: list[str] = []
    shape = _with_quantization(shape, request.quantization, warnings)
    tp = _tensor_parallel(shape, request)
    dtype_bytes = activation_bytes(_dtype(shape, request, notes))
    kv_dtype = request.kv_cache_dtype or "auto"
    value_bytes = kv_bytes(kv_dtype, dtype_bytes)
    v1 = _runs_v1(rules, gpu, shape, kv_dtype, dtype_bytes, notes)
    length = _model_len(shape, request, notes)
    seqs, tokens = step_sizes(shape, request, rules, gpu, length, v1=v1, notes=notes)
    if rules.version > NEWEST:
        warnings.append(
            f"vLLM {show_version(rules.version)} is newer than {show_version(NEWEST)}, the newest "
            "release whose source was read: its rules are used"
        )
    return Resolved(
        shape=shape,
        rules=rules,
        gpu=gpu,
        v1=v1,
        v2_runner=v1 and _runs_v2(rules, shape),
        tp=tp,
        nvlink=_nvlink(request, gpu, notes),
        dtype_bytes=dtype_bytes,
        kv_dtype=kv_dtype,
        kv_value_bytes=value_bytes,
        utilization=_utilization(request, rules, notes),
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        block_tokens=_block(shape, request, rules),
        eager=request.enforce_eager,
        flashinfer=_flashinfer(request, rules, gpu),
        params_billion=_params(request),
        context_bytes=None if request.context_gib is None else bytes_from_gib(request.context_gib),
        busy_bytes=_busy(request),
        concurrency=_wanted(request),
        assumptions=tuple(notes),
        warnings=tuple(warnings),
    )


def flashinfer_runs_on(gpu: GpuModel) -> bool:
    """Compute capability 7.5 and later; an unknown one is taken to be recent."""
    return gpu.capability in ("", "7.5") or gpu.major >= 8


def _flashinfer(request: PlanRequest, rules: EngineRules, gpu: GpuModel) -> bool:
    if not flashinfer_runs_on(gpu) or rules.flashinfer == "none":
        return False
    if request.flashinfer is None:
        return rules.flashinfer == "default"
    return request.flashinfer


def _with_quantization(shape: ModelShape, method: str | None, warnings: list[str]) -> ModelShape:
    if method is None or method in ("auto", "none", shape.quantization):
        if shape.quantization is not None and shape.quant is None:
            warnings.append(
                f"quantization {shape.quantization} is not known in numbers: weights are counted "
                "unquantized; give a model folder with its safetensors index"
            )
        return shape
    if not _METHOD.fullmatch(method):
        raise UsageError(f"quantization {method[:40]!r} is not a name", hint="for example fp8, awq")
    if shape.quant is not None and method.startswith(shape.quant.method):
        return shape
    scheme = scheme_named(method.lower())
    if scheme is None:
        warnings.append(f"quantization {method} is not known in numbers: the model's own is used")
        return shape
    # the files hold the weights as they were before; they say nothing of their size after
    return msgspec.structs.replace(
        shape, quantization=method, quant=scheme, checkpoint=(), weight_file_bytes=None
    )


def _tensor_parallel(shape: ModelShape, request: PlanRequest) -> int:
    tp = request.tensor_parallel
    if not 1 <= tp <= 1024 or request.gpu_count < 1:
        raise UsageError(f"tensor parallel size {tp} is not possible", hint="1 to 1024")
    if tp > request.gpu_count:
        raise UsageError(
            f"tensor parallel size {tp} needs {tp} GPUs, {request.gpu_count} given",
            hint="name them as --gpu NAME:COUNT, or lower --tp",
        )
    if shape.heads % tp:
        raise UsageError(
            f"{shape.heads} attention heads cannot be split over {tp} GPUs",
            hint="vLLM refuses it too: take a tensor parallel size that divides the heads",
        )
    if shape.mla is None and shape.kv_heads % tp and tp % shape.kv_heads:
        raise UsageError(
            f"{shape.kv_heads} KV heads can neither be split over nor repeated on {tp} GPUs",
            hint="vLLM refuses it too: take a tensor parallel size that divides them",
        )
    return tp


def _dtype(shape: ModelShape, request: PlanRequest, notes: list[str]) -> str:
    """`auto` loads 32 and 64 bit models in 16 bits (config/model.py _get_and_verify_dtype)."""
    if request.dtype is not None and request.dtype != "auto":
        return request.dtype
    if shape.dtype in ("float32", "float64"):
        notes.append("weights of 32 bits are loaded in 16 (dtype auto)")
        return "bfloat16"
    return shape.dtype


def _runs_v1(
    rules: EngineRules,
    gpu: GpuModel,
    shape: ModelShape,
    kv_dtype: str,
    dtype_bytes: int,
    notes: list[str],
) -> bool:
    """0.8.0 to 0.10.2 choose the engine by what V1 supports.

    Source: engine/arg_utils.py _is_v1_supported_oracle.
    """
    if rules.engine != "auto":
        return rules.engine == "V1"
    old_gguf = shape.quant is not None and shape.quant.method == "gguf"
    reasons = {
        f"compute capability {gpu.capability}": 0 < gpu.major < 8,
        f"KV cache dtype {kv_dtype}": kv_dtype.startswith("fp8")
        and rules.fp8_kv_needs_v0
        and gpu.major < 9,
        "dtype float32": dtype_bytes == 4,
        "quantization gguf": old_gguf and rules.version < (0, 9, 0),
    }
    found = [reason for reason, holds in reasons.items() if holds]
    notes.append(f"engine V0: {found[0]}" if found else "engine V1, the default of that version")
    return not found


def _runs_v2(rules: EngineRules, shape: ModelShape) -> bool:
    """Model runner V2 by default: none, listed, dense (and listed), all."""
    listed = shape.architecture in rules.v2_architectures
    if rules.v2 == "listed-dense":
        return listed and shape.moe is None and shape.quantization is None
    if rules.v2 == "dense":
        return listed or (shape.moe is None and shape.linear is None)
    return rules.v2 == "all" or (rules.v2 == "listed" and listed)


def _utilization(request: PlanRequest, rules: EngineRules, notes: list[str]) -> float:
    given = request.gpu_memory_utilization
    if given is None:
        notes.append(f"gpu_memory_utilization {rules.utilization}: default of that version")
        return rules.utilization
    if not 0 < given <= 1:
        raise UsageError(f"gpu_memory_utilization {given} is outside 0..1", hint="for example 0.90")
    return given


def _model_len(shape: ModelShape, request: PlanRequest, notes: list[str]) -> int:
    given = request.max_model_len
    if given is not None:
        if not 1 <= given <= 1 << 31:
            raise UsageError(f"max_model_len {given} is not possible", hint="1 or more tokens")
        return given
    length = shape.rotary_positions or shape.max_position_embeddings
    if length is None:
        raise UsageError("the model does not say its longest context", hint="give --max-model-len")
    notes.append(f"max_model_len {length}: the model's own")
    return length


def _nvlink(request: PlanRequest, gpu: GpuModel, notes: list[str]) -> bool:
    if request.nvlink is not None:
        return request.nvlink
    if request.tensor_parallel > 1:
        links = "joined by NVLink" if gpu.nvlink else "without NVLink"
        notes.append(f"GPUs {links}, as usual for {gpu.name}")
    if not gpu.exact_total:
        notes.append(f"total memory of {gpu.name}: {gpu.total_gib} GiB ({gpu.source})")
    return gpu.nvlink


def _busy(request: PlanRequest) -> int:
    given = request.busy_gib or 0.0
    if not 0 <= given <= 4096:
        raise UsageError(f"{given} GiB in use by others is not plausible")
    return bytes_from_gib(given)


def _wanted(request: PlanRequest) -> int | None:
    given = request.concurrency
    if given is not None and not 1 <= given <= 1 << 20:
        raise UsageError(f"{given} requests at once are not possible", hint="1 or more")
    return given


def _params(request: PlanRequest) -> float | None:
    given = request.params_billion
    if given is not None and not 0 < given <= 100_000:
        raise UsageError(f"{given} billion parameters are not possible", hint="for example 70.6")
    return given


def _block(shape: ModelShape, request: PlanRequest, rules: EngineRules) -> int:
    given = request.block_size
    if given is None:
        return default_block(shape, rules)
    if not 1 <= given <= 4096:
        raise UsageError(f"block size {given} is not possible", hint="16 or 32 tokens")
    return given
