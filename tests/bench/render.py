"""`nodeprep render` against an interpreter that only imports click and jinja2.

    python -m tests.bench.render [ROUNDS]

Both take turns; processor time counts, so that a busy machine does not.  The target is a ratio of
at most 3.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

NODEPREP = str(Path(sys.executable).parent / "nodeprep")
MODEL = "meta-llama/Llama-3.3-70B-Instruct"


def timed(argv: tuple[str, ...]) -> float:
    """Processor seconds of one process, user and system."""
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, argv
    return used.ru_utime + used.ru_stime


def main(rounds: int) -> float:
    """The ratio of the medians; also printed."""
    with tempfile.TemporaryDirectory() as folder:
        contenders = {
            "imports": (sys.executable, "-c", "import click, jinja2"),
            "render": (NODEPREP, "render", "--machine", "l40s-clean", "--model", MODEL,
                       "-o", f"{folder}/out", "--state-dir", f"{folder}/state"),
        }  # fmt: skip
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, argv in contenders.items():
                spent = timed(argv)
                if number:
                    taken[name].append(spent)
    imports, render = (statistics.median(taken[name]) for name in contenders)
    print(f"imports {imports:.3f} s, render {render:.3f} s, ratio {render / imports:.2f}")
    return render / imports


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
