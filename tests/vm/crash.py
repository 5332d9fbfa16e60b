#!/usr/bin/python3
"""Runs in the guest: kills an apply with SIGKILL at each of its steps, then restores, and tells.

Prints a JSON list: the step, the control words after the kill, the exit status of `acs restore`,
and the words after it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

sys.path.insert(0, "/opt/nodeprep/lib")

from pathlib import Path

from nodeprep.acs.apply import apply
from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.acs.registers import read_port
from nodeprep.facts.collect import collect
from nodeprep.host.live import LiveHost
from nodeprep.settings import load_settings
from nodeprep.state import RUN_DIR, STATE_DIR, StateStore


def main() -> None:
    host, store = LiveHost(), StateStore(STATE_DIR, RUN_DIR)
    settings = load_settings(Path("/etc/nodeprep/config.toml"))
    facts = collect(host, settings.accelerators, names=False)
    wanted = plan(facts, pairs=parse_pairs("group"), allow_in_guest=True)
    ports = [write.bdf for write in wanted.writes]

    def words() -> list[str]:
        return [f"{read_port(host, port).control:04x}" for port in ports]

    def killed_at(number: int) -> str | None:
        """The step at which the apply was killed; None: it has fewer steps."""
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            left = iter(range(number, -1, -1))

            def follow(step: str) -> None:
                if next(left) == 0:
                    os.write(sender, step.encode())
                    os.kill(os.getpid(), signal.SIGKILL)

            apply(host, facts, wanted, store, on_step=follow)
            os._exit(0)
        os.close(sender)
        with os.fdopen(receiver) as said:
            step = said.read()
        os.waitpid(child, 0)
        return step or None

    told: list[dict[str, Any]] = []
    while (step := killed_at(len(told))) is not None:
        after_kill = words()
        restored = subprocess.run(["nodeprep", "acs", "restore", "--format", "json"],
                                  capture_output=True, text=True)  # fmt: skip
        told.append({"step": step, "killed": after_kill, "status": restored.returncode,
                     "restored": words(), "said": restored.stderr})  # fmt: skip
    subprocess.run(["nodeprep", "acs", "restore"], capture_output=True)
    print(json.dumps({"ports": ports, "steps": told, "end": words()}))


if __name__ == "__main__":
    main()
