"""How long `plan` takes for every model of the catalogue, as a ratio to `import click`.

python -m tests.bench.plan [ROUNDS]
"""

from __future__ import annotations

import sys
from pathlib import Path

from nodeprep.memory.catalogue import entries
from tests.bench.measure import command, compare

NODEPREP = str(Path(sys.executable).parent / "nodeprep")
LIMIT = 3.0


def main(rounds: int) -> None:
    base, limits = "import click", []
    for entry in entries():
        planned = (NODEPREP, "plan", entry.name, "--gpu", "L40S:4", "--format", "json")
        timings = compare(
            {base: command((sys.executable, "-c", "import click")), entry.name: command(planned)},
            rounds,
        )
        ratio = timings[entry.name].wall_s / timings[base].wall_s
        limits.append(ratio)
        print(f"{entry.name:52} {timings[entry.name].wall_s:6.3f} s  ratio {ratio:5.2f}")
    print(f"largest {max(limits):.2f}, limit {LIMIT}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
