"""How somebody starts a vLLM server, read from what they wrote."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record
from nodeprep.model.serving import KnobValue


class Form(Enum):
    """What kind of text a launch was read from."""

    YAML = "configuration file"
    JSON = "JSON configuration"
    COMMAND = "command line"
    CONTAINER = "container command"
    COMPOSE = "compose file"
    UNIT = "systemd unit"
    ENV_FILE = "environment file"


class Given(Record, frozen=True):
    """One option of `vllm serve` as it was written."""

    name: str
    """As written, without leading dashes: `max_model_len`, `tp`, `no-enable-prefix-caching`."""
    value: KnobValue | None
    """True for an option without a value; None for null."""
    line: int | None = None
    nested: bool = False
    """A mapping or a list stood there; `value` is its text."""
    spelled: bool = False
    """On a command line: the value stands there as a word (`--x=False`, `--x 4`)."""
    twice: bool = False
    """The same name stands further down too, and this one is lost."""

    @property
    def plain(self) -> str:
        return self.name.lstrip("-").replace("_", "-")


class Variable(Record, frozen=True):
    name: str
    value: str | None
    """None: taken over from the caller."""
    line: int | None = None


class Container(Record, frozen=True):
    """The options of a container, in the spelling of `docker run`."""

    image: str | None
    options: dict[str, tuple[str, ...]]
    """Long name without dashes -> its values; a switch has `true`."""
    entrypoint: str | None = None
    """As asked for; empty: the image's own is taken away."""
    line: int | None = None
    lines: dict[str, tuple[int | None, ...]] = {}
    """The line of each of those values, where the text tells it."""
    open_words: tuple[str, ...] = ()
    """Variables among the options, which may stand for any of them: `$DOCKER_ARGS`."""

    def line_of(self, name: str, value: str | None = None) -> int | None:
        """Where an option stands; `value`: which of several.  Else where the container begins."""
        values, lines = self.options.get(name, ()), self.lines.get(name, ())
        place = values.index(value) if value in values else 0
        found = lines[place] if place < len(lines) else None
        return self.line if found is None else found

    def has(self, name: str) -> bool:
        return any(value != "false" for value in self.options.get(name, ()))

    def first(self, name: str) -> str | None:
        values = self.options.get(name, ())
        return values[0] if values else None


class Launch(Record, frozen=True):
    """One server as one text describes it."""

    form: Form
    line: int | None = None
    options: tuple[Given, ...] = ()
    env: tuple[Variable, ...] = ()
    container: Container | None = None
    model: str | None = None
    """The positional model, or the option `model`."""
    positional: str | None = None
    """The word that stands as the model where the option `model` stands too."""
    entry: str | None = None
    """`serve` (vllm serve), `module` (python -m ...openai.api_server), `demo` (python -m
    ...entrypoints.api_server), `image` (the image's own entry point);
    None: the text does not say."""
    env_files: tuple[str, ...] = ()
    """Files of variables that it reads besides; `-` before one that may be missing."""
    config_file: str | None = None
    """Value of --config."""
    has_model_option: bool = False
    """The model stands as an option or key, not as a word of its own."""
    open_words: tuple[tuple[str, int | None], ...] = ()
    """Words that may stand for any options, with their lines: `$EXTRA_ARGS`, `"$@"`."""
    stray: tuple[tuple[str, int | None], ...] = ()
    """Words that belong to no option and are not the model, with their lines."""
    uses: tuple[str, ...] = ()
    """Names of the variables that the same text uses itself: X of `$X`, `${X:-1}`."""
    written_as: str | None = None
    """The file that the text itself writes this to, as a here-document."""

    def variable(self, name: str) -> Variable | None:
        return next((one for one in reversed(self.env) if one.name == name), None)


class TextNote(Record, frozen=True):
    """Something about the text itself that changes what it does."""

    line: int | None
    kind: str
    """`blank-after-backslash`, `bench`; `unread`: `text` says what was not read, and why."""
    text: str


class LaunchText(Record, frozen=True):
    """Everything that one file says."""

    launches: tuple[Launch, ...]
    notes: tuple[TextNote, ...] = ()
    metrics: tuple[tuple[str, int], ...] = ()
    """Names of vLLM metrics in the text, with their line."""
    rendered_version: str | None = None
    """The release that nodeprep rendered the file for."""
