"""The command line of a vLLM server: its model and its options, as they were written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from nodeprep.model.base import Record
from nodeprep.model.launch import Given
from nodeprep.model.serving import KnobValue

_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_NUMBER = re.compile(r"-\d")
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_LONGEST = 4096

# Options that never take a value in any release: a word after them is not theirs.
_BARE = re.compile(
    r"(?:no|enable|disable|enforce|trust|calculate|skip|show|use|return|async)-[a-z0-9-]+"
)
_NOT_BARE = ("enable-log", "use-tqdm", "disable-mm-preprocessor-cache")


class ServerArgv(Record, frozen=True):
    entry: str | None
    model: str | None
    options: tuple[Given, ...]


def find_server(words: Sequence[str]) -> tuple[str, int] | None:
    """How a command starts a server, and where its arguments begin; None when it does not."""
    for at, word in enumerate(words):
        program = word.rpartition("/")[2]
        if program == "vllm" and at + 1 < len(words) and words[at + 1] == "serve":
            return "serve", at + 2
        if word in _MODULES and at > 0 and words[at - 1] == "-m":
            return "module", at + 1
        if program == "api_server.py":
            return "module", at + 1
    return None


def is_benchmark(words: Sequence[str]) -> bool:
    """`vllm bench ...`, wherever it stands in the command."""
    return any(
        word.rpartition("/")[2] == "vllm" and following == "bench"
        for word, following in pairwise(words)
    )


def read_arguments(
    words: Sequence[str], lines: Sequence[int] = (), *, entry: str | None
) -> ServerArgv:
    """Options and model from the arguments of a server."""
    options: list[Given] = []
    model: str | None = None
    at = 0
    while at < len(words):
        word, line = words[at], lines[at] if at < len(lines) else None
        at += 1
        if not _OPTION.match(word):
            model = model or word
            continue
        name, equals, inline = word.lstrip("-").partition("=")
        if equals:
            options.append(Given(name=name[:200], value=value_of(inline), line=line, spelled=True))
            continue
        taken = _values(words, at, name)
        options.append(Given(name=name[:200], value=_joined(taken), line=line, spelled=bool(taken)))
        at += len(taken)
    return ServerArgv(entry=entry, model=model, options=_marked(options))


def _values(words: Sequence[str], at: int, name: str) -> tuple[str, ...]:
    """The words that belong to an option: what follows and is no option itself."""
    bare = _BARE.fullmatch(name.replace("_", "-")) and not name.startswith(_NOT_BARE)
    if at >= len(words) or (bare and words[at].lower() not in ("true", "false")):
        return ()
    end = at
    while end < len(words) and not _is_option(words[end]):
        end += 1
    # Only the last option can have swallowed a model; several values are a list.
    return tuple(words[at:end])


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.match(word)


def _joined(words: tuple[str, ...]) -> KnobValue:
    if not words:
        return True
    return value_of(words[0]) if len(words) == 1 else " ".join(words)[:_LONGEST]


def value_of(text: str) -> KnobValue:
    """A word as the value it means: whole number, number, or the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?\d{1,18}\.\d{0,18}(?:[eE][+-]?\d{1,3})?|-?\d{1,18}[eE][+-]?\d{1,3}", text):
        return float(text)
    return text[:_LONGEST]


def _marked(options: list[Given]) -> tuple[Given, ...]:
    """An option said again further down loses: the last one counts."""
    from msgspec.structs import replace

    last = {one.plain: number for number, one in enumerate(options)}
    return tuple(
        replace(one, twice=True) if last[one.plain] != number else one
        for number, one in enumerate(options)
    )
