"""How long commands take to start, as a ratio to `python -c 'import click'` in the same run.

python -m tests.bench.startup [ROUNDS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.measure import command, compare

NODEPREP = str(Path(sys.executable).parent / "nodeprep")
LIMITS = {"--version": 1.5, "--help": 1.5, "audit": 2.5}


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as state:
        audit = ("audit", "--machine", "l40s-acs", "--format", "json", "--state-dir", state)
        timings = compare(
            {
                "import click": command((sys.executable, "-c", "import click")),
                "--version": command((NODEPREP, "--version")),
                "--help": command((NODEPREP, "--help")),
                "audit": command((NODEPREP, *audit)),
            },
            rounds,
        )
    base = timings["import click"]
    print(f"{'':14} wall s  cpu s  ratio (wall)  ratio (cpu)  limit")
    for name, one in timings.items():
        limit = LIMITS.get(name)
        print(
            f"{name:14} {one.wall_s:6.3f} {one.cpu_s:6.3f}  {one.wall_s / base.wall_s:11.2f}  "
            f"{one.cpu_s / base.cpu_s:11.2f}  {'' if limit is None else limit}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
