"""The servers that one command starts: directly, by way of `bash -c`, or in a container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nodeprep.model.launch import Container, Form, Given, Launch, TextNote, Variable
from nodeprep.parse.container_argv import find_run, read_run
from nodeprep.parse.shell_words import Command, read_shell
from nodeprep.parse.vllm_argv import find_server, is_benchmark, read_arguments

Read = tuple[list[Launch], list[TextNote]]

_SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "dash")
_WRAPPED_DEEPEST = 3


def from_command(command: Command, before: tuple[Variable, ...]) -> Read:
    """The servers that one command starts, and what is to be said of it."""
    words = command.words
    notes: list[TextNote] = []
    if is_benchmark(words):
        notes.append(TextNote(line=command.line, kind="bench", text="vllm bench"))
    own = tuple(Variable(name=a, value=b, line=command.line) for a, b in command.env)
    start = find_run(words)
    if start is not None:
        run = read_run(words, command.lines, start)
        return list(inside(run.container, run.env, run.command, run.lines, Form.CONTAINER)), notes
    return list(_server(words, command.lines, before + own, 0)), notes


def _server(
    words: Sequence[str], lines: Sequence[int], env: tuple[Variable, ...], depth: int
) -> Iterator[Launch]:
    """A server started without a container, also by way of `bash -c`."""
    found = find_server(words)
    if found is None:
        yield from _wrapped(words, lines, env, depth)
        return
    entry, at = found
    inline = tuple(
        Variable(name=name, value=value, line=lines[0] if lines else None)
        for name, equals, value in (word.partition("=") for word in words[:at])
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name)
    )
    argv = read_arguments(words[at:], lines[at:], entry=entry)
    yield _launch(Form.COMMAND, argv.entry, argv.model, argv.options, env + inline, None, lines)


def _wrapped(
    words: Sequence[str], lines: Sequence[int], env: tuple[Variable, ...], depth: int
) -> Iterator[Launch]:
    """`bash -c "..."`: the text is read as a script of its own."""
    if depth >= _WRAPPED_DEEPEST or not any(one in _SHELLS for one in words):
        return
    for word, flag in zip(words[1:], words, strict=False):
        if re.fullmatch(r"-[a-z]*c", flag):
            for command in read_shell(word).commands:
                place = (lines[0] if lines else 1,) * len(command.words)
                yield from _server(command.words, place, env, depth + 1)


def inside(
    container: Container,
    env: tuple[Variable, ...],
    command: Sequence[str],
    lines: Sequence[int],
    form: Form,
) -> Iterator[Launch]:
    """What runs in a container: a server named, or the arguments of the image's own."""
    words = list(command)
    if container.entrypoint and form is not Form.COMPOSE:
        words = [*container.entrypoint.split(), *words]
        lines = [*lines[:1], *lines] if len(container.entrypoint.split()) == 1 else lines
    found = find_server(words)
    if found is not None:
        entry, at = found
        argv = read_arguments(words[at:], lines[at:], entry=entry)
    elif any(one in _SHELLS for one in words):
        for launch in _wrapped(words, lines, env, 0):
            yield replace(launch, form=form, container=container, env=env + launch.env)
        return
    elif _is_engine(container.image, words):
        argv = read_arguments(words, lines, entry="image")
    else:
        return
    place = [container.line] if container.line else list(lines)
    yield _launch(form, argv.entry, argv.model, argv.options, env, container, place)


def _is_engine(image: str | None, words: Sequence[str]) -> bool:
    return "vllm" in (image or "").lower() or any(
        word.startswith(("--tensor-parallel", "--max-model-len", "--gpu-memory-util"))
        for word in words
    )


def _launch(
    form: Form,
    entry: str | None,
    model: str | None,
    options: tuple[Given, ...],
    env: tuple[Variable, ...],
    container: Container | None,
    lines: Sequence[int | None],
) -> Launch:
    named = next((str(one.value) for one in options if one.plain == "model"), None)
    config = next((str(one.value) for one in options if one.plain == "config"), None)
    return Launch(
        form=form,
        line=lines[0] if lines else None,
        options=tuple(one for one in options if one.plain not in ("model", "config")),
        env=env,
        container=container,
        env_files=() if container is None else container.options.get("env-file", ()),
        model=named or model,
        entry=entry,
        config_file=config,
        has_model_option=named is not None,
    )
