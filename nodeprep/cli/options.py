"""Options that several commands share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from nodeprep.cli.session import Session

Command = Callable[..., Any]


class Opening(NamedTuple):
    """A session that is opened when it is asked for, and the form of what is printed."""

    open: Callable[[], Session]
    format: str
    color: str
    live: bool
    """It will speak of this computer, not of a recording or a tree."""
    run_dir: Path | None


class _PathType(click.Path):
    """A path that is not empty: `-o "$UNSET"` must not mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) == "":
            self.fail("an empty path", param, ctx)
        if len(os.fsencode(value)) > _MAX_PATH or any(
            len(part) > _MAX_NAME for part in os.fsencode(value).split(b"/")
        ):
            self.fail("a path longer than the system takes", param, ctx)
        return super().convert(value, param, ctx)


_MAX_PATH, _MAX_NAME = 4000, 255
PATH = _PathType(path_type=Path)


class _Busbw(click.FloatRange):
    """GB/s; nan and inf are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail("not a number", param, ctx)
        return number


BUSBW = _Busbw(min=0, min_open=True, max=1e6)


_GPU_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


def gpu_list(text: str) -> tuple[int, ...]:
    """Indices of GPUs, `0,1` or `0-3`: each once, in rising order.  Raises BadParameter."""
    found: set[int] = set()
    for part in text.split(","):
        match = _GPU_RANGE.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise click.BadParameter(f"not a list of GPUs: {part[:40]!r}; write 0,1,2,3 or 0-3")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))


_FORMATS = ("auto", "text", "brief", "json")
_COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="NO_COLOR is honoured too.",
)


def _format(*further: str) -> Callable[[Command], Command]:
    return click.option(
        "--format",
        type=click.Choice([*_FORMATS, *further]),
        default="auto",
        show_default=True,
        help="auto: text on a terminal, brief elsewhere.",
    )


_SOURCE = (
    click.option("--machine", metavar="NAME", help="A recorded machine that ships (see machines)."),
    click.option("--snapshot", type=PATH, metavar="FILE", help="A snapshot of a node."),
    click.option(
        "--sysfs-root", type=PATH, metavar="DIR", help="A tree like /sys/bus/pci: DIR/devices/..."
    ),
    click.option(
        "--config", type=PATH, metavar="FILE", help="Default: /etc/nodeprep/config.toml."
    ),
    click.option(
        "--state-dir", type=PATH, metavar="DIR",
        help="Default: /var/lib/nodeprep; in replay a private folder of this machine and user.",
    ),
    click.option("--run-dir", type=PATH, metavar="DIR", help="Default: /run/nodeprep."),
    click.option(
        "--fail-on",
        type=click.Choice(["warning", "critical", "never"]),
        default="critical",
        show_default=True,
        help="Exit 3 when a finding is at or over this.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show every program that is run."),
)  # fmt: skip


def output_options(function: Command) -> Command:
    """--format and --color."""
    return _with(function, (_format(), _COLOR))


def session_options(
    *, formats: tuple[str, ...] = (), later: bool = False
) -> Callable[[Command], Command]:
    """All common options; the command gets them as one `session`.

    formats: further values that --format takes for this command.
    later: the command gets an Opening instead, and decides whether it needs a session at all.
    """

    def decorate(function: Command) -> Command:
        @wraps(function)
        def opened(
            machine: str | None,
            snapshot: Path | None,
            sysfs_root: Path | None,
            config: Path | None,
            state_dir: Path | None,
            run_dir: Path | None,
            format: str,
            color: str,
            fail_on: str,
            verbose: bool,
            **rest: Any,
        ) -> Any:
            opening = partial(
                _open,
                {"machine": machine, "snapshot": snapshot, "sysfs_root": sysfs_root},
                config=config,
                state_dir=state_dir,
                run_dir=run_dir,
                format=format,
                color=color,
                fail_on=fail_on,
                verbose=verbose,
            )
            if later:
                live = machine is None and snapshot is None and sysfs_root is None
                return function(session=Opening(opening, format, color, live, run_dir), **rest)
            return function(session=opening(), **rest)

        return _with(opened, (*_SOURCE, _format(*formats), _COLOR))

    return decorate


def _open(source: dict[str, Any], **chosen: Any) -> Session:
    from nodeprep.cli.session import Source, open_session

    return open_session(Source(**source), **chosen)


def _with(function: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function
