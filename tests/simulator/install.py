"""Puts the doubles into a folder as executables, with the file that says what they stand for.

python -m tests.simulator.install DIR --tree TREE [--mode MODE] [--version V]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.simulator.double import MODES, Setup

CHECKOUT = Path(__file__).resolve().parents[2]
_PROGRAM = """#!{python}
import sys
sys.path.insert(0, {checkout!r})
sys.dont_write_bytecode = True
from tests.simulator.{module} import main
sys.exit(main({setup!r}, sys.argv[1:]))
"""


def install(folder: Path, tree: Path, **fields: Any) -> Path:
    """all_reduce_perf and nvidia-smi in a folder; gives the path of the first.

    fields: of Setup.
    """
    setup = folder / "double.json"
    setup.write_bytes(msgspec.json.encode(Setup(tree=str(tree), **fields)))
    setup.with_suffix(".runs").unlink(missing_ok=True)
    _write(folder / "nvidia-smi", "smi", setup)
    return _write(folder / "all_reduce_perf", "double", setup)


def _write(path: Path, module: str, setup: Path) -> Path:
    path.write_text(
        _PROGRAM.format(
            python=sys.executable, checkout=str(CHECKOUT), module=module, setup=str(setup)
        )
    )
    path.chmod(0o755)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Install the doubles of nccl-tests and nvidia-smi")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--mode", choices=MODES, default="ok")
    parser.add_argument("--version", default="2.19.6")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = install(given.folder, given.tree.resolve(), mode=given.mode, version=given.version)
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
