"""Reads the data files beside this module, once, when they are first asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")
_HERE = Path(__file__).resolve().parent


@cache
def load(name: str, kind: type[T]) -> T:
    """The file `name` as `kind`; a wrong file is a bug of the package, so no error is caught."""
    return msgspec.json.decode((_HERE / name).read_bytes(), type=kind)
