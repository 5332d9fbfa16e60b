"""The command line: commands load when they are used; only `main` ends the process."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from importlib import import_module
from itertools import pairwise
from typing import Any, NoReturn

import click

from nodeprep import __version__
from nodeprep.errors import EXIT_MEANINGS, Exit, NodeprepError

_COMMANDS = {
    "bringup": "the boot run: audit, free GPU paths, measure, plan memory, render, report",
    "audit": "facts and findings of this node, read only",
    "explain": "the path between two GPUs hop by hop, or a finding by its id",
    "snapshot": "record everything nodeprep can read into one portable file",
    "acs": "free GPU paths of ACS redirection: plan, apply, verify, restore, persist",
    "watch": "daemon: lost GPUs, ACS redirection that comes back, an honest ready stamp",
    "gate": "run nccl-tests and judge the bandwidth",
    "plan": "vLLM memory per rank, KV tokens, and the knobs that follow",
    "render": "vLLM configuration, environment, docker and systemd files",
    "lint": "what is wrong with a vLLM configuration, docker line, compose file or unit",
    "parse": "one pasted output to JSON",
    "machines": "the recorded machines that ship",
    "schema": "the JSON schema of a document",
}

_STATUSES = "\n".join(f"  {status.value:>2}  {EXIT_MEANINGS[status]}" for status in Exit)
_EPILOG = f"""\b
Exit statuses:
{_STATUSES}

\b
Try it without a GPU and without root:
  nodeprep bringup --machine l40s-acs -o ./rendered
"""


class _LazyGroup(click.Group):
    """Knows every command by name and help line, and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"nodeprep.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="nodeprep %(version)s")
def group() -> None:
    """From power-on to safe to register in the load balancer."""


def main() -> NoReturn:
    """Runs one command and ends the process with a documented status."""
    _standard_streams()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _end)
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        status = _answer_lost(error)
    sys.exit(status)


def _standard_streams() -> None:
    """Streams that were closed lead nowhere, and no character is too foreign to be printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end(_number: int, _frame: object) -> NoReturn:
    """Being told to end is like an interrupt from the keyboard: children end, writes roll back."""
    raise KeyboardInterrupt


def _answer_lost(error: OSError) -> int:
    """The answer could not be printed: the reader of a pipe went away, or the disk is full."""
    # What is left in the buffer must not be written again when the interpreter ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        with contextlib.suppress(OSError):
            click.echo(f"nodeprep: cannot write the answer: {error.strerror or error}", err=True)
    return Exit.ERROR


def _run(arguments: list[str]) -> int:
    try:
        result: Any = group.main(arguments, prog_name="nodeprep", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return Exit.USAGE
    except click.UsageError as error:
        return _fail(arguments, Exit.USAGE, error.format_message(), _usage_hint(error))
    except click.ClickException as error:
        return _fail(arguments, Exit.ERROR, error.format_message(), "")
    except NodeprepError as error:
        return _fail(arguments, error.status, error.message, error.hint)
    except (click.Abort, KeyboardInterrupt):
        return _fail(arguments, Exit.ERROR, "interrupted", "")
    return result if isinstance(result, int) else Exit.OK


def _usage_hint(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx is not None else "nodeprep"
    return f"see: {command} --help"


def _fail(arguments: list[str], status: Exit, message: str, hint: str) -> int:
    """One clear line on stderr; with --format json also the document, on stdout."""
    from nodeprep.output.escape import safe

    with contextlib.suppress(OSError):
        click.echo(f"nodeprep: {safe(message)}{f' ({safe(hint)})' if hint else ''}", err=True)
    if _wants_json(arguments):
        from nodeprep.model.report import ErrorReport
        from nodeprep.output.json import dump
        from nodeprep.stamp import stamp

        report = ErrorReport(
            **stamp("error", None),
            error=message,
            hint=hint,
            status=int(status),
            name=status.name.lower().replace("_", "-"),
        )
        sys.stdout.buffer.write(dump(report))
    return status


def _wants_json(arguments: list[str]) -> bool:
    """Whether --format json was asked for, also where the arguments could not be parsed."""
    return "--format=json" in arguments or ("--format", "json") in pairwise(arguments)
