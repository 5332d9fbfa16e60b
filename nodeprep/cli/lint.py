"""`nodeprep lint`."""

from __future__ import annotations

from pathlib import Path

import click

from nodeprep.cli.options import PATH, session_options
from nodeprep.cli.session import Session
from nodeprep.errors import ParseError, UsageError
from nodeprep.lint.run import lint
from nodeprep.lint.server import Node
from nodeprep.model.facts import Origin
from nodeprep.model.launch import LaunchText
from nodeprep.model.report import LintReport
from nodeprep.parse.launch import read_launches
from nodeprep.parse.text import decode
from nodeprep.serving.architecture import capability_of
from nodeprep.shapes import shape_of
from nodeprep.stamp import stamp

_MAX_BYTES = 4 << 20
_MOST_FILES = 200


@click.command("lint")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=PATH)
@click.option("--vllm-version", metavar="V", help="Default: what an image tag says, else newest.")
@click.option("--gpu", metavar="NAME[:COUNT]", help="The GPUs it is for. Default: not known.")
@click.option("--gpu-memory-gib", type=float, metavar="X", help="Measured total of each, in GiB.")
@session_options()
def command(
    session: Session,
    files: tuple[Path, ...],
    vllm_version: str | None,
    gpu: str | None,
    gpu_memory_gib: float | None,
) -> int:
    """What is wrong with files that start a vLLM server.

    FILE: a configuration of vLLM (YAML, JSON), a script with docker or vllm lines, a compose file,
    an environment file, a systemd unit, or a folder of these. Files that name each other are read
    together.
    """
    texts = [(str(path), _read(path)) for path in _all_files(files)]
    result = lint(
        texts,
        shape_of=shape_of,
        version=vllm_version,
        node=_node(session, gpu, gpu_memory_gib),
    )
    session.emit(
        LintReport(
            **stamp("lint", None),
            findings=result.findings,
            unknown=result.unknown,
            files=tuple(path for path, _ in texts),
            servers=result.servers,
            vllm_version=result.version,
            version_source=result.version_source,
        )
    )
    return session.status_of(result.findings)


def _all_files(given: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            found += sorted(
                one for one in path.iterdir() if one.is_file() and not one.name.startswith(".")
            )
        else:
            found.append(path)
    if len(found) > _MOST_FILES:
        raise UsageError(f"{len(found)} files", hint=f"name at most {_MOST_FILES}")
    return found


def _read(path: Path) -> LaunchText:
    try:
        with path.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="name a file") from None
    if len(content) > _MAX_BYTES:
        raise ParseError(f"{path} is over {_MAX_BYTES >> 20} MiB", hint="keep what matters")
    try:
        return read_launches(decode(content), path.name)
    except ParseError as error:
        raise ParseError(f"{path}: {error.message}", hint=error.hint) from None


def _node(session: Session, gpu: str | None, memory_gib: float | None) -> Node:
    """The GPUs given, those of a recorded node, or nothing."""
    from nodeprep.memory.gpus import find_gpu

    if gpu is not None:
        name, _, count = gpu.partition(":")
        if count and not (count.isdecimal() and len(count) < 4):
            raise UsageError(f"--gpu {gpu[:60]!r}: {count[:20]!r} is no count", hint="as in L40S:4")
        row = find_gpu(name, memory_gib)
        return Node(
            gpu=name,
            count=int(count) if count else None,
            memory_gib=memory_gib,
            capability=capability_of(name),
            nvlink=row.nvlink if row.pattern else None,
        )
    return Node() if session.host.origin is Origin.LIVE else _node_of_facts(session)


def _node_of_facts(session: Session) -> Node:
    from nodeprep.facts.collect import collect
    from nodeprep.model.serving import Interconnect
    from nodeprep.serving.architecture import capability
    from nodeprep.serving.placement import interconnect

    facts = collect(session.host, session.settings.accelerators, names=False)
    if not facts.gpus:
        return Node()
    first = facts.gpus[0]
    link = interconnect(facts, facts.gpus)
    known = link not in (Interconnect.UNKNOWN, Interconnect.SINGLE)
    return Node(
        gpu=first.name,
        count=len(facts.gpus),
        capability=capability(first),
        nvlink=link is Interconnect.NVLINK if known else None,
    )
