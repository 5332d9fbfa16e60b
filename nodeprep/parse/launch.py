"""Any text that starts a vLLM server: what kind it is, and every server in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from nodeprep.errors import ParseError
from nodeprep.model.launch import Form, Launch, LaunchText, TextNote, Variable
from nodeprep.parse.compose import ComposeService, read_services, unread_of_services
from nodeprep.parse.launch_command import Read, from_command, inside
from nodeprep.parse.shell_words import Command, read_shell
from nodeprep.parse.text import MAX_LINE, clean_text
from nodeprep.parse.unit_file import (
    exec_words,
    looks_like_env_file,
    read_env_file,
    read_unit,
    unit_variables,
    unread_of_unit,
)
from nodeprep.parse.vllm_config import read_config
from nodeprep.parse.yaml_tree import read_json, read_yaml

_METRIC = re.compile(r"\bvllm:[a-z][a-z0-9_]{2,80}")
_RENDERED = re.compile(r"Rendered by nodeprep for .{1,400}?: vLLM (\d[\w.+-]{0,40}),")
_COMMAND_SIGNS = re.compile(r"\b(?:docker|podman|nerdctl)\b.*\b(?:run|create)\b|\bvllm serve\b|"
                            r"\bvllm bench\b|\bapi_server\b", re.DOTALL)  # fmt: skip
_SHEBANG = re.compile(r"#!\s*/\S*(?:sh|env)\b")
_SERVICES = re.compile(r"^services\s*:", re.MULTILINE)
_OBJECT = re.compile(r"^[ \t]*\{[ \t]*\n(?:[^{}]|\{[^{}]*\})*?^[ \t]*\}", re.MULTILINE)
_MOST_METRICS = 200
_MOST_OBJECTS = 20
_ENGINE = ("NCCL_", "VLLM_", "PYTORCH_", "CUDA_", "HF_")


def read_launches(text: str, name: str) -> LaunchText:
    """Every server a file describes; `name` helps where the content could be two things.

    Raises ParseError for a text that is too long, or that cannot be read as what its name says.
    """
    too_long = [
        (number, f"a line of over {MAX_LINE:,} characters was not read")
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MAX_LINE
    ][:_MOST_OBJECTS]
    text = clean_text(text)
    reader = _reader(text, name)
    launches, notes = reader(text) if text.strip() else ([], [])
    metrics = tuple(_metrics(text))
    notes += _unread(too_long)
    if not (launches or notes or metrics):
        why = "no vLLM server was recognised in it" if text.strip() else "it is empty"
        notes.append(TextNote(line=None, kind="unread", text=why))
    rendered = _RENDERED.search(text[:8192])
    return LaunchText(
        launches=tuple(launches),
        notes=tuple(notes),
        metrics=metrics,
        rendered_version=rendered[1] if rendered else None,
    )


def _unread(found: Iterable[tuple[int, str]]) -> list[TextNote]:
    return [TextNote(line=line, kind="unread", text=reason) for line, reason in found]


def _reader(text: str, name: str) -> Callable[[str], Read]:
    """By the name's ending first where it is sure, by the content otherwise."""
    if name.endswith((".service", ".container")) or re.search(r"^\[Service\]", text, re.MULTILINE):
        return _unit
    if name.endswith(".json") or text.lstrip().startswith("{"):
        return _json
    if _SHEBANG.match(text) or name.endswith((".sh", ".bash")):
        return _shell
    if _SERVICES.search(text):
        return _compose
    if name.endswith((".yaml", ".yml")):
        return _yaml
    if name.endswith(".env") or looks_like_env_file(text):
        return _env_file
    return _shell if _COMMAND_SIGNS.search(text) else _guess


def _unit(text: str) -> Read:
    entries = read_unit(text)
    variables = unit_variables(entries)
    files = tuple(one.value.lstrip("-") for one in entries if one.key == "EnvironmentFile")
    launches, notes = [], _unread(unread_of_unit(text, entries))
    for entry in entries:
        if entry.key not in ("ExecStart", "ExecStartPre"):
            continue
        words = exec_words(entry.value)
        command = Command(words=words, line=entry.line, lines=(entry.line,) * len(words))
        made, said = from_command(command, variables)
        launches += [
            replace(one, form=Form.UNIT if one.container is None else one.form) for one in made
        ]
        notes += said
    if files:
        launches = [
            replace(one, env_files=files) if one.container is None else one for one in launches
        ]
    return launches, notes


def _json(text: str) -> Read:
    return [read_config(read_json(text), Form.JSON)], []


def _yaml(text: str) -> Read:
    tree = read_yaml(text)
    if isinstance(tree.value, dict) and "services" in tree.value:
        return _compose(text)
    if isinstance(tree.value, dict) and {"groups", "apiVersion"} & set(tree.value):
        return [], []  # alert rules, Kubernetes: only names of metrics are looked at
    return [read_config(tree, Form.YAML)], []


def _compose(text: str) -> Read:
    tree = read_yaml(text)
    launches = [one for service in read_services(tree) for one in _from_service(service)]
    return launches, _unread(unread_of_services(tree))


def _from_service(service: ComposeService) -> Iterator[Launch]:
    lines = (service.command_line or service.line or 1,) * len(service.command)
    yield from inside(service.container, service.env, service.command, lines, Form.COMPOSE)


def _env_file(text: str) -> Read:
    return [Launch(form=Form.ENV_FILE, env=read_env_file(text), line=1)], []


def _guess(text: str) -> Read:
    """YAML by content; a text of another kind says nothing of a server."""
    try:
        tree = read_yaml(text)
    except ParseError:
        return [], []
    if isinstance(tree.value, dict) and all(isinstance(key, str) for key in tree.value):
        return [read_config(tree, Form.YAML)], []
    return [], []


def _shell(text: str) -> Read:
    script = read_shell(text)
    notes = [
        TextNote(line=line, kind="blank-after-backslash", text="\\ ")
        for line in script.broken_continuations
    ] + _unread(script.unread)
    exported: list[Variable] = []
    launches: list[Launch] = list(_objects(text))
    for command in script.commands:
        if command.exported:
            exported += [Variable(name=a, value=b, line=command.line) for a, b in command.env]
            continue
        made, said = from_command(command, tuple(exported))
        launches += made
        notes += said
    alone = tuple(one for one in exported if one.name.startswith(_ENGINE))
    if alone and not any(one.form is Form.COMMAND for one in launches):
        launches.append(Launch(form=Form.ENV_FILE, env=alone, line=alone[0].line))
    return launches, notes


def _objects(text: str) -> Iterator[Launch]:
    """JSON objects that stand in a text between its command lines."""
    for count, match in enumerate(_OBJECT.finditer(text)):
        if count >= _MOST_OBJECTS:
            return
        try:
            launch = read_config(read_json(match[0]), Form.JSON)
        except ParseError:
            continue
        if launch.model is not None or len(launch.options) > 2:
            above = text.count("\n", 0, match.start())
            moved = tuple(
                replace(one, line=None if one.line is None else one.line + above)
                for one in launch.options
            )
            yield replace(launch, options=moved, line=above + 1)


def _metrics(text: str) -> Iterator[tuple[str, int]]:
    """Each name once, where it stands first."""
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        for match in _METRIC.finditer(line):
            if match[0] not in seen and len(seen) < _MOST_METRICS:
                seen.add(match[0])
                yield match[0], number
