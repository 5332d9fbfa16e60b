"""Where the files that ship with nodeprep lie: in the installed package, or in the checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent

MACHINES = _PACKAGE / "machines"


def shipped(name: str) -> Path:
    """The folder `templates` or `systemd`.

    A wheel carries it inside the package; the checkout has it at the top level.  The package comes
    first: beside an installed package the second place may belong to another project.
    """
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name
