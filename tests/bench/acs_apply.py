"""Whole `nodeprep acs apply` (plan, save, writes, read-back) against the published loop.

    python -m tests.bench.acs_apply [ROUNDS]

The loop asks setpci about every function that lspci lists, and writes 0000 where it answers; it
saves nothing and reads nothing back.  Both take turns on trees of the same size.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.audit_tree import LOOP, NODEPREP
from tests.fabricated import GPUS_A_SWITCH, FabricatedTree, scale_tree
from tests.pci_bytes import ACS_OFFSET

ARMED = (0x1D).to_bytes(2, "little")


def main(rounds: int) -> None:
    print("functions  ports   loop s  apply s  ratio   sysfs s  ratio   (median, wall)")
    for functions, ports in ((220, 4), (220, 80), (1012, 4), (1012, 100)):
        with tempfile.TemporaryDirectory() as folder:
            print(measure(Path(folder), functions, ports, rounds), flush=True)


def measure(folder: Path, functions: int, ports: int, rounds: int) -> str:
    tree = scale_tree(folder / "tree", functions, gpu_switches=ports // GPUS_A_SWITCH)
    state = folder / "state"
    ours = (NODEPREP, "acs", "apply", "--sysfs-root", str(tree.root), "--format", "json",
            "--state-dir", str(state))  # fmt: skip
    contenders = {
        "loop": ("bash", "-c", LOOP, "loop", str(tree.root)),
        "apply": ours,
        "sysfs": (*ours, "--method", "sysfs"),
    }
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, argv in contenders.items():
            arm(tree, state)
            spent = timed(lambda argv=argv: run(argv))  # type: ignore[misc]
            check(tree, name, ports)
            if number:
                taken[name].append(spent)
    loop, apply, sysfs = (statistics.median(taken[name]) for name in contenders)
    return (
        f"{functions:9} {ports:6} {loop:8.2f} {apply:8.2f} {loop / apply:6.1f}"
        f" {sysfs:9.2f} {loop / sysfs:6.1f}"
    )


def run(argv: tuple[str, ...]) -> None:
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def arm(tree: FabricatedTree, state: Path) -> None:
    """Every port as a kernel with an IOMMU leaves it at boot; nothing saved."""
    for bdf in tree.controls():
        with (tree.root / "devices" / bdf / "config").open("r+b") as file:
            file.seek(ACS_OFFSET + 6)
            file.write(ARMED)
    (state / "acs-state.json").unlink(missing_ok=True)


def check(tree: FabricatedTree, name: str, ports: int) -> None:
    """A contender that did not do its work has no time."""
    words = list(tree.controls().values())
    done = words.count(0) == len(words) if name == "loop" else words.count(0x11) == ports
    assert done, (name, ports)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
