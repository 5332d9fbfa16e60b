"""The configuration file of `vllm serve`, in YAML or in JSON: its keys as options."""

from __future__ import annotations

import json

from nodeprep.errors import ParseError
from nodeprep.model.launch import Form, Given, Launch
from nodeprep.parse.yaml_tree import Tree

_MOST_KEYS = 1000
_LONGEST = 4096


def read_config(tree: Tree, form: Form) -> Launch:
    """A mapping of options.  Raises ParseError for anything else."""
    if not isinstance(tree.value, dict):
        raise ParseError("a configuration of vLLM is a mapping of options", hint="key: value")
    options: list[Given] = [
        Given(name=name, value=None, line=line, twice=True) for name, line in tree.twice
    ]
    model: str | None = None
    for key, value in list(tree.value.items())[:_MOST_KEYS]:
        name = str(key)[:200]
        line = tree.line(name)
        if name.startswith("_"):
            continue  # notes of whoever wrote the file; no option begins so
        if name == "model" and isinstance(value, str):
            model = value
        elif isinstance(value, (dict, list)):
            text = json.dumps(value, default=str)[:_LONGEST]
            options.append(Given(name=name, value=text, line=line, nested=True))
        elif value is None or isinstance(value, (bool, int, float)):
            options.append(Given(name=name, value=value, line=line))
        else:
            options.append(Given(name=name, value=str(value)[:_LONGEST], line=line))
    return Launch(
        form=form,
        options=tuple(options),
        model=model,
        has_model_option=model is not None,
        line=1,
    )
