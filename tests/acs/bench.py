"""A node with its registers, its plan and its state folder, ready for a test to spoil."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nodeprep.acs.apply import apply
from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.acs.restore import restore
from nodeprep.model.acs import AcsPlan, AppliedWrite
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.pci import AcsFlag
from nodeprep.state import StateStore
from tests.acs.memory_host import MemoryHost
from tests.build import acs, facts, switch_of


def port(slot: int) -> str:
    """The downstream port of GPU `slot` in `switch_of`."""
    return f"0000:42:{slot:02x}.0"


@dataclass
class Bench:
    facts: NodeFacts
    host: MemoryHost
    store: StateStore

    def plan(self, **options: Any) -> AcsPlan:
        """A plan from what the registers hold at this moment."""
        return plan(self.read_again(), **({"pairs": parse_pairs("group")} | options))

    def read_again(self) -> NodeFacts:
        """Facts with the control words that the registers hold at this moment."""
        functions = {
            bdf: one
            if one.acs is None
            else msgspec.structs.replace(
                one,
                acs=msgspec.structs.replace(one.acs, control=AcsFlag(self.host.control(bdf))),
            )
            for bdf, one in self.facts.functions.items()
        }
        return msgspec.structs.replace(self.facts, functions=functions)

    def apply(self, found: AcsPlan | None = None, **options: Any) -> tuple[AppliedWrite, ...]:
        return apply(self.host, self.facts, found or self.plan(), self.store, **options)

    def restore(self, **options: Any) -> tuple[AppliedWrite, ...]:
        return restore(self.host, self.facts, self.store, **options)

    def words(self) -> list[int]:
        """The control words of the downstream ports."""
        return [self.host.control(port(slot)) for slot in range(len(self.facts.gpus))]


def make_bench(
    folder: Path, words: Sequence[int] = (0x1D, 0x1D, 0x1D), *, origin: Origin = Origin.LIVE,
    **fields: Any,
) -> Bench:  # fmt: skip
    """GPUs under one switch, whose downstream ports hold the given control words."""
    functions = switch_of(len(words))
    for slot, word in enumerate(words):
        old = functions[2 + 2 * slot]
        functions[2 + 2 * slot] = msgspec.structs.replace(old, acs=acs(word, capabilities=0x7F))
    node = facts(functions, origin=origin, **fields)
    return Bench(node, MemoryHost(node), StateStore(folder / "state", folder / "run"))
