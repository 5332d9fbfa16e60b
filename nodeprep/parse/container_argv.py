"""The command line of `docker run` and its kin: options, image, and what runs inside."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodeprep.model.base import Record
from nodeprep.model.launch import Container, Variable
from nodeprep.parse.dollar import may_be_words

_PROGRAMS = ("docker", "podman", "nerdctl")
_SWITCHES = {
    "detach", "rm", "init", "interactive", "tty", "privileged", "read-only", "publish-all",
    "no-healthcheck", "quiet", "oom-kill-disable", "disable-content-trust", "sig-proxy",
    "replace", "rmi", "no-hosts", "no-hostname", "tls-verify", "env-host", "http-proxy",
    "read-only-tmpfs", "debug", "rootfs",
}  # fmt: skip
_SHORT = {
    "d": "detach", "i": "interactive", "t": "tty", "p": "publish", "P": "publish-all",
    "e": "env", "v": "volume", "m": "memory", "u": "user", "w": "workdir", "h": "hostname",
    "l": "label", "c": "cpu-shares", "a": "attach", "q": "quiet",
}  # fmt: skip
_SAME = {"net": "network", "device-request": "gpus"}
_LONG = re.compile(r"--([a-z][a-z0-9-]*)(?:=(.*))?", re.DOTALL)


class ContainerRun(Record, frozen=True):
    container: Container
    env: tuple[Variable, ...]
    command: tuple[str, ...]
    lines: tuple[int, ...]
    """The line of each word of `command`."""


def find_run(words: Sequence[str]) -> int | None:
    """Where the options of `docker run` begin; None when the command is no such thing."""
    for at, word in enumerate(words):
        if word.rpartition("/")[2] not in _PROGRAMS:
            continue
        for further in range(at + 1, min(at + 12, len(words))):
            if words[further] in ("run", "create"):
                return further + 1
            if words[further] in ("exec", "compose", "build", "pull", "rm", "stop", "logs"):
                break
    return None


def read_run(words: Sequence[str], lines: Sequence[int], start: int) -> ContainerRun:
    """Everything after `run`."""
    options: dict[str, list[str]] = {}
    places: dict[str, list[int | None]] = {}
    open_words: list[str] = []
    at = start
    while at < len(words) and words[at] != "--":
        if may_be_words(words[at]) and at + 1 < len(words):
            open_words.append(words[at])
            at += 1
            continue
        if not words[at].startswith("-"):
            break
        found = _options(words, at)
        for name, value, _ in found:
            options.setdefault(name, []).append(value)
            places.setdefault(name, []).append(lines[at] if at < len(lines) else None)
        at += found[-1][2]
    if at < len(words) and words[at] == "--":
        at += 1
    container = Container(
        image=words[at] if at < len(words) else None,
        options={name: tuple(values) for name, values in options.items()},
        entrypoint=options["entrypoint"][-1] if "entrypoint" in options else None,
        line=lines[start - 1] if start - 1 < len(lines) else None,
        lines={name: tuple(found) for name, found in places.items()},
        # A script that is called without arguments hands none on.
        open_words=tuple(one for one in open_words if "@" not in one and "*" not in one),
    )
    given = zip(options.get("env", ()), places.get("env", ()), strict=True)
    return ContainerRun(
        container=container,
        env=tuple(_variable(text, line) for text, line in given),
        command=tuple(words[at + 1 :]),
        lines=tuple(lines[at + 1 :]),
    )


def _options(words: Sequence[str], at: int) -> list[tuple[str, str, int]]:
    """The options of one word: (long name, value, words used); short switches may be joined."""
    word = words[at]
    following = words[at + 1] if at + 1 < len(words) else ""
    long = _LONG.fullmatch(word)
    if long is not None:
        name = _SAME.get(long[1], long[1])
        if long[2] is not None:
            return [(name, long[2], 1)]
        return [(name, "true", 1)] if name in _SWITCHES else [(name, following, 2)]
    found: list[tuple[str, str, int]] = []
    for place, letter in enumerate(word[1:], 1):
        name = _SHORT.get(letter, letter)
        if name in _SWITCHES:
            found.append((name, "true", 1))
            continue
        rest = word[place + 1 :].lstrip("=")
        found.append((name, rest, 1) if rest else (name, following, 2))
        break
    return found or [(word.lstrip("-"), "true", 1)]


def _variable(text: str, line: int | None) -> Variable:
    name, equals, value = text.partition("=")
    return Variable(name=name[:200], value=value if equals else None, line=line)
