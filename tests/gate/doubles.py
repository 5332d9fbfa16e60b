"""Fabricated nodes with the double of nccl-tests installed, and the gate run over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeprep.facts.collect import collect
from nodeprep.gate.run import GateRequest, run_gate
from nodeprep.host.fabricated import FabricatedHost
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import GateResult
from nodeprep.settings import Accelerators, GatePolicy
from tests.fabricated import FabricatedTree, add_switch
from tests.simulator.install import install

REDIRECTING = 0x1D
CLEAR = 0x11


class DoubledNode:
    """A switch with GPUs below it, and an all_reduce_perf that computes from its registers."""

    def __init__(
        self,
        folder: Path,
        *,
        slots: int = 4,
        control: int = CLEAR,
        host: dict[str, Any] | None = None,
        **card_fields: Any,
    ) -> None:
        self.folder = folder
        tree = FabricatedTree(folder / "tree")
        self.tree = tree
        self.ports = add_switch(tree, slots=slots, control=control, **card_fields)
        tree.host_json(**({"cpu_vendor": "AuthenticAMD", "sockets": 1, "iommu": "off",
                           "virtualization": "none"} | (host or {})))  # fmt: skip
        self.host = FabricatedHost(tree.root)

    @property
    def facts(self) -> NodeFacts:
        return collect(self.host, Accelerators(), names=False)

    def gate(
        self,
        mode: str = "ok",
        *,
        policy: GatePolicy | None = None,
        request: dict[str, Any] | None = None,
        **setup: Any,
    ) -> GateResult:
        """One gate over all GPUs with a fresh double."""
        program = install(self.folder, self.tree.root, mode=mode, **setup)
        return self.again(program, policy=policy, request=request)

    def again(
        self,
        program: Path,
        *,
        policy: GatePolicy | None = None,
        request: dict[str, Any] | None = None,
    ) -> GateResult:
        """The same double once more: it counts its runs."""
        asked: dict[str, Any] = {"binary": str(program), "allow_simulated": True} | (request or {})
        facts = self.facts
        group = tuple(gpu.index for gpu in facts.gpus)
        return run_gate(self.host, facts, group, policy or quick(), GateRequest(**asked))


def quick(**fields: Any) -> GatePolicy:
    """Limits of seconds; a double on a busy computer takes some until its first row."""
    defaults: dict[str, Any] = {
        "deadline_s": 60.0, "silence_s": 30.0, "wait_s": 0.0, "retry_every_s": 0.2, "pair_s": 30.0,
    }  # fmt: skip
    return GatePolicy(**(defaults | fields))


def processes_of(folder: Path) -> list[str]:
    """Living processes whose command line names the folder."""
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdecimal():
            continue
        try:
            line = (place / "cmdline").read_bytes()
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(folder).encode() in line and state != "Z":
            found.append(f"{place.name} {state}")
    return found


def kinds(result: GateResult) -> list[str]:
    return [finding.id for finding in result.findings]
