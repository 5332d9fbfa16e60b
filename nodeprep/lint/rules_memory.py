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
        result = plan(shape_of(model), _request(server, gpu))
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


def _request(server: Server, gpu: str) -> PlanRequest:
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
        quantization=text("quantization"),
        dtype=text("dtype"),
        enforce_eager=server.value("enforce-eager") is True,
        chunked_prefill=server.value("enable-chunked-prefill") is not False,
        block_size=server.number("block-size"),
    )


def gpus(server: Server) -> Iterator[Finding]:
    """More ranks than GPUs."""
    count = server.node.count
    ranks = server.tensor_parallel * (server.number("pipeline-parallel-size", 1) or 1)
    if count is not None and server.complete and ranks > count:
        yield say(
            server, "vllm-memory-does-not-fit", CRITICAL, "--tensor-parallel-size",
            f"{ranks} ranks on {count} GPUs", cause="each rank needs a GPU of its own",
            do=f"use --tensor-parallel-size {count} or less",
            line=server.line("tensor-parallel-size"),
        )  # fmt: skip
