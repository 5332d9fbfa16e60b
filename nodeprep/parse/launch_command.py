"""The servers that one command starts: directly, by way of `bash -c`, or in a container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nodeprep.model.launch import Container, Form, Launch, TextNote, Variable
from nodeprep.parse.container_argv import find_run, read_run
from nodeprep.parse.shell_words import SHELLS, Command, read_shell
from nodeprep.parse.vllm_argv import (
    OptionTable,
    ServerArgv,
    find_server,
    is_benchmark,
    only_speaks,
    read_arguments,
)

Read = tuple[list[Launch], list[TextNote]]

_WRAPPED_DEEPEST = 3
_WRAPPED_MOST = 50
"""Texts handed to shells that one command may lead to."""
_RUNS_TEXT = re.compile(r"-[a-z]*c")


def from_command(
    command: Command, before: tuple[Variable, ...], table: OptionTable | None = None
) -> Read:
    """The servers that one command starts, and what is to be said of it."""
    words = command.words
    notes: list[TextNote] = []
    if only_speaks(words):
        return [], notes
    if is_benchmark(words):
        notes.append(TextNote(line=command.line, kind="bench", text="vllm bench"))
    own = tuple(Variable(name=a, value=b, line=command.line) for a, b in command.env)
    start = find_run(words)
    if start is not None:
        run = read_run(words, command.lines, start)
        found = inside(run.container, run.env, run.command, run.lines, Form.CONTAINER, table)
        return list(found), notes
    return list(_server(words, command.lines, before + own, 0, table, [_WRAPPED_MOST])), notes


def _server(
    words: Sequence[str],
    lines: Sequence[int],
    env: tuple[Variable, ...],
    depth: int,
    table: OptionTable | None,
    left: list[int],
) -> Iterator[Launch]:
    """A server started without a container, also by way of `bash -c`."""
    found = find_server(words)
    if found is None:
        yield from _wrapped(words, lines, env, depth, table, left)
        return
    entry, at = found
    inline = tuple(
        Variable(name=name, value=value, line=lines[0] if lines else None)
        for name, equals, value in (word.partition("=") for word in words[:at])
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name)
    )
    argv = read_arguments(words[at:], lines[at:], entry=entry, table=table)
    yield _launch(Form.COMMAND, argv, env + inline, None, lines)


def _wrapped(
    words: Sequence[str],
    lines: Sequence[int],
    env: tuple[Variable, ...],
    depth: int,
    table: OptionTable | None,
    left: list[int],
) -> Iterator[Launch]:
    """`bash -c "..." NAME WORD...`: the text is read as a script, with the words as its `$@`.

    `left`: how many such texts may still be read.
    """
    if depth >= _WRAPPED_DEEPEST or not any(one in SHELLS for one in words):
        return
    for at, flag in enumerate(words[:-1]):
        if not _RUNS_TEXT.fullmatch(flag):
            continue
        if left[0] <= 0:
            return
        left[0] -= 1
        exported: list[Variable] = []
        places = dict(zip(words[at + 2 :], lines[at + 2 :], strict=False))
        first = lines[0] if lines else 1
        known = {one.name: one.value for one in env if one.value is not None}
        for command in read_shell(words[at + 1], words[at + 2 :], known).commands:
            own = [Variable(name=a, value=b, line=None) for a, b in command.env]
            if command.exported:
                exported += own
                continue
            place = tuple(places.get(word, first) for word in command.words)
            variables = (*env, *exported, *(own if command.words else ()))
            yield from _server(command.words, place, variables, depth + 1, table, left)
        return


def inside(
    container: Container,
    env: tuple[Variable, ...],
    command: Sequence[str],
    lines: Sequence[int],
    form: Form,
    table: OptionTable | None = None,
) -> Iterator[Launch]:
    """What runs in a container: a server named, or the arguments of the image's own."""
    words = list(command)
    if container.entrypoint and form is not Form.COMPOSE:
        words = [*container.entrypoint.split(), *words]
        lines = [*lines[:1], *lines] if len(container.entrypoint.split()) == 1 else lines
    found = find_server(words)
    if found is not None:
        entry, at = found
        argv = read_arguments(words[at:], lines[at:], entry=entry, table=table)
    elif any(one in SHELLS for one in words):
        for launch in _wrapped(words, lines, env, 0, table, [_WRAPPED_MOST]):
            yield replace(launch, form=form, container=container, env_files=_env_files(container))
        return
    elif _is_engine(container.image, words):
        argv = read_arguments(words, lines, entry="image", table=table)
    else:
        return
    place = [container.line] if container.line else list(lines)
    yield _launch(form, argv, env, container, place)


def _is_engine(image: str | None, words: Sequence[str]) -> bool:
    return "vllm" in (image or "").lower() or any(
        word.startswith(("--tensor-parallel", "--max-model-len", "--gpu-memory-util"))
        for word in words
    )


def _env_files(container: Container) -> tuple[str, ...]:
    return container.options.get("env-file", ())


def _launch(
    form: Form,
    argv: ServerArgv,
    env: tuple[Variable, ...],
    container: Container | None,
    lines: Sequence[int | None],
) -> Launch:
    named = next((str(one.value) for one in argv.options if one.plain == "model"), None)
    config = next((str(one.value) for one in argv.options if one.plain == "config"), None)
    return Launch(
        form=form,
        line=lines[0] if lines else None,
        options=tuple(one for one in argv.options if one.plain not in ("model", "config")),
        env=env,
        container=container,
        env_files=() if container is None else _env_files(container),
        model=named or argv.model,
        positional=argv.model if named is not None else None,
        entry=argv.entry,
        config_file=config,
        has_model_option=named is not None,
        open_words=argv.open_words,
        stray=argv.stray,
    )
