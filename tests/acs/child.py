"""Programs for tests that need processes of their own: `python -m tests.acs.child VERB ...`.

apply TREE STATE         one apply on a fabricated tree; prints what it wrote
kill TREE STATE COUNT    COUNT applies, each killed at a random instant, then restored and compared
hold STATE               takes the lock, says so, and keeps it
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nodeprep.acs.apply import apply
from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.acs.restore import restore
from nodeprep.errors import NodeprepError
from nodeprep.facts.pci import collect_functions
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.model.acs import AcsPlan
from nodeprep.model.facts import NodeFacts, Origin, Platform
from nodeprep.model.readings import CommandResult
from nodeprep.state import StateStore
from tests.build import facts


class CountingHost(FabricatedHost):
    """A fabricated tree that remembers which programs were run on it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls: list[tuple[str, ...]] = []

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        self.calls.append(tuple(argv))
        return super().run(argv, deadline_s=deadline_s, env=env)


def facts_of(host: FabricatedHost) -> NodeFacts:
    """Facts of a fabricated tree; what it does not state of its host stays unknown."""
    return facts(
        collect_functions(host).values(), origin=Origin.FABRICATED, is_root=None, boot_id=None,
        p2p=None, nvlinks=None, platform=Platform(),
    )  # fmt: skip


def _apply(tree: str, state: str) -> None:
    host = CountingHost(Path(tree))
    known = facts_of(host)
    try:
        applied = apply(host, known, plan_of(known), StateStore(Path(state)))
    except NodeprepError as error:
        print(json.dumps({"error": error.message, "written": len(host.calls)}))
    else:
        print(json.dumps({"ok": [one.ok for one in applied], "written": len(host.calls)}))


def _kill(tree: str, state: str, count: str) -> None:
    host, store = FabricatedHost(Path(tree)), StateStore(Path(state))
    original = facts_of(host)
    words = {bdf: one.acs.control for bdf, one in original.functions.items() if one.acs}
    whole_s = _timed(lambda: apply(host, original, plan_of(original), store))
    restore(host, original, store)
    left_written = mended = 0
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            apply(host, original, plan_of(original), store)
            os._exit(0)
        time.sleep(random.uniform(0, whole_s * 1.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        # A setpci that the dead process had started keeps the lock until its end.
        with store.lock():
            now = facts_of(host)
        left_written += any(now.functions[bdf].acs != original.functions[bdf].acs for bdf in words)
        restore(host, now, store)
        after = facts_of(host)
        mended += all(after.functions[bdf].acs == original.functions[bdf].acs for bdf in words)
    print(json.dumps({"kills": int(count), "left_written": left_written, "mended": mended}))


def plan_of(known: NodeFacts) -> AcsPlan:
    return plan(known, pairs=parse_pairs("group"))


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _hold(state: str) -> None:
    with StateStore(Path(state)).lock():
        print("held", flush=True)
        time.sleep(60)


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    verbs: dict[str, Callable[..., None]] = {"apply": _apply, "kill": _kill, "hold": _hold}
    verbs[verb](*arguments)
