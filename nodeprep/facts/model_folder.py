"""A model's shape from its folder or its config.json on this computer."""

from __future__ import annotations

from pathlib import Path

from nodeprep.errors import UsageError
from nodeprep.model.memory import ModelShape
from nodeprep.parse.hf_config import parse_hf_config, parse_safetensors_index

_MAX_CONFIG_BYTES = 8 << 20
_INDEX = "model.safetensors.index.json"


def read_model(path: Path) -> ModelShape:
    """The shape in a `config.json`, with the exact weight bytes where the index tells them.

    Raises UsageError for a path that cannot be read, ParseError for a file that is no config.
    """
    file = path / "config.json" if path.is_dir() else path
    shape = parse_hf_config(_read(file), file.resolve().parent.name or "model")
    index = file.parent / _INDEX
    if not index.is_file():
        return shape
    from msgspec.structs import replace

    return replace(shape, weight_file_bytes=parse_safetensors_index(_read(index)))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_CONFIG_BYTES)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}",
            hint="name a model of the catalogue, a config.json or a model folder",
        ) from None
