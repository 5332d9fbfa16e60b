"""`nodeprep audit` of a large fabricated tree against the loop of the published bring-up recipe.

    python -m tests.bench.audit_tree [ROUNDS]

The loop asks setpci about every function lspci lists, and writes where it answers.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.measure import command, compare
from tests.fabricated import scale_tree

NODEPREP = str(Path(sys.executable).parent / "nodeprep")
LOOP = """
set -u
for bdf in $(lspci -A linux-sysfs -O sysfs.path="$1" -d "*:*:*" | awk '{print $1}'); do
    if setpci -A linux-sysfs -O sysfs.path="$1" -v -s "$bdf" ECAP_ACS+0x6.w >/dev/null 2>&1; then
        setpci -A linux-sysfs -O sysfs.path="$1" -v -s "$bdf" ECAP_ACS+0x6.w=0000
    fi
done
"""


def main(rounds: int) -> None:
    print("functions   loop s  audit s  ratio   (median, wall)   bytes of config space a function")
    for functions in (220, 1012):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
            scale_tree(ours, functions)
            scale_tree(theirs, functions)
            audit = ("audit", "--sysfs-root", str(ours), "--format", "json")
            timings = compare(
                {
                    "loop": command(("bash", "-c", LOOP, "loop", str(theirs))),
                    "audit": command((NODEPREP, *audit, "--state-dir", folder)),
                },
                rounds,
            )
            loop, audited = timings["loop"].wall_s, timings["audit"].wall_s
            median, most = config_bytes(ours)
            print(
                f"{functions:9} {loop:8.2f} {audited:8.2f}  {loop / audited:5.1f}"
                f"   {'':16} median {median}, most {most}"
            )


def config_bytes(root: Path) -> tuple[int, int]:
    """Bytes of configuration space read for one function: median and maximum."""
    import statistics
    from contextlib import AbstractContextManager, nullcontext

    from nodeprep.facts.pci import collect_functions
    from nodeprep.host.base import ReadAt
    from nodeprep.host.fabricated import FabricatedHost

    read: dict[str, int] = {}

    class Counting(FabricatedHost):
        def opened(self, path: str) -> AbstractContextManager[ReadAt]:
            def count(offset: int, length: int) -> bytes:
                content = self.read_bytes(path, offset=offset, length=length)
                read[path] = read.get(path, 0) + len(content)
                return content

            return nullcontext(count)

    collect_functions(Counting(root))
    return int(statistics.median(read.values())), max(read.values())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
