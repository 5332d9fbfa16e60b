"""How the server is started: the image's entry point, words that no option takes; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.image import entry_of, is_official, tag_version
from nodeprep.lint.ranges import is_unresolved
from nodeprep.lint.said import CRITICAL, INFO, WARNING, say
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.model.launch import Container
from nodeprep.serving import flags

_STARTS = {"module": "python3 -m vllm.entrypoints.openai.api_server", "serve": "vllm serve"}
_CHANGED = "up to 0.11.0 the image starts the module api_server, from 0.11.1 on `vllm serve`"
_MODULE_TAKES_A_WORD = (0, 10, 2)
_MODULE_REFUSES_A_WORD = (0, 9, 2)
_BOTH_MOVED_FROM = (0, 11, 1)


def image(server: Server) -> Iterator[Finding]:
    """Words that the image's own entry point does not take as they are meant."""
    box = server.container
    if box is None or box.entrypoint is not None or not is_official(box.image):
        return
    kind = entry_of(box.image)
    if server.launch.entry in ("serve", "module"):
        yield from _named_again(server, box)
    elif server.launch.entry == "image":
        yield from _words(server, box, kind)


def _named_again(server: Server, box: Container) -> Iterator[Finding]:
    """A command of its own behind an image that has an entry point: it becomes its arguments."""
    kind = entry_of(box.image)
    said = "vllm serve" if server.launch.entry == "serve" else "python3 -m ..."
    starts = _STARTS[kind] if kind is not None else "its own server"
    yield _refused(
        server, box, said,
        f"the image starts `{starts}` already: `{said}` becomes its arguments, and it refuses to "
        "start",
        do="leave it out, or name the entry point: --entrypoint vllm IMAGE serve MODEL",
    )  # fmt: skip


def _words(server: Server, box: Container, kind: str | None) -> Iterator[Finding]:
    launch = server.launch
    word = None if launch.has_model_option else launch.model
    if word is None or is_unresolved(word):
        if kind == "module":
            yield _note(server, box)
    elif word == "serve":
        starts = _STARTS[kind] if kind is not None else "its own server"
        yield _refused(
            server, box, "serve",
            f"the image starts `{starts}` already: the word serve is one too many, and it refuses "
            "to start",
            do="leave the word out, or name the entry point: --entrypoint vllm IMAGE serve MODEL",
        )  # fmt: skip
    elif kind == "module":
        yield _model_as_word(server, box, word)
    elif kind is None:
        yield say(
            server, "container-entrypoint", WARNING, box.image or "image",
            f"the model stands as a word, which only images from 0.11.1 on take: {word}",
            cause=_CHANGED, do="write --model, which both take", line=box.line,
        )  # fmt: skip


def _model_as_word(server: Server, box: Container, word: str) -> Finding:
    release = flags.release_of(tag_version(box.image) or server.version)
    if release >= _MODULE_TAKES_A_WORD:
        what = "is read and dropped: the default model is served"
    elif release <= _MODULE_REFUSES_A_WORD:
        what = "is refused: unrecognized arguments"
    else:
        what = "is refused, or dropped and the default model served"
    return _refused(
        server, box, word,
        f"this image starts `{_STARTS['module']}`, which takes the model as --model only: the "
        f"word {word} {what}",
        do=f"write --model {word}",
    )  # fmt: skip


def _note(server: Server, box: Container) -> Finding:
    return say(
        server, "container-entrypoint", INFO, box.image or "image",
        "the arguments go to the image's own entry point, which is another one from 0.11.1 on",
        cause=f"{_CHANGED}: --model, the model as a word, and `false` in files are read "
        "differently",
        do="name it: --entrypoint vllm IMAGE serve MODEL ...", line=box.line,
    )  # fmt: skip


def _refused(server: Server, box: Container, word: str, summary: str, *, do: str) -> Finding:
    return say(
        server, "container-entrypoint", CRITICAL, box.image or "image", summary,
        cause=_CHANGED, do=do, line=box.line, text=word,
    )  # fmt: skip


def two_models(server: Server) -> Iterator[Finding]:
    """A word and --model beside each other: which of them counts depends on the release.

    vllm/utils/argparse_utils.py moves --model to the front from 0.11.1 on, where the word is one
    too many; the module api_server reads the word from 0.10.2 on and forgets it.
    """
    launch, named = server.launch, server.launch.model
    word = launch.positional
    if word is None or named is None or not launch.has_model_option or is_unresolved(word):
        return
    box = server.container
    entry = entry_of(box.image) if box is not None and launch.entry == "image" else launch.entry
    release = server.release
    if entry == "serve" and release >= _BOTH_MOVED_FROM:
        what = f"--model takes its place, and {word} is refused: unrecognized arguments"
    elif entry == "serve":
        what = f"`vllm serve` refuses --model; --model=... is dropped and {word} served"
    elif entry == "module" and release >= _MODULE_TAKES_A_WORD:
        what = f"{named} is served, and {word} dropped"
    elif entry == "module":
        what = f"the module takes no word: {word} is refused"
    else:
        return
    yield say(
        server, "vllm-options-conflict", CRITICAL, "--model",
        f"the model is named twice, as {word} and as --model {named}: {what}",
        cause="the release's own argument parser decides before anything is loaded",
        do="name one model, once", text=f"{word} --model {named}",
    )  # fmt: skip


def demo(server: Server) -> Iterator[Finding]:
    """`python -m vllm.entrypoints.api_server`: a demonstration with /generate and nothing else."""
    if server.launch.entry == "demo":
        yield say(
            server, "vllm-options-conflict", CRITICAL, "vllm.entrypoints.api_server",
            "vllm.entrypoints.api_server is the demonstration server: no OpenAI API, no API key, "
            "no /metrics",
            cause="it has /health and /generate, and its own few options beside those of the "
            "engine (entrypoints/api_server.py of 0.7.2; gone by 0.30.0)",
            do="start vllm serve MODEL, or python3 -m vllm.entrypoints.openai.api_server",
        )  # fmt: skip


RULES = (image, two_models, demo)
