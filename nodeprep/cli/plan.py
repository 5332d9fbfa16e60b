"""`nodeprep plan`."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import asdict, replace

from nodeprep.cli.options import session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, UsageError
from nodeprep.memory.plan import plan
from nodeprep.memory.request import request_for
from nodeprep.memory.versions import newest_version
from nodeprep.model.memory import PlanRequest
from nodeprep.model.report import PlanReport
from nodeprep.shapes import shape_of
from nodeprep.stamp import stamp


@click.command("plan")
@click.argument("model")
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
@session_options()
def command(
    session: Session,
    model: str,
    gpu: str | None,
    tp: int | None,
    no_chunked_prefill: bool,
    **given: Any,
) -> int:
    """vLLM memory per rank, KV tokens, sequences, and the knobs that follow.

    MODEL is a name of the catalogue, or the path of a config.json or of a model folder.
    """
    shape = shape_of(model)
    request = _request(session, gpu, tp, given)
    request = replace(request, chunked_prefill=not no_chunked_prefill)
    result = plan(shape, request)
    session.emit(PlanReport(**stamp("plan", None), **asdict(result)))
    return Exit.OK if result.fits else Exit.FINDINGS


def _request(
    session: Session, gpu: str | None, tp: int | None, given: dict[str, Any]
) -> PlanRequest:
    asked = {name: value for name, value in given.items() if value is not None}
    if gpu is None:
        return _request_of_node(session, tp, asked)
    name, _, count = gpu.partition(":")
    if count and not count.isdecimal():
        raise UsageError(f"--gpu {gpu[:60]!r}: {count[:20]!r} is no count", hint="as in L40S:4")
    cards = int(count or tp or 1)
    asked.setdefault("vllm_version", newest_version())
    return PlanRequest(gpu_name=name, gpu_count=cards, tensor_parallel=tp or cards, **asked)


def _request_of_node(session: Session, tp: int | None, asked: dict[str, Any]) -> PlanRequest:
    from nodeprep.facts.collect import collect

    facts = collect(session.host, session.settings.accelerators, names=False)
    if not facts.gpus:
        raise UsageError("no GPU here to plan for", hint="name them: --gpu L40S:4")
    request = request_for(facts, session.settings.serving)
    return replace(request, tensor_parallel=tp or request.tensor_parallel, **asked)
