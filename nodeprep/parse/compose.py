"""Compose files: the services in the terms of `docker run`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nodeprep.model.base import Record
from nodeprep.model.launch import Container, Variable
from nodeprep.parse.dollar import filled
from nodeprep.parse.shell_words import split_words
from nodeprep.parse.yaml_tree import Tree

_AS_THEY_ARE = {
    "ipc": "ipc", "shm_size": "shm-size", "network_mode": "network", "pid": "pid", "user": "user",
    "restart": "restart", "runtime": "runtime", "cap_drop": "cap-drop", "cap_add": "cap-add",
    "security_opt": "security-opt", "tmpfs": "tmpfs", "devices": "device",
}  # fmt: skip
_SWITCHES = {"privileged": "privileged", "read_only": "read-only", "init": "init"}
_LISTED = {"publish": "ports", "volume": "volumes", "env-file": "env_file"}
_KEYS = {option: key for key, option in _AS_THEY_ARE.items()} | _LISTED
"""The compose key of an option, where it has another name."""
_MOST_SERVICES = 64
_LONGEST = 1 << 16
_NOBODY: dict[str, str] = {}


class ComposeService(Record, frozen=True):
    name: str
    container: Container
    env: tuple[Variable, ...]
    command: tuple[str, ...]
    """The words of the entry point, then those of the command."""
    lines: tuple[int, ...]
    """The line of each word of `command`."""
    line: int | None


def read_services(tree: Tree) -> tuple[ComposeService, ...]:
    """The services of a compose file; a service that is no mapping is left out."""
    services = tree.value.get("services") if isinstance(tree.value, dict) else None
    if not isinstance(services, dict):
        return ()
    return tuple(
        _service(str(name), body, tree)
        for name, body in list(services.items())[:_MOST_SERVICES]
        if isinstance(body, dict)
    )


def unread_of_services(tree: Tree) -> tuple[tuple[int, str], ...]:
    """What stands under `services` and is none, and why it was not read."""
    services = tree.value.get("services") if isinstance(tree.value, dict) else None
    if not isinstance(services, dict):
        return ((tree.line("services") or 1, "services is no mapping of names to services"),)
    found = [
        (tree.line("services", str(name)) or 1, f"the service {str(name)[:60]} is no mapping")
        for name, body in list(services.items())[:_MOST_SERVICES]
        if not isinstance(body, dict)
    ]
    if len(services) > _MOST_SERVICES:
        found.append((1, f"only the first {_MOST_SERVICES} services were read"))
    return tuple(found)


def _service(name: str, body: dict[Any, Any], tree: Tree) -> ComposeService:
    options: dict[str, list[str]] = {}
    places: dict[str, int | None] = {}
    for key, option in _AS_THEY_ARE.items():
        if body.get(key) is not None:
            options[option] = [_undollar(one) for one in _texts(body[key])]
            places[option] = tree.line("services", name, key)
    for key, option in _SWITCHES.items():
        if isinstance(body.get(key), bool):
            options[option] = ["true" if body[key] else "false"]
            places[option] = tree.line("services", name, key)
    options["publish"] = list(_ports(body.get("ports")))
    options["volume"] = list(_volumes(body.get("volumes")))
    options["env-file"] = list(_env_files(body.get("env_file")))
    gpus = _gpus(body)
    if gpus:
        options["gpus"] = [gpus]
    for option, key in _LISTED.items():
        places[option] = tree.line("services", name, key)
    line = tree.line("services", name)
    entrypoint = _words(body.get("entrypoint"))
    command = _words(body.get("command"))
    container = Container(
        image=_undollar(str(body["image"])) if body.get("image") else None,
        options={key: tuple(values) for key, values in options.items() if values},
        entrypoint=_entrypoint(body, entrypoint),
        line=line,
        lines={
            option: _lines(
                tree, ("services", name, _KEYS.get(option, option)), len(values), places[option]
            )
            for option, values in options.items()
            if values and option in places
        },
    )
    return ComposeService(
        name=name,
        container=container,
        env=tuple(_variables(body.get("environment"), tree, name)),
        command=(*entrypoint, *command),
        lines=tuple(
            one or line or 1
            for key, words in (("entrypoint", entrypoint), ("command", command))
            for one in _lines(
                tree, ("services", name, key), len(words), tree.line("services", name, key)
            )
        ),
        line=line,
    )


def _entrypoint(body: dict[Any, Any], words: tuple[str, ...]) -> str | None:
    """The program; empty where an empty list takes the image's own away."""
    if words:
        return words[0]
    return None if body.get("entrypoint") is None else ""


def _lines(
    tree: Tree, path: tuple[str, ...], count: int, otherwise: int | None
) -> tuple[int | None, ...]:
    """The line of each entry of a list; that of its key where there is no list."""
    return tuple(tree.line(*path, str(place)) or otherwise for place in range(count))


def _env_files(value: Any) -> Iterator[str]:
    """Names of files; `-` before one that may be missing."""
    for one in _listed(value):
        if isinstance(one, dict):
            optional = "-" if one.get("required") is False else ""
            yield _undollar(f"{optional}{one.get('path', '')}")
        else:
            yield _undollar(str(one))


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _texts(value: Any) -> list[str]:
    return [str(one) for one in _listed(value)]


def _undollar(text: str) -> str:
    """What compose makes of dollars: `$$` is one, `${X:-4}` is 4 where nobody sets X."""
    return filled(text, _NOBODY.get, double=True, longest=_LONGEST)


def _words(value: Any) -> tuple[str, ...]:
    """A command in either form: a list, or a line that compose splits as a shell would."""
    if isinstance(value, str):
        return split_words(_undollar(value))
    return tuple(_undollar(one) for one in _texts(value))


def _ports(value: Any) -> Iterator[str]:
    """Short and long syntax as the value of --publish."""
    for one in _listed(value):
        if isinstance(one, dict):
            host = str(one.get("host_ip") or "")
            place = f"[{host}]:" if ":" in host else f"{host}:" if host else ""
            yield _undollar(f"{place}{one.get('published', '')}:{one.get('target', '')}")
        else:
            yield _undollar(str(one))


def _volumes(value: Any) -> Iterator[str]:
    for one in _listed(value):
        if isinstance(one, dict):
            yield f"{one.get('source', '')}:{one.get('target', '')}"
        else:
            yield str(one)


def _gpus(body: dict[Any, Any]) -> str | None:
    """Whether the service asks for GPUs, in any of the ways there are."""
    if body.get("gpus"):
        return str(body["gpus"])
    deploy: Any = body
    for key in ("deploy", "resources", "reservations", "devices"):
        deploy = deploy.get(key) if isinstance(deploy, dict) else None
    for device in _listed(deploy):
        if isinstance(device, dict) and "gpu" in str(device.get("capabilities", "")):
            ids = device.get("device_ids")
            return f"device={','.join(_texts(ids))}" if ids else str(device.get("count", "all"))
    return None


def _variables(value: Any, tree: Tree, service: str) -> Iterator[Variable]:
    path = ("services", service, "environment")
    if isinstance(value, dict):
        for name, content in value.items():
            line = tree.line(*path, str(name)[:200]) or tree.line(*path)
            text = None if content is None else _undollar(_scalar(content))
            yield Variable(name=str(name)[:200], value=text, line=line)
    else:
        for place, one in enumerate(_texts(value)):
            name, equals, content = one.partition("=")
            line = tree.line(*path, str(place)) or tree.line(*path)
            yield Variable(name=name[:200], value=_undollar(content) if equals else None, line=line)


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
