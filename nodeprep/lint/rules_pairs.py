"""Two texts that are meant to start the same server and do not; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from nodeprep.lint.said import WARNING, say
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.model.launch import Form
from nodeprep.model.serving import KnobValue

_OF_THE_PLACE = ("host", "port", "api-key", "hf-token", "served-model-name", "uvicorn-log-level")


def pairs(servers: Sequence[Server]) -> Iterator[Finding]:
    """A manifest and a command of the same model that say different things."""
    for a, b in combinations([one for one in servers if one.launch.model], 2):
        alike = a.launch.model == b.launch.model and a.launch.form is not b.launch.form
        if not alike or Form.ENV_FILE in (a.launch.form, b.launch.form):
            continue
        if a.launch.config_file or b.launch.config_file:
            continue
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
    names = sorted({*a.options, *b.options} - set(_OF_THE_PLACE))
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
