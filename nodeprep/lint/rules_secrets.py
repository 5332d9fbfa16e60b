"""Keys and tokens where everybody on the node can read them; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodeprep.lint.said import WARNING, say
from nodeprep.lint.secrets import first_word, is_in_clear, option_is_secret, variable_is_secret
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.model.launch import Form, Given
from nodeprep.model.serving import KnobValue

_REFERENCE = re.compile(r"\$\{?([A-Za-z_]\w*)(?::?[-?+][^}]*)?\}?")
_OPTION_IN = {
    Form.YAML: "in the file",
    Form.JSON: "in the file",
    Form.COMMAND: "in the script, and in `ps` for every user of the node",
    Form.UNIT: "in the unit (`systemctl show`), and in `ps` for every user of the node",
    Form.CONTAINER: "in the command, in `docker inspect`, and in `ps` for every user of the node",
    Form.COMPOSE: "in the file, in `docker inspect`, and in `ps` for every user of the node",
}
_VARIABLE_IN = {
    Form.COMMAND: "in the script itself",
    Form.UNIT: "in the unit, which every user of the node can read (`systemctl show`)",
    Form.CONTAINER: "in the command itself, and in `docker inspect`",
    Form.COMPOSE: "in the file itself, and in `docker inspect`",
}
_INSTEAD = {
    Form.YAML: "take it out of the file: VLLM_API_KEY in an environment file of mode 0600",
    Form.JSON: "take it out of the file: VLLM_API_KEY in an environment file of mode 0600",
    Form.COMMAND: "read it from a file of mode 0600 into VLLM_API_KEY; HF_TOKEN_PATH names such a "
    "file",
    Form.UNIT: "put it into a file of mode 0600 and name that: EnvironmentFile=",
    Form.CONTAINER: "put it into a file of mode 0600 and name that: --env-file",
    Form.COMPOSE: "put it into a file of mode 0600 and name that: env_file",
}


def options(server: Server) -> Iterator[Finding]:
    """Secrets as arguments, and variables that become arguments."""
    for given in server.launch.options:
        if not option_is_secret(given.name) or given.twice:
            continue
        name = f"--{first_word(given.plain)}"
        if is_in_clear(_value(given)):
            yield _secret(
                server, name, given.line, f"{name} carries a secret {_OPTION_IN[_form(server)]}"
            )
        elif referred(given.value) is not None and not server.is_file:
            yield _secret(
                server, name, given.line,
                f"{name} is filled in from a variable, and stands in `ps` for every user of the "
                "node",
            )  # fmt: skip


def variables(server: Server) -> Iterator[Finding]:
    """Secrets in variables; a file of variables is the one place for them."""
    where = _VARIABLE_IN.get(server.launch.form)
    for variable in server.launch.env if where is not None else ():
        if variable_is_secret(variable.name) and is_in_clear(variable.value):
            yield _secret(
                server, variable.name, variable.line, f"{variable.name} carries a secret {where}"
            )


def referred(value: KnobValue | None) -> str | None:
    """The variable whose value alone stands there: `X` of `$X`, `${X}` and `${X:-}`."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else match[1]


def _value(given: Given) -> KnobValue | None:
    """The value, also where it stands behind a blank in the option's own word."""
    behind = given.name[len(first_word(given.name)) :].strip()
    return behind or given.value


def _form(server: Server) -> Form:
    return server.launch.form if server.launch.form in _OPTION_IN else Form.COMMAND


def _secret(server: Server, name: str, line: int | None, summary: str) -> Finding:
    return say(
        server, "secret-in-plain-sight", WARNING, name, summary,
        cause="arguments, settings of units and containers, and files that are not closed are "
        "read by others on the node",
        do=_INSTEAD[_form(server)], line=line, text=f"{name} (value not shown)",
    )  # fmt: skip


RULES = (options, variables)
