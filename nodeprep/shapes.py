"""A model by name or by place: from the catalogue that ships, or from its own files."""

from __future__ import annotations

from pathlib import Path

from nodeprep.memory.catalogue import find_model
from nodeprep.model.memory import ModelShape


def shape_of(model: str) -> ModelShape:
    """The shape of what the user named.

    A path begins with `/` or `.`, ends with `.json`, or exists; anything else is looked up in the
    catalogue.  Raises UsageError or ParseError.
    """
    path = Path(model)
    if model.startswith(("/", ".")) or model.endswith(".json") or path.exists():
        from nodeprep.facts.model_folder import read_model

        return read_model(path)
    return find_model(model)
