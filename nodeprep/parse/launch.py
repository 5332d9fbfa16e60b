"""Any text that starts a vLLM server: what kind it is, and every server in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from nodeprep.errors import ParseError
from nodeprep.model.base import Record
from nodeprep.model.launch import Form, Launch, LaunchText, TextNote, Variable
from nodeprep.parse.compose import ComposeService, read_services, unread_of_services
from nodeprep.parse.launch_command import Read, from_command, inside
from nodeprep.parse.markdown import Block, code_blocks
from nodeprep.parse.placing import moved, moved_notes
from nodeprep.parse.quadlet import read_quadlet, unread_of_quadlet
from nodeprep.parse.shell_words import Command, Document, Script, read_shell
from nodeprep.parse.text import MAX_LINE, clean_text
from nodeprep.parse.unit_file import (
    exec_words,
    looks_like_env_file,
    read_env_file,
    read_unit,
    unit_variables,
    unread_of_unit,
)
from nodeprep.parse.vllm_argv import OptionTable
from nodeprep.parse.vllm_config import is_config, read_config
from nodeprep.parse.yaml_tree import Tree, read_json, read_yaml

_METRIC = re.compile(r"\bvllm:[a-z][a-z0-9_]{2,80}")
_RENDERED = re.compile(r"Rendered by nodeprep for .{1,400}?: vLLM (\d[\w.+-]{0,40}),")
_COMMAND_SIGNS = re.compile(
    r"\b(?:docker|podman|nerdctl)\b.{0,400}?\b(?:run|create)\b|\bvllm serve\b|\bvllm bench\b"
    r"|\bapi_server\b",
    re.DOTALL,
)
_SHEBANG = re.compile(r"#!\s*/\S*(?:sh|env)\b")
_SERVICES = re.compile(r"^services\s*:", re.MULTILINE)
_SECTION = re.compile(r"^\[(Service|Container)\]", re.MULTILINE)
_OBJECT = re.compile(r"^[ \t]*\{[ \t]*\n(?:[^{}]|\{[^{}]*\})*?^[ \t]*\}", re.MULTILINE)
_USED = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_HANDED_ON = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]{0,200})(?:=|: ?)[\"']?\$\{?\1\b")
_MOST_METRICS = 200
_MOST_OBJECTS = 20
_MOST_LAUNCHES = 200
_DEEPEST = 3
_PROGRAMS = (".py", ".js", ".ts", ".go", ".rs", ".pl", ".html")
"""Files in languages whose words are no command lines."""
_ENGINE = ("NCCL_", "VLLM_", "PYTORCH_", "CUDA_", "HF_")
_NOT_A_CONFIG = "it is no vLLM configuration: none of its keys is an option of `vllm serve`"
_ENDINGS = {
    "bash": ".sh", "sh": ".sh", "shell": ".sh", "zsh": ".sh", "console": ".sh",
    "shell-session": ".sh", "yaml": ".yaml", "yml": ".yaml", "json": ".json", "ini": "",
    "systemd": ".service", "text": "", "txt": "", "": "", "dotenv": ".env", "env": ".env",
}  # fmt: skip
"""What the language of a code block says of its content; the blocks of others are not read."""


class _Reading(Record, frozen=True):
    """How a text is read."""

    table: OptionTable | None
    depth: int = 0
    """How many here-documents and code blocks it lies in."""

    def deeper(self) -> _Reading:
        return replace(self, depth=self.depth + 1)


_Reader = Callable[[str, _Reading], Read]


def read_launches(text: str, name: str, table: OptionTable | None = None) -> LaunchText:
    """Every server a file describes; `name` helps where the content could be two things.

    `table`: the options of `vllm serve`; None: what an option takes is guessed from its name.
    Raises ParseError for a text that is too long, or that cannot be read as what its name says.
    """
    too_long = [
        (number, f"a line of over {MAX_LINE:,} characters was not read")
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MAX_LINE
    ][:_MOST_OBJECTS]
    text = clean_text(text)
    reading = _Reading(table=table)
    launches, notes = _reader(text, name)(text, reading) if text.strip() else ([], [])
    if len(launches) > _MOST_LAUNCHES:
        notes += _unread([(1, f"only the first {_MOST_LAUNCHES} servers of it were checked")])
        launches = launches[:_MOST_LAUNCHES]
    metrics = tuple(_metrics(text))
    if metrics:
        notes = [one for one in notes if one.text != _NOT_A_CONFIG]
    notes += _unread(too_long)
    notes += _unread(
        (line or 1, f"{word[:80]} belongs to no option, and a server has one model")
        for launch in launches
        for word, line in launch.stray[:_MOST_OBJECTS]
    )
    if not (launches or notes or metrics):
        why = "no vLLM server was recognised in it" if text.strip() else "it is empty"
        notes.append(TextNote(line=None, kind="unread", text=why))
    rendered = _RENDERED.search(text[:8192])
    return LaunchText(
        launches=_with_uses(launches, text),
        notes=tuple(dict.fromkeys(notes)),
        metrics=metrics,
        rendered_version=rendered[1] if rendered else None,
    )


def _with_uses(launches: list[Launch], text: str) -> tuple[Launch, ...]:
    """The servers with those of their variables that the text itself makes use of."""
    used = set(_USED.findall(_HANDED_ON.sub("", text)))
    return tuple(
        replace(one, uses=tuple(dict.fromkeys(var.name for var in one.env if var.name in used)))
        for one in launches
    )


def _unread(found: Iterable[tuple[int | None, str]]) -> list[TextNote]:
    return [TextNote(line=line, kind="unread", text=reason) for line, reason in found]


def _reader(text: str, name: str) -> _Reader:
    """By the name's ending first where it is sure, by the content otherwise."""
    for ending, reader in _BY_ENDING.items():
        if name.endswith(ending):
            return reader
    if text.lstrip().startswith("{"):
        return _json
    if _SHEBANG.match(text) or name.endswith((".sh", ".bash")):
        return _shell
    if _SERVICES.search(text):
        return _compose
    if name.endswith((".yaml", ".yml")):
        return _yaml
    section = _SECTION.search(text)
    if section is not None:
        return _unit if section[1] == "Service" else _quadlet
    if name.endswith(".env") or looks_like_env_file(text):
        return _env_file
    return _shell if _COMMAND_SIGNS.search(text) else _guess


