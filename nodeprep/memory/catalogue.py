"""Models by name: the keys of their public config.json, read by the same parser as a file."""

from __future__ import annotations

import msgspec

from nodeprep.errors import UsageError
from nodeprep.memory.data import load
from nodeprep.model.base import Record
from nodeprep.model.memory import ModelShape
from nodeprep.parse.hf_config import parse_hf_config


class CatalogueEntry(Record, frozen=True):
    """One model of catalogue.json."""

    name: str
    """As Hugging Face names it, `owner/model`."""
    aliases: tuple[str, ...]
    params_billion: float | None
    """10**9 parameters as published; None: not known to the catalogue."""
    source: str
    config: msgspec.Raw
    """The keys of its config.json that memory depends on."""


class _Table(Record, frozen=True):
    about: str
    models: tuple[CatalogueEntry, ...]


def entries() -> tuple[CatalogueEntry, ...]:
    """Every model that ships."""
    table: _Table = load("catalogue.json", _Table)
    return table.models


def find_model(name: str) -> ModelShape:
    """The shape of a catalogue model; case, the owner and underscores do not matter.

    Raises UsageError with the nearest names.
    """
    wanted = _key(name)
    for one in entries():
        if wanted in _names(one):
            return shape_of_entry(one)
    raise UsageError(f"model {name[:80]!r} is not in the catalogue", hint=_hint(wanted))


def shape_of_entry(entry: CatalogueEntry) -> ModelShape:
    """The entry's shape, with its published count of parameters and its source."""
    shape = parse_hf_config(bytes(entry.config), entry.name)
    return msgspec.structs.replace(
        shape, params_billion=entry.params_billion, source=f"catalogue: {entry.source}"
    )


def _key(name: str) -> str:
    return name.strip().lower()[:200].replace("_", "-")


def _names(entry: CatalogueEntry) -> set[str]:
    full = {_key(one) for one in (entry.name, *entry.aliases)}
    return full | {one.rpartition("/")[2] for one in full}


def _hint(wanted: str) -> str:
    import difflib

    known = {name: one.name for one in entries() for name in _names(one)}
    near = difflib.get_close_matches(wanted.rpartition("/")[2], known, n=5, cutoff=0.5)
    shown = ", ".join(dict.fromkeys(known[name] for name in near))
    nearest = f"nearest: {shown}; or " if shown else ""
    return f"{nearest}give the path of its config.json or of its folder"
