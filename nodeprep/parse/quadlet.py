"""Quadlets of podman (`*.container`): a unit whose `[Container]` is a `podman run` in other words.

The keys are those of podman-systemd.unit(5).
"""

from __future__ import annotations

from nodeprep.model.launch import Container
from nodeprep.parse.container_argv import ContainerRun, read_run
from nodeprep.parse.shell_words import split_words
from nodeprep.parse.unit_file import Entry, exec_words, unit_variables

_SECTION = "Container"
_OPTIONS = {
    "PublishPort": "publish", "AddDevice": "device", "AddCapability": "cap-add",
    "DropCapability": "cap-drop", "Network": "network", "ShmSize": "shm-size", "Volume": "volume",
    "Mount": "mount", "Tmpfs": "tmpfs", "User": "user", "EnvironmentFile": "env-file",
    "UserNS": "userns", "Pod": "pod", "Ulimit": "ulimit", "Secret": "secret",
}  # fmt: skip
_SWITCHES = {"ReadOnly": "read-only", "RunInit": "init", "EnvironmentHost": "env-host"}
_TRUE = ("true", "yes", "on", "1")


def read_quadlet(entries: tuple[Entry, ...]) -> ContainerRun | None:
    """The container that a quadlet runs; None without a `[Container]`."""
    own = [one for one in entries if one.section == _SECTION]
    if not own:
        return None
    options: dict[str, list[str]] = {}
    places: dict[str, list[int | None]] = {}
    for name, value, line in (*_given(own), *_podman_args(own)):
        options.setdefault(name, []).append(value)
        places.setdefault(name, []).append(line)
    command = next((one for one in reversed(own) if one.key == "Exec"), None)
    words, lines = exec_words(command, prefixed=False) if command is not None else ((), ())
    container = Container(
        image=_last(own, "Image"),
        options={name: tuple(values) for name, values in options.items()},
        entrypoint=_last(own, "Entrypoint"),
        line=next((one.line for one in own if one.key == "Image"), own[0].line),
        lines={name: tuple(found) for name, found in places.items()},
    )
    return ContainerRun(container=container, env=unit_variables(own), command=words, lines=lines)


def unread_of_quadlet(entries: tuple[Entry, ...]) -> tuple[tuple[int, str], ...]:
    """What a quadlet lacks that is needed to say what it runs."""
    image = next((one for one in entries if one.section == _SECTION and one.key == "Image"), None)
    if image is None:
        return ((1, "no Image= in a [Container] of it"),)
    if image.value.endswith((".image", ".build")):
        return ((image.line, f"{image.value[:80]} says which image it is, and was not read"),)
    return ()


def _given(own: list[Entry]) -> list[tuple[str, str, int | None]]:
    """The options of `podman run` that the keys stand for."""
    found: list[tuple[str, str, int | None]] = []
    for one in own:
        if one.key in _OPTIONS:
            listed = split_words(one.value) if one.key.endswith("Capability") else (one.value,)
            found += [(_OPTIONS[one.key], value, one.line) for value in listed]
        elif one.key in _SWITCHES and one.value.lower() in _TRUE:
            found.append((_SWITCHES[one.key], "true", one.line))
        elif one.key == "NoNewPrivileges" and one.value.lower() in _TRUE:
            found.append(("security-opt", "no-new-privileges", one.line))
        elif one.key == "SecurityLabelDisable" and one.value.lower() in _TRUE:
            found.append(("security-opt", "label=disable", one.line))
        elif one.key == "SeccompProfile":
            found.append(("security-opt", f"seccomp={one.value}", one.line))
    return found


def _podman_args(own: list[Entry]) -> list[tuple[str, str, int | None]]:
    """`PodmanArgs=` holds options as they stand on the command line."""
    found: list[tuple[str, str, int | None]] = []
    for one in own:
        if one.key == "PodmanArgs":
            words = split_words(one.value)
            box = read_run(words, (one.line,) * len(words), 0).container
            found += [
                (name, value, one.line) for name in box.options for value in box.options[name]
            ]
    return found


def _last(own: list[Entry], key: str) -> str | None:
    return next((one.value for one in reversed(own) if one.key == key), None)