def _unit(text: str, reading: _Reading) -> Read:
    entries = read_unit(text)
    variables = unit_variables(entries)
    files = tuple(one.value for one in entries if one.key == "EnvironmentFile" and one.value)
    launches, notes = [], _unread(unread_of_unit(text, entries))
    for entry in entries:
        if entry.key not in ("ExecStart", "ExecStartPre"):
            continue
        words, lines = exec_words(entry, variables)
        command = Command(words=words, line=entry.line, lines=lines)
        made, said = from_command(command, variables, reading.table)
        launches += [
            replace(one, form=Form.UNIT if one.container is None else one.form) for one in made
        ]
        notes += said
    if files:
        launches = [
            replace(one, env_files=files) if one.container is None else one for one in launches
        ]
    return launches, notes


def _quadlet(text: str, reading: _Reading) -> Read:
    entries = read_unit(text)
    notes = _unread(unread_of_quadlet(entries))
    run = read_quadlet(entries)
    if run is None:
        return [], notes
    found = inside(run.container, run.env, run.command, run.lines, Form.CONTAINER, reading.table)
    return list(found), notes


def _json(text: str, reading: _Reading) -> Read:
    return _config(read_json(text), Form.JSON, reading)


def _config(tree: Tree, form: Form, reading: _Reading) -> Read:
    """A configuration of vLLM; what has none of its keys is another program's file."""
    if isinstance(tree.value, dict) and not is_config(tree, reading.table):
        return [], _unread([(None, _NOT_A_CONFIG)])
    return [read_config(tree, form)], []


def _yaml(text: str, reading: _Reading) -> Read:
    tree = read_yaml(text)
    if isinstance(tree.value, dict) and "services" in tree.value:
        return _compose(text, reading)
    if isinstance(tree.value, dict) and {"groups", "apiVersion"} & set(tree.value):
        return [], []  # alert rules, Kubernetes: only names of metrics are looked at
    return _config(tree, Form.YAML, reading)


def _compose(text: str, reading: _Reading) -> Read:
    tree = read_yaml(text)
    found = [
        one for service in read_services(tree) for one in _from_service(service, reading.table)
    ]
    return found, _unread(unread_of_services(tree))


def _from_service(service: ComposeService, table: OptionTable | None) -> Iterator[Launch]:
    yield from inside(
        service.container, service.env, service.command, service.lines, Form.COMPOSE, table
    )


