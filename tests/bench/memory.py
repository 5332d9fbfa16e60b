"""Peak memory and time of an audit of a large tree, and of pastes of 100 MB.

python -m tests.bench.memory
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nodeprep.parse.kinds import KINDS
from tests.fabricated import scale_tree

HOSTILE_BYTES = 100 * 10**6
PASTES = {
    "rows": b"GPU0\tX\tPIX\tSYS\n",
    "one line": b"GPU0 ",
    "escapes": b"\x1b[4mGPU0\x1b[0m X\n",
    "brackets": b"[",
}
RUN = """
import atexit, re, sys
from nodeprep.cli import main

def say():
    status = open("/proc/self/status").read()
    print("peak", re.search(r"VmHWM:\\s+(\\d+)", status)[1], file=sys.stderr)

atexit.register(say)
sys.argv[0] = "nodeprep"
main()
"""


def measured(*arguments: str) -> tuple[float, float, float, int]:
    """Wall and CPU seconds, MiB at the peak (VmHWM: of this process alone), exit status."""
    started, before = time.perf_counter(), os.times()
    result = subprocess.run(
        (sys.executable, "-c", RUN, *arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wall_s, after = time.perf_counter() - started, os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    return wall_s, cpu_s, int(result.stderr.rpartition("peak ")[2]) / 1024, result.returncode


def main() -> None:
    print(f"{'':34} wall s  cpu s  peak MiB  exit status")
    with tempfile.TemporaryDirectory() as folder:
        for functions in (220, 1012):
            tree = Path(folder, str(functions))
            scale_tree(tree, functions)
            audit = ("audit", "--sysfs-root", str(tree), "--state-dir", folder)
            show(f"audit, {functions} functions", *measured(*audit))
        paste = Path(folder, "paste")
        for name, unit in PASTES.items():
            paste.write_bytes(unit * (HOSTILE_BYTES // len(unit)))
            for kind in KINDS:
                show(f"parse {kind}, {name}", *measured("parse", kind, str(paste)))
            audit = ("audit", "--snapshot", str(paste), "--state-dir", folder)
            show(f"audit --snapshot, {name}", *measured(*audit))


def show(what: str, wall_s: float, cpu_s: float, peak_mib: float, status: int) -> None:
    print(f"{what:34} {wall_s:6.2f} {cpu_s:6.2f} {peak_mib:9.0f}  {status}", flush=True)


if __name__ == "__main__":
    main()
