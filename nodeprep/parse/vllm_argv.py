"""The command line of a vLLM server: its model and its options, as they were written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from nodeprep.model.base import Record
from nodeprep.model.launch import Given
from nodeprep.model.serving import KnobValue
from nodeprep.parse.dollar import may_be_words

_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_0-9]+|\{[^{}]*\})")
_NUMBER = re.compile(r"-\d")
_MODULES = {
    "vllm.entrypoints.openai.api_server": "module",
    "vllm.entrypoints.api_server": "demo",
}
_LONGEST = 4096

_GUESSED_BARE = re.compile(
    r"(?:no|enable|disable|enforce|trust|calculate|skip|show|use|return|async)-[a-z0-9-]+"
)
_NOT_BARE = ("enable-log", "use-tqdm", "disable-mm-preprocessor-cache")
"""How an option looks that takes no value, and three that look so: for names no release has."""
_LISTS = (
    "api-key", "collect-detailed-traces", "cuda-graph-sizes", "cudagraph-capture-sizes",
    "ignore-patterns", "kv-cache-dtype-skip-layers", "logits-processors", "lora-modules",
    "numa-bind-cpus", "numa-bind-nodes", "prompt-adapters", "served-model-name",
    "sleep-preserve-parameter-names",
)  # fmt: skip
"""Options that take several words (nargs in engine/arg_utils.py and openai/cli_args.py)."""
_TALKERS = (
    "echo", "printf", "logger", "grep", "egrep", "pgrep", "pkill", "killall", "which", "type",
    "man", "pip", "pip3", "apt", "apt-get", "usage:", "Usage:", "usage", "Usage",
)  # fmt: skip
"""Programs that only speak of a server, and the heads of their usage texts."""


class OptionTable(Record, frozen=True):
    """What is known of the options of `vllm serve`, all releases together."""

    takes: dict[str, bool]
    """Every spelling, without leading dashes -> whether a value follows it in some release."""

    def takes_value(self, name: str) -> bool | None:
        """None for a name that no release has."""
        plain = name.replace("_", "-")
        return self.takes.get(plain, self.takes.get(plain.partition(".")[0]))

    def knows(self, name: str) -> bool:
        return self.takes_value(name.lstrip("-")) is not None


class ServerArgv(Record, frozen=True):
    entry: str | None
    model: str | None
    options: tuple[Given, ...]
    open_words: tuple[tuple[str, int | None], ...] = ()
    stray: tuple[tuple[str, int | None], ...] = ()


def find_server(words: Sequence[str]) -> tuple[str, int] | None:
    """How a command starts a server, and where its arguments begin; None when it does not.

    A command that prints such words, and one that asks for help, starts none.
    """
    if only_speaks(words):
        return None
    for at, word in enumerate(words):
        program = word.rpartition("/")[2]
        if program == "vllm" and at + 1 < len(words) and words[at + 1] == "serve":
            return _unless_help("serve", words, at + 2)
        entry = _MODULES.get(word) if at > 0 and words[at - 1] == "-m" else None
        if program == "api_server.py":
            entry = "demo" if word.endswith("entrypoints/api_server.py") else "module"
        if entry is not None:
            return _unless_help(entry, words, at + 1)
    return None


def only_speaks(words: Sequence[str]) -> bool:
    """Whether a command prints its words, or looks for them, instead of doing what they say."""
    return not words or words[0].rpartition("/")[2] in _TALKERS


def _unless_help(entry: str, words: Sequence[str], at: int) -> tuple[str, int] | None:
    asked = any(one in ("-h", "--help", "[-h]") or one.startswith("--help=") for one in words[at:])
    return None if asked else (entry, at)


def is_benchmark(words: Sequence[str]) -> bool:
    """`vllm bench ...`, wherever it stands in the command."""
    return any(
        word.rpartition("/")[2] == "vllm" and following == "bench"
        for word, following in pairwise(words)
    )


def read_arguments(
    words: Sequence[str],
    lines: Sequence[int] = (),
    *,
    entry: str | None,
    table: OptionTable | None = None,
) -> ServerArgv:
    """Options and model from the arguments of a server.

    `table`: what options there are; None: whether one takes a value is guessed from its name.
    """
    options: list[Given] = []
    alone: list[tuple[str, int | None]] = []
    at = 0
    while at < len(words):
        word, line = words[at], lines[at] if at < len(lines) else None
        at += 1
        if not _OPTION.match(word):
            alone.append((word, line))
            continue
        name, equals, inline = word.lstrip("-").partition("=")
        if equals:
            options.append(Given(name=name[:200], value=value_of(inline), line=line, spelled=True))
            continue
        taken = _values(words, at, name, table)
        options.append(Given(name=name[:200], value=_joined(taken), line=line, spelled=bool(taken)))
        at += len(taken)
    return _argv(entry, _marked(options), alone)


def _argv(
    entry: str | None, options: tuple[Given, ...], alone: list[tuple[str, int | None]]
) -> ServerArgv:
    """The words that no option took: one is the model, a variable may be any options."""
    named = any(one.plain == "model" for one in options)
    model: str | None = None
    open_words: list[tuple[str, int | None]] = []
    stray: list[tuple[str, int | None]] = []
    for word, line in alone:
        variable = _VARIABLE.fullmatch(word) is not None
        if may_be_words(word) or (variable and (named or model is not None)):
            open_words.append((word, line))
        elif model is None and word not in ("", "--"):
            model = word
        elif word not in ("", "--"):
            stray.append((word[:200], line))
    return ServerArgv(
        entry=entry, model=model, options=options,
        open_words=tuple(open_words), stray=tuple(stray),
    )  # fmt: skip


def _values(words: Sequence[str], at: int, name: str, table: OptionTable | None) -> tuple[str, ...]:
    """The words that belong to an option: what follows and is no option itself."""
    plain = name.replace("_", "-")
    takes = None if table is None else table.takes_value(plain)
    if takes is None and _GUESSED_BARE.fullmatch(plain) and not plain.startswith(_NOT_BARE):
        takes = False
    if at >= len(words) or (takes is False and words[at].lower() not in ("true", "false")):
        return ()
    most = 1 if takes is not None and plain.partition(".")[0] not in _LISTS else len(words)
    end = at
    while end < min(len(words), at + most) and not _is_option(words[end]):
        if end > at and may_be_words(words[end]):
            break
        end += 1
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