def _env_file(text: str, _: _Reading) -> Read:
    return [Launch(form=Form.ENV_FILE, env=read_env_file(text), line=1)], []


def _guess(text: str, reading: _Reading) -> Read:
    """YAML by content; a text of another kind says nothing of a server."""
    try:
        tree = read_yaml(text)
    except ParseError:
        return [], []
    if isinstance(tree.value, dict) and all(isinstance(key, str) for key in tree.value):
        return _config(tree, Form.YAML, reading)
    return [], []


def _shell(text: str, reading: _Reading) -> Read:
    script = read_shell(text)
    notes = [
        TextNote(line=line, kind="blank-after-backslash", text="\\ ")
        for line in script.broken_continuations
    ] + _unread(script.unread)
    exported: list[Variable] = []
    launches: list[Launch] = list(_objects(_without_documents(text, script), reading))
    for command in script.commands:
        if command.exported:
            exported += [Variable(name=a, value=b, line=command.line) for a, b in command.env]
            continue
        made, said = from_command(command, tuple(exported), reading.table)
        launches += made
        notes += said
    alone = tuple(one for one in exported if one.name.startswith(_ENGINE))
    if alone and not any(one.form is Form.COMMAND for one in launches):
        launches.append(Launch(form=Form.ENV_FILE, env=alone, line=alone[0].line))
    for document in script.documents:
        made, said = _document(document, reading)
        launches += made
        notes += said
    return launches, notes


def _without_documents(text: str, script: Script) -> str:
    lines = text.split("\n")
    for first, last in script.here_lines:
        lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(lines)


def _document(document: Document, reading: _Reading) -> Read:
    """A here-document as the file that it becomes; lines are those of the script."""
    if (document.name or "").endswith(_PROGRAMS):
        return [], []
    if reading.depth >= _DEEPEST:
        return [], _unread([(document.line, "a here-document this deep in others was not read")])
    name = "script.sh" if document.name is None else document.name.rpartition("/")[2]
    launches, notes = _part(document.text, document.line, name, reading)
    if "vllm" not in document.text.lower():
        notes = []
    if document.name is None:
        return launches, notes
    return [
        one if one.written_as else replace(one, written_as=document.name) for one in launches
    ], notes


def _part(text: str, line: int, name: str, reading: _Reading) -> Read:
    """A text that lies in another one, from a line of that one on."""
    if not text.strip():
        return [], []
    try:
        launches, notes = _reader(text, name)(text, reading.deeper())
    except ParseError as error:
        return [], _unread([(line, error.message)])
    notes = [one for one in notes if one.text != _NOT_A_CONFIG]
    return [moved(one, line - 1) for one in launches], moved_notes(notes, line - 1)


def _markdown(text: str, reading: _Reading) -> Read:
    launches: list[Launch] = []
    notes: list[TextNote] = []
    for block in code_blocks(text):
        if block.language not in _ENDINGS or reading.depth >= _DEEPEST:
            continue
        made, said = _block(block, reading)
        launches += made
        notes += said if made else []
    return launches, notes


def _block(block: Block, reading: _Reading) -> Read:
    ending = _ENDINGS[block.language]
    if ending == ".sh" and not _COMMAND_SIGNS.search(block.text):
        return [], []
    return _part(block.text, block.line, f"block{ending}", reading)


def _objects(text: str, reading: _Reading) -> Iterator[Launch]:
    """JSON objects that stand in a text between its command lines."""
    for count, match in enumerate(_OBJECT.finditer(text)):
        if count >= _MOST_OBJECTS:
            return
        try:
            tree = read_json(match[0])
            launch = read_config(tree, Form.JSON)
        except ParseError:
            continue
        if is_config(tree, reading.table, besides=("model",)) and (
            launch.model is not None or len(launch.options) > 2
        ):
            yield moved(launch, text.count("\n", 0, match.start()))


def _metrics(text: str) -> Iterator[tuple[str, int]]:
    """Each name once, where it stands first."""
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        for match in _METRIC.finditer(line):
            if match[0] not in seen and len(seen) < _MOST_METRICS:
                seen.add(match[0])
                yield match[0], number


_BY_ENDING: dict[str, _Reader] = {
    ".container": _quadlet, ".service": _unit, ".md": _markdown, ".markdown": _markdown,
    ".json": _json,
}  # fmt: skip
