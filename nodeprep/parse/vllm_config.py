"""The configuration file of `vllm serve`, in YAML or in JSON: its keys as options."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from nodeprep.errors import ParseError
from nodeprep.model.launch import Form, Given, Launch
from nodeprep.parse.vllm_argv import OptionTable
from nodeprep.parse.yaml_tree import Tree

_MOST_KEYS = 1000
_LONGEST = 4096
_MOST_BITS = 1024


def is_config(tree: Tree, table: OptionTable | None, besides: tuple[str, ...] = ()) -> bool:
    """Whether one key at least, but those of `besides`, is an option of some release.

    Without a table every mapping is one.
    """
    keys = list(tree.value)[:_MOST_KEYS] if isinstance(tree.value, dict) else []
    return table is None or any(table.knows(str(key)) for key in keys if key not in besides)


def read_config(tree: Tree, form: Form) -> Launch:
    """A mapping of options.  Raises ParseError for anything else."""
    if not isinstance(tree.value, dict):
        raise ParseError("a configuration of vLLM is a mapping of options", hint="key: value")
    options: list[Given] = [
        replace(_given(name, value, line), twice=True)
        for name, line, value in tree.twice[:_MOST_KEYS]
    ]
    model: str | None = None
    for key, value in list(tree.value.items())[:_MOST_KEYS]:
        name = str(key)[:200]
        line = tree.line(name)
        if name.startswith("_"):
            continue  # notes of whoever wrote the file; no option begins so
        if name == "model" and isinstance(value, str):
            model = value
        else:
            options.append(_given(name, value, line))
    return Launch(
        form=form,
        options=tuple(options),
        model=model,
        has_model_option=model is not None,
        line=1,
    )


def _given(name: str, value: Any, line: int | None) -> Given:
    """One key as an option; a number too long to print comes as the beginning of its text."""
    if isinstance(value, (dict, list)):
        try:
            text = json.dumps(value, default=str)[:_LONGEST]
        except (TypeError, ValueError):
            raise ParseError(
                f"{name[:60]} holds what has no JSON text", hint="correct it"
            ) from None
        return Given(name=name, value=text, line=line, nested=True)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return Given(name=name, value=f"{hex(value)[:20]}...", line=line)
    if value is None or isinstance(value, (bool, int, float)):
        return Given(name=name, value=value, line=line)
    return Given(name=name, value=str(value)[:_LONGEST], line=line)
