"""More ranks than GPUs: those of the node, and those that the text itself names; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodeprep.lint.ranges import is_unresolved
from nodeprep.lint.said import CRITICAL, say
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.model.launch import Container

_ID = "vllm-memory-does-not-fit"
_CDI = re.compile(r"nvidia\.com/gpu=([\w-]+)")
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NO_COUNT = ("all", "void", "none", "no", "nodocker")
_SEVERAL_NODES = ("nnodes", "data-parallel-address", "data-parallel-rank", "headless",
                  "data-parallel-start-rank", "data-parallel-external-lb")  # fmt: skip


def gpus(server: Server) -> Iterator[Finding]:
    """More ranks than GPUs, told once: by what the text names first."""
    ranks = _ranks(server)
    if ranks is None or not server.complete:
        return
    node = server.node.count
    for count, where in (*_named(server), *([(node, "")] if node is not None else [])):
        if ranks > count:
            named = f", which {where} names" if where else ""
            yield say(
                server, _ID, CRITICAL, "--tensor-parallel-size",
                f"{ranks} ranks on {count} GPU{'' if count == 1 else 's'}{named}",
                cause="each rank needs a GPU of its own",
                do=f"use --tensor-parallel-size {max(count, 1)} or less, or name more GPUs"
                if where
                else f"use --tensor-parallel-size {count} or less",
                line=server.line("tensor-parallel-size"),
            )  # fmt: skip
            return


def _ranks(server: Server) -> int | None:
    """The ranks of this node; None: not known, or spread over nodes."""
    sizes = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    backend = str(server.value("distributed-executor-backend") or "")
    if server.unresolved(*sizes) or backend in ("ray", "external_launcher"):
        return None
    if any(one in server.options for one in _SEVERAL_NODES):
        return None
    replicas = server.number("data-parallel-size-local") or server.number("data-parallel-size")
    return server.tensor_parallel * (server.number(sizes[1], 1) or 1) * (replicas or 1)


def _named(server: Server) -> Iterator[tuple[int, str]]:
    """Numbers of GPUs that the text names, with what names them."""
    box = server.container
    if box is not None:
        for value in box.options.get("gpus", ()):
            count = _asked(value)
            if count is not None:
                yield count, f"--gpus {value}"
        yield from _cdi(box)
    for name in _VISIBLE if box is not None else _VISIBLE[:1]:
        listed = server.env.get(name)
        if listed and not is_unresolved(listed) and listed.lower() not in _NO_COUNT:
            yield len([one for one in listed.split(",") if one.strip()]), f"{name}={listed[:60]}"


def _asked(value: str) -> int | None:
    """The GPUs of `--gpus`: `2`, `device=0,1`, `"device=0,1"`; None for all, and for variables."""
    plain = value.strip().strip("\"'")
    if is_unresolved(plain):
        return None
    if plain.isdecimal() and len(plain) < 5:
        return int(plain)
    name, _, listed = plain.partition("=")
    if name == "count" and listed.isdecimal() and len(listed) < 5:
        return int(listed)
    if name != "device" or listed.lower() in _NO_COUNT:
        return None
    return len([one for one in listed.strip("\"'").split(",") if one and "=" not in one]) or None


def _cdi(box: Container) -> Iterator[tuple[int, str]]:
    names = [one for value in box.options.get("device", ()) for one in _CDI.findall(value)]
    if names and "all" not in names:
        yield len(names), f"--device nvidia.com/gpu={names[0]}"
