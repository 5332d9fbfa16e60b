"""`nodeprep plan`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import asdict, replace

from nodeprep.cli.options import Opening, session_options
from nodeprep.cli.printing import emit
from nodeprep.errors import Exit, UsageError
from nodeprep.memory.plan import plan
from nodeprep.memory.versions import newest_version
from nodeprep.model.memory import ModelShape, PlanRequest
from nodeprep.shapes import shape_of
from nodeprep.stamp import stamp


@click.command("plan")
@click.argument("model")
@click.argument("axes", nargs=-1, metavar="[AXIS=VALUES]...")
@click.option("--gpu", metavar="NAME[:COUNT]", help="Plan for these GPUs instead of a node's.")
@click.option("--gpu-memory-gib", type=float, help="Measured total of each GPU, in GiB.")
@click.option("--tp", type=int, help="Tensor-parallel size. Default: all GPUs.")
@click.option("--vllm-version", metavar="V", help="Default: the newest release known.")
@click.option("--gpu-memory-utilization", type=float)
@click.option("--max-model-len", type=int, help="Tokens of one request.")
@click.option("--max-num-seqs", type=int)
@click.option("--max-num-batched-tokens", type=int)
@click.option("--kv-cache-dtype", metavar="TYPE", help="auto, fp8, fp8_e4m3...")
@click.option("--quantization", metavar="NAME", help="As vLLM or config.json names it.")
@click.option("--dtype", metavar="TYPE")
@click.option("--enforce-eager", is_flag=True, help="No CUDA graphs.")
@click.option("--no-chunked-prefill", is_flag=True)
@click.option("--params-billion", type=float, help="10^9 parameters, where the shape misleads.")
@click.option("--usage", type=click.Choice(["server", "offline"]), default="server")
@click.option("--concurrency", type=int, help="Requests wanted at once; advises a length for them.")
@click.option(
    "--flashinfer/--no-flashinfer", default=None, help="Installed beside vLLM, as in its images."
)
@click.option("--sweep", multiple=True, metavar="AXIS=VALUES", help="tp=1,2,4 kv-cache-dtype=...")
@click.option("--explain", is_flag=True, help="Each formula with its numbers and its source.")
@session_options(later=True)
def command(
    session: Opening,
    model: str,
    axes: tuple[str, ...],
    gpu: str | None,
    tp: int | None,
    no_chunked_prefill: bool,
    sweep: tuple[str, ...],
    explain: bool,
    **given: Any,
) -> int:
    """vLLM memory per rank, KV tokens, sequences, and the knobs that follow.

    MODEL is a name of the catalogue, or the path of a config.json or of a model folder.  With
    --sweep every combination is planned: --sweep tp=1,2,4,8 kv-cache-dtype=auto,fp8.
    """
    if axes and not sweep:
        raise UsageError(f"{axes[0][:60]!r} without --sweep", hint="--sweep tp=1,2,4")
    if sweep and explain:
        raise UsageError("--explain with --sweep", hint="explain one plan: leave --sweep out")
    shape = shape_of(model)
    request = _request(session, gpu or _swept_gpu((*sweep, *axes)), tp, given)
    request = replace(request, chunked_prefill=not no_chunked_prefill)
    if sweep:
        return _sweep(session, shape, request, (*sweep, *axes), counted=gpu is None or ":" in gpu)
    return _one(session, shape, request, explained=explain)


def _one(session: Opening, shape: ModelShape, request: PlanRequest, *, explained: bool) -> int:
    from nodeprep.model.plan_report import PlanReport

    result = plan(shape, request)
    if explained:
        from nodeprep.memory.explain import explain

        result = replace(result, steps=explain(shape, request))
    emit(PlanReport(**stamp("plan", None), **asdict(result)), session.format, session.color)
    return Exit.OK if result.fits else Exit.FINDINGS


def _sweep(
    session: Opening,
    shape: ModelShape,
    request: PlanRequest,
    texts: tuple[str, ...],
    *,
    counted: bool,
) -> int:
    """OK when any combination fits.  GPUs whose number was not said are as many as are needed."""
    from nodeprep.memory.gpus import find_gpu
    from nodeprep.memory.sweep import MOST_GPUS, parse_axes, sweep
    from nodeprep.model.plan_report import SweepReport

    axes = parse_axes(texts)
    _refuse_twice(axes)
    if not counted:
        request = replace(request, gpu_count=MOST_GPUS)
    rows = sweep(shape, request, axes)
    report = SweepReport(
        **stamp("sweep", None),
        model=shape.name,
        gpu=find_gpu(request.gpu_name, request.gpu_memory_gib).name,
        vllm_version=request.vllm_version,
        axes=axes,
        rows=rows,
    )
    emit(report, session.format, session.color)
    return Exit.OK if any(one.fits for one in rows) else Exit.FINDINGS


def _refuse_twice(axes: Iterable[str]) -> None:
    """One option cannot have a value and an axis.  `--gpu` may: it says how many there are."""
    source = click.get_current_context().get_parameter_source
    for name in axes:
        if name != "gpu" and source(name.replace("-", "_")) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name} and --sweep {name}=", hint="leave one of them out")


def _swept_gpu(texts: tuple[str, ...]) -> str | None:
    """The first GPU of an axis `gpu=`, which no node needs to be asked for."""
    axis = next((one for one in texts if one.startswith("gpu=")), "")
    return axis.removeprefix("gpu=").partition(",")[0] or None


def _request(
    session: Opening, gpu: str | None, tp: int | None, given: dict[str, Any]
) -> PlanRequest:
    asked = {name: value for name, value in given.items() if value is not None}
    if gpu is None:
        return _request_of_node(session, tp, asked)
    name, _, count = gpu.partition(":")
    if count and not count.isdecimal():
        raise UsageError(f"--gpu {gpu[:60]!r}: {count[:20]!r} is no count", hint="as in L40S:4")
    cards = int(count) if count else 1 if tp is None else tp
    size = cards if tp is None else tp
    asked.setdefault("vllm_version", newest_version())
    return PlanRequest(gpu_name=name, gpu_count=cards, tensor_parallel=size, **asked)


def _request_of_node(session: Opening, tp: int | None, asked: dict[str, Any]) -> PlanRequest:
    from nodeprep.facts.collect import collect
    from nodeprep.memory.request import busy_gib, request_for

    opened = session.open()
    facts = collect(opened.host, opened.settings.accelerators, names=False)
    if not facts.gpus:
        raise UsageError("no GPU here to plan for", hint="name them: --gpu L40S:4")
    request = request_for(facts, opened.settings.serving)
    size = request.tensor_parallel if tp is None else tp
    return replace(request, tensor_parallel=size, busy_gib=busy_gib(facts), **asked)
