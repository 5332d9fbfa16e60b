"""Memory that cannot fit, by the plan that `nodeprep plan` makes; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nodeprep.errors import NodeprepError
from nodeprep.lint.said import CRITICAL, say
from nodeprep.lint.server import Server
from nodeprep.memory.plan import plan
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.memory import ModelShape, PlanRequest

_PLANNED = (
    "tensor-parallel-size", "pipeline-parallel-size", "gpu-memory-utilization", "max-model-len",
    "max-num-seqs", "max-num-batched-tokens", "kv-cache-dtype", "quantization", "dtype",
    "enforce-eager", "enable-chunked-prefill", "block-size",
)  # fmt: skip

_STORED_SO = (
    "awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "modelopt",
)  # fmt: skip
"""Methods that look for a description beside the weights (get_config_filenames, 0.7.2 and
0.33.0); others can make the weights while they are loaded."""
_FAMILY = {
    "awq": "awq", "awq_marlin": "awq", "auto_awq": "awq", "gptq": "gptq", "gptq_marlin": "gptq",
    "auto_gptq": "gptq", "fp8": "fp8", "compressed-tensors": "compressed-tensors",
}  # fmt: skip

ShapeOf = Callable[[str], ModelShape]


def memory(server: Server, shape_of: ShapeOf) -> Iterator[Finding | Unknown]:
    """A server that cannot start for lack of memory; Unknown where that cannot be worked out."""
    model, gpu = server.launch.model, server.node.gpu
    if model is None or not server.complete:
        return
    if gpu is None:
        yield Unknown(
            subject=f"memory of {server.name}", reason="the GPUs it is for are not known",
            hint="name them: --gpu L40S:4",
        )  # fmt: skip
        return
    open_names = server.unresolved(*_PLANNED)
    if open_names:
        yield Unknown(
            subject=f"memory of {server.name}",
            reason=f"not given in the files read: {', '.join(open_names)}",
            hint="write the values, or give the file that sets them too",
        )
        return
    try:
        shape = shape_of(model)
        result = plan(shape, _request(server, gpu, believed=_refusal(server, shape) is None))
    except NodeprepError as error:
        yield Unknown(subject=f"memory of {server.name}", reason=error.message, hint=error.hint)
        return
    if not result.fits:
        ways = ", ".join(f"{name} {value}" for name, value in sorted(result.recommended.items()))
        yield say(
            server, "vllm-memory-does-not-fit", CRITICAL, model,
            f"{result.model} does not fit on {result.tensor_parallel}x {result.gpu} with vLLM "
            f"{result.vllm_version}: {result.limit}",
            cause="the memory plan of that release", do=f"try {ways}" if ways else "more GPUs",
            text=f"nodeprep plan {model}",
        )  # fmt: skip


def quantization(server: Server, shape_of: ShapeOf) -> Iterator[Finding]:
    """A method that the checkpoint's weights are not stored in: the engine refuses to load it."""
    model = server.launch.model
    if model is None or not server.complete or server.value("quantization") is None:
        return
    try:
        what = _refusal(server, shape_of(model))
    except NodeprepError:
        return
    if what is not None:
        yield say(
            server, "vllm-options-conflict", CRITICAL, "--quantization",
            f"--quantization {server.value('quantization')} with {model}: {what}",
            cause="the option names how the files are stored, and quantizes nothing by itself "
            "(config/model.py _verify_quantization, model_loader/weight_utils.py get_quant_config)",
            do="leave it out, or name the repository of the quantized checkpoint",
            line=server.line("quantization"),
        )  # fmt: skip


def _refusal(server: Server, shape: ModelShape) -> str | None:
    """Why a release does not load the checkpoint with that --quantization; None: it does."""
    asked = str(server.value("quantization") or "")
    if shape.quantization is None:
        return (
            "its weights are not quantized, and without a file that describes them the engine "
            "refuses to start"
            if asked in _STORED_SO
            else None
        )
    stored, wanted = _FAMILY.get(shape.quantization), _FAMILY.get(asked)
    if stored is None or wanted is None or stored == wanted:
        return None
    return f"its files are stored as {shape.quantization}, and the engine refuses another method"


def _request(server: Server, gpu: str, *, believed: bool) -> PlanRequest:
    """The question to the plan; `believed`: the checkpoint loads as --quantization says."""

    def text(name: str) -> str | None:
        value = server.value(name)
        return None if value is None or value == "auto" else str(value)

    share = server.value("gpu-memory-utilization")
    size = server.tensor_parallel
    return PlanRequest(
        vllm_version=server.version,
        gpu_name=gpu,
        gpu_count=max(server.node.count or size, size),
        tensor_parallel=size,
        gpu_memory_gib=server.node.memory_gib,
        gpu_memory_utilization=float(share) if isinstance(share, (int, float)) else None,
        max_model_len=server.number("max-model-len"),
        max_num_seqs=server.number("max-num-seqs"),
        max_num_batched_tokens=server.number("max-num-batched-tokens"),
        kv_cache_dtype=text("kv-cache-dtype"),
        quantization=text("quantization") if believed else None,
        dtype=text("dtype"),
        enforce_eager=server.value("enforce-eager") is True,
        chunked_prefill=server.value("enable-chunked-prefill") is not False,
        block_size=server.number("block-size"),
    )
