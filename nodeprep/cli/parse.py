"""`nodeprep parse`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nodeprep.errors import Exit, UsageError


@click.command("parse")
@click.argument("kind")
@click.argument("file", metavar="FILE|-")
@click.option("--format", "form", type=click.Choice(["json"]), default="json", hidden=True)
def command(kind: str, file: str, form: str) -> int:  # noqa: ARG001
    """One pasted output to JSON; KIND names what it is, - reads standard input.

    Kinds: topo, p2p, lspci, lspci-tree, setpci, nccl, nccl-log, metrics, config-json, cmdline,
    nvidia-smi, dmesg.
    """
    from nodeprep.output.json import dump
    from nodeprep.parse.kinds import KINDS, parse_kind

    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind[:40]!r}", hint=f"known: {', '.join(KINDS)}")
    sys.stdout.buffer.write(dump(parse_kind(kind, _read(file))))
    return Exit.OK


def _read(file: str) -> bytes:
    """The bytes of the paste, and one more than is ever read where there are too many."""
    from nodeprep.parse.text import MAX_TEXT_BYTES

    try:
        if file == "-":
            return sys.stdin.buffer.read(MAX_TEXT_BYTES + 1)
        with Path(file).open("rb") as opened:
            return opened.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
