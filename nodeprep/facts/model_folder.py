"""A model's shape from its folder or its config.json on this computer."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nodeprep.errors import ParseError, UsageError
from nodeprep.model.memory import ModelShape
from nodeprep.parse.hf_config import parse_hf_config, parse_safetensors_index

if TYPE_CHECKING:
    from nodeprep.parse.safetensors import TensorHeader

_MAX_CONFIG_BYTES = 8 << 20
_MAX_INDEX_BYTES = 64 << 20
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


def read_model(path: Path) -> ModelShape:
    """The shape in a `config.json`, with the exact weight bytes where the folder tells them.

    The headers of the safetensors files beside it tell them; where the files are not all there,
    their index tells the sum.  Files of other kinds (.bin, .gguf) are not read.
    Raises UsageError for a path that cannot be read, ParseError for a file that is damaged.
    """
    file = path / "config.json" if path.is_dir() else path
    shape = parse_hf_config(_read(file, _MAX_CONFIG_BYTES), file.resolve().parent.name or "model")
    folder = file.parent
    files = _shards(folder)
    if files and all(one.is_file() for one in files):
        return _with_headers(shape, files)
    if (folder / _INDEX).is_file():
        total = parse_safetensors_index(_read(folder / _INDEX, _MAX_INDEX_BYTES))
        return replace(shape, weight_file_bytes=total)
    return shape


def _shards(folder: Path) -> list[Path]:
    """The files of one checkpoint: those of the index, else the only one."""
    if (folder / _INDEX).is_file():
        from nodeprep.parse.safetensors import shard_names

        names = shard_names(_read(folder / _INDEX, _MAX_INDEX_BYTES))
        return [folder / name for name in names]
    return [folder / _SINGLE] if (folder / _SINGLE).is_file() else []


def _with_headers(shape: ModelShape, files: list[Path]) -> ModelShape:
    from nodeprep.parse.safetensors import checkpoint_parts

    tensors = [one for file in files for one in _tensors(file)]
    parts = checkpoint_parts(tensors, shape.layers, tied=shape.tied_embeddings)
    total = sum(one.size_bytes for one in tensors)
    return replace(
        shape,
        checkpoint=parts,
        weight_file_bytes=total or None,
        source=f"config.json and the headers of {len(files)} safetensors files",
    )


def _tensors(file: Path) -> tuple[TensorHeader, ...]:
    from nodeprep.parse.safetensors import LENGTH_BYTES, header_length, parse_header

    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = header_length(stream.read(LENGTH_BYTES), size)
            return parse_header(stream.read(length), size)
    except OSError as error:
        raise _unreadable(file, error) from None
    except ParseError as error:
        raise ParseError(f"{file}: {error.message}", hint=error.hint) from None


def _read(path: Path, limit: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"cannot read {path}: it is no plain file")
            return file.read(limit)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot read {path}: {error.strerror}",
        hint="name a model of the catalogue, a config.json or a model folder",
    )
