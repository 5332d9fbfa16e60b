"""`nodeprep lint`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click

from nodeprep.cli.options import PATH, session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, ParseError, UsageError
from nodeprep.lint.reading import read
from nodeprep.lint.run import lint
from nodeprep.lint.server import Node
from nodeprep.model.facts import Origin
from nodeprep.model.finding import Unknown
from nodeprep.model.launch import LaunchText, TextNote
from nodeprep.model.report import LintReport
from nodeprep.output.escape import safe
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
    an environment file, a systemd unit, a quadlet, a Markdown text with code in it, or a folder of
    these. Files that name each other, and files that a script writes, are read together.
    """
    paths = _all_files(files)
    texts = [(str(path), _read(path, given=path in files)) for path in paths]
    texts += [(str(one), _unread("no file in it")) for one in _without_files(files, paths)]
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
    if not (result.servers or result.findings or any(text.metrics for _, text in texts)):
        click.echo(f"nodeprep: {safe(_nothing(result.unknown))}", err=True)
        return Exit.ERROR
    return session.status_of(result.findings)


def _nothing(unknown: tuple[Unknown, ...]) -> str:
    first = unknown[0] if unknown else None
    why = f": {first.subject}: {first.reason}" if first is not None else ""
    more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    return f"nothing was checked, no vLLM server was found{why}{more}"


def _all_files(given: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        found += _entries(path) if path.is_dir() else [path]
    if len(found) > _MOST_FILES:
        raise UsageError(f"{len(found)} files", hint=f"name at most {_MOST_FILES}")
    return found


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder but hidden files and folders; broken links and pipes are told later."""
    try:
        return sorted(
            one for one in folder.iterdir() if not one.name.startswith(".") and not one.is_dir()
        )
    except OSError as error:
        raise UsageError(f"cannot read {folder}: {error.strerror}", hint="name files") from None


def _without_files(given: tuple[Path, ...], found: list[Path]) -> list[Path]:
    return [
        path
        for path in given
        if path not in found and not any(path in one.parents for one in found)
    ]


def _read(path: Path, *, given: bool) -> LaunchText:
    """What the file says; one that cannot be read, says why.  `given`: named by the user.

    Raises UsageError for a named file that cannot be opened.
    """
    try:
        content = _content(path)
        return read(decode(content), path.name)
    except OSError as error:
        if given:
            raise UsageError(f"cannot read {path}: {error.strerror}", hint="name a file") from None
        return _unread(f"cannot be read: {error.strerror}")
    except ParseError as error:
        return _unread(error.message)


def _content(path: Path) -> bytes:
    # Opening a pipe waits for its writer without O_NONBLOCK.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ParseError("it is no regular file")
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ParseError(f"it is over {_MAX_BYTES >> 20} MiB")
    return content


def _unread(reason: str) -> LaunchText:
    return LaunchText(launches=(), notes=(TextNote(line=None, kind="unread", text=reason),))


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
