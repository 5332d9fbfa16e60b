"""What the files of variables that a unit names fill in on its command line; pure."""

from __future__ import annotations

from msgspec.structs import replace

from nodeprep.model.launch import Form, Given, Launch
from nodeprep.parse.dollar import filled
from nodeprep.parse.vllm_argv import OptionTable, read_arguments, value_of
from nodeprep.serving import flags


def with_variables(launch: Launch, env: dict[str, str]) -> Launch:
    """A unit's server with its own variables in its words.

    Only systemd does so: the files that docker and compose name reach the container, not the line
    that starts it.
    """
    if launch.form is not Form.UNIT or not env:
        return launch
    known = [(word, line) for word, line in launch.open_words if env.get(_name(word)) is not None]
    options = [_given(one, env) for one in launch.options]
    table = OptionTable(takes=flags.spellings())
    for word, line in known:
        words = env[_name(word)].split()
        lines = [line or launch.line or 1] * len(words)
        options += read_arguments(words, lines, entry=launch.entry, table=table).options
    return replace(
        launch,
        options=tuple(options),
        model=None if launch.model is None else filled(launch.model, env.get),
        config_file=None if launch.config_file is None else filled(launch.config_file, env.get),
        open_words=tuple(one for one in launch.open_words if one not in known),
    )


def _given(given: Given, env: dict[str, str]) -> Given:
    if not isinstance(given.value, str) or "$" not in given.value:
        return given
    return replace(given, value=value_of(filled(given.value, env.get)))


def _name(word: str) -> str:
    return word.strip("${}")
