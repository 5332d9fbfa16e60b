"""One GPU of a group that holds more memory than the others, and which process holds it."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import View
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.skew import Skew, SkewPart, skews
from nodeprep.units import show_bytes

_CAUSES = {
    "stray": "other ranks opened a context on this GPU as well",
    "others": "further processes use this GPU",
    "worker": "the worker of this GPU holds more than the others: an engine that gathers logits "
    "and samples on one rank (vLLM V0), or an uneven split of the model",
    "unlisted": "memory in use by no listed process: a display, another container, or what the "
    "driver keeps",
}
_REMEDIES = {
    "stray": "let every worker see its own GPU before it touches CUDA (CUDA_VISIBLE_DEVICES, "
    "torch.cuda.set_device); until then plan with the context of every rank on this GPU",
    "others": "find who owns these processes and move them",
    "worker": "the KV cache of all ranks is as small as that of this one: take an engine that "
    "samples on every rank (vLLM V1), or lower --max-num-seqs",
    "unlisted": "list processes as root on the host; move the display to another adapter",
}


@check("gpu0-memory-skew")
def memory_skew(view: View) -> Iterator[Finding]:
    """The least free GPU of a tensor-parallel group sets the KV cache of all of them."""
    for skew in skews(view.facts.gpus):
        first = skew.parts[0]
        yield Finding(
            id="gpu0-memory-skew",
            severity=Severity.WARNING,
            subject=f"GPU{skew.gpu}",
            summary=f"GPU{skew.gpu} holds {show_bytes(skew.difference_bytes)} more than its peers",
            cause=_CAUSES[first.kind],
            evidence=tuple(_evidence(skew)),
            remedy=Remedy(
                text=_REMEDIES[first.kind],
                commands=(
                    "nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory "
                    "--format=csv",
                ),
            ),
        )


def _evidence(skew: Skew) -> Iterator[Evidence]:
    yield Evidence(
        source=f"GPU{skew.gpu} memory in use",
        text=f"{show_bytes(skew.used_bytes)}, peers {show_bytes(skew.peers_bytes)}",
    )
    for part in skew.parts:
        if part.bytes > 0:
            yield Evidence(source="memory by process", text=_part(part))


def _part(part: SkewPart) -> str:
    names = {
        "stray": "contexts of other ranks",
        "others": "further processes",
        "worker": "the worker itself",
        "unlisted": "no listed process",
    }
    shown = ", ".join(map(str, part.pids[:8])) + (", ..." if len(part.pids) > 8 else "")
    pids = f" (pid {shown})" if shown else ""
    return f"{show_bytes(part.bytes)}: {names[part.kind]}{pids}"
