"""What `vllm serve --config` reads: the name, the model in it, mappings and lists; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.ranges import is_unresolved, takes_json
from nodeprep.lint.said import CRITICAL, INFO, WARNING, say
from nodeprep.lint.secrets import shown
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.model.launch import Form, Given
from nodeprep.serving import flags

_JSON_ONLY_FROM = (0, 9, 2)
_NESTED_REFUSED_TO = (0, 13, 0)
_NESTED_READ_FROM = (0, 16, 0)


def form(server: Server) -> Iterator[Finding]:
    """What `vllm serve --config` takes: YAML by its name, and in old releases no model."""
    launch = server.launch
    if launch.form is Form.JSON:
        yield say(
            server, "vllm-config-form", INFO, server.path,
            "a JSON manifest is not what `vllm serve --config` reads: the name must end in .yaml"
            + (", and before 0.8 it may not hold the model" if server.release < (0, 8, 0) else ""),
            cause="its reader refuses every other ending, though JSON is YAML",
            do="keep it under a name that ends in .yaml, or give its values as flags",
        )  # fmt: skip
    named = None if is_unresolved(launch.config_file) and not server.is_file else launch.config_file
    if named is not None and not named.endswith((".yaml", ".yml")):
        yield say(
            server, "vllm-config-form", CRITICAL, "--config",
            f"--config {named}: vLLM takes only names that end in .yaml or .yml",
            cause="its reader refuses every other ending, though JSON is YAML",
            do="rename the file",
        )  # fmt: skip
    by_option = launch.has_model_option and launch.positional is None
    if launch.entry == "serve" and by_option and not server.is_file:
        yield from _model_option(server)
    if launch.form is Form.YAML and launch.has_model_option and server.release < (0, 8, 0):
        yield say(
            server, "vllm-config-form", CRITICAL, "model",
            f"vLLM {server.version} does not take the model from its file",
            cause="before 0.8 `vllm serve` needs the model on the command line",
            do=f"run: vllm serve {launch.model} --config FILE", text=f"model: {launch.model}",
        )  # fmt: skip


def _model_option(server: Server) -> Iterator[Finding]:
    """Refused up to 0.11.0 (utils parse_args), read with a warning from 0.11.1 on."""
    old = server.release < (0, 11, 1)
    yield say(
        server, "vllm-config-form", CRITICAL if old else INFO, "--model",
        "`vllm serve` takes its model as a word of its own, not as --model"
        + (f" (vLLM {server.version} refuses it)" if old else ""),
        cause="--model belongs to python -m vllm.entrypoints.openai.api_server",
        do=f"write: vllm serve {server.launch.model}",
    )  # fmt: skip


def nested(server: Server, given: Given, spec: flags.FlagSpec) -> Iterator[Finding]:
    """A mapping or a list as the value of a key."""
    if str(given.value).startswith("["):
        if server.release < (0, 9, 0):
            yield say(
                server, "vllm-config-form", WARNING, given.name,
                f"{given.name} is a list, which vLLM {server.version} reads as one text",
                cause="lists in the file are read as lists by 0.11.2 and later",
                do="give the values on the command line", line=given.line, text=shown(given),
            )  # fmt: skip
    elif server.release < _NESTED_READ_FROM and not _reads_python(server, spec):
        sure = server.release <= _NESTED_REFUSED_TO
        yield say(
            server, "vllm-config-form", CRITICAL if sure else WARNING, given.name,
            f"{given.name} is a mapping, which vLLM {server.version} "
            f"{'refuses' if sure else 'may refuse'} in its file",
            cause="up to 0.13.0 the file's reader hands a mapping on as Python writes it, "
            "{'a': 1}, which is no JSON (load_config_file); 0.16.0 and later write JSON",
            do="write it as one JSON text in quotes: every release reads that",
            line=given.line, text=shown(given),
        )  # fmt: skip


def _reads_python(server: Server, spec: flags.FlagSpec) -> bool:
    """Up to 0.8.5 the compilation configuration is read by ast.literal_eval (config.py from_cli);
    what takes no JSON takes any text."""
    if server.release < _JSON_ONLY_FROM and spec.name == "compilation-config":
        return True
    return server.release < _JSON_ONLY_FROM and not takes_json(spec)


RULES = (form,)
