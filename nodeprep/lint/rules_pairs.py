"""Two texts that are meant to start the same server and do not; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from nodeprep.lint.said import WARNING, say
from nodeprep.lint.secrets import option_is_secret
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.model.launch import Form
from nodeprep.model.serving import KnobValue

_OF_THE_PLACE = ("host", "port", "served-model-name", "uvicorn-log-level")
_NAMING = ("port", "served-model-name")
"""Servers that differ in one of these are two servers."""
_LEAST_SHARED = 0.5


def pairs(servers: Sequence[Server]) -> Iterator[Finding]:
    """A manifest and a command of the same model that say different things."""
    for model in dict.fromkeys(one.launch.model for one in servers if one.launch.model):
        of_model = [one for one in servers if one.launch.model == model]
        for a, b in combinations(of_model, 2):
            if _is_pair(a, b) and (a.path == b.path or _are_alone(a, b, of_model)):
                yield from _differ(a, b)


def _is_pair(a: Server, b: Server) -> bool:
    """Whether two texts are likely meant to be one server: two forms, nothing that tells apart."""
    forms = (a.launch.form, b.launch.form)
    if a.launch.form is b.launch.form or Form.ENV_FILE in forms:
        return False
    if a.launch.config_file or b.launch.config_file:
        return False
    if any(a.value(one) != b.value(one) for one in _NAMING if _both_have(one, a, b)):
        return False
    return _folder(a) == _folder(b) and _shared(a, b) >= _LEAST_SHARED


def _are_alone(a: Server, b: Server, of_model: Sequence[Server]) -> bool:
    """Whether no third file starts the model too: then nobody can say which belong together."""
    return {one.path for one in of_model} == {a.path, b.path}


def _folder(server: Server) -> str:
    return server.path.rpartition("/")[0]


def _both_have(name: str, a: Server, b: Server) -> bool:
    return name in a.options and name in b.options


def _shared(a: Server, b: Server) -> float:
    """The part of all their options that both name; 1 when there is none at all."""
    names = _compared(a, b)
    return len([one for one in names if _both_have(one, a, b)]) / len(names) if names else 1.0


def _compared(*servers: Server) -> list[str]:
    """The options that count, by their names."""
    names = {name for server in servers for name in server.options}
    return sorted(one for one in names - {*_OF_THE_PLACE} if not option_is_secret(one))


def _differ(a: Server, b: Server) -> Iterator[Finding]:
    said = list(_differences(a, b))
    if said:
        yield say(
            b, "vllm-forms-differ", WARNING, b.launch.model or "",
            f"the {a.launch.form.value} and the {b.launch.form.value} do not start the same "
            f"server: {'; '.join(said)}",
            cause="two forms kept by hand drift apart",
            do="keep one and make the other from it, or start the command with --config",
        )  # fmt: skip


def _differences(a: Server, b: Server) -> Iterator[str]:
    names = _compared(a, b)
    only_a = [one for one in names if one not in b.options]
    only_b = [one for one in names if one not in a.options]
    if only_a:
        yield f"the {b.launch.form.value} omits {', '.join(only_a)}"
    if only_b:
        yield f"the {a.launch.form.value} omits {', '.join(only_b)}"
    for name in names:
        if name in a.options and name in b.options:
            theirs, ours = a.value(name), b.value(name)
            if not _same(theirs, ours):
                yield f"{name} is {theirs} in one and {ours} in the other"


def _same(a: KnobValue | None, b: KnobValue | None) -> bool:
    return a == b or str(a) == str(b)
