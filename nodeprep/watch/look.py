"""One look at the node: lost GPUs, paths that redirect again, and what is done about both."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from msgspec.structs import replace

from nodeprep.acs.again import hands_off, may_write_in_use, saved_in_this_boot
from nodeprep.acs.apply import apply
from nodeprep.acs.pairs import pair_choice
from nodeprep.acs.plan import plan
from nodeprep.audit.run import audit
from nodeprep.errors import HostError, NodeprepError
from nodeprep.facts.collect import collect
from nodeprep.host.base import Host
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.finding import Finding
from nodeprep.model.pci import Bdf, ConfigAccess
from nodeprep.model.report import WatchReport
from nodeprep.settings import Settings
from nodeprep.stamp import stamp
from nodeprep.state import StateStore

_DEADLINE_S = 30.0
_FINDINGS = ("acs-rearmed", "gpu-count-mismatch", "gpu-hardware-fault")


class Looker:
    """Looks again and again, and remembers the GPUs it has seen.

    A GPU counts as lost until the daemon is started anew: that it shows up again does not make the
    node what the gate measured.  Only a boot run makes a node ready.
    """

    def __init__(
        self, host: Host, settings: Settings, store: StateStore, today: Callable[[], date]
    ) -> None:
        self._host = host
        self._settings = settings
        self._store = store
        self._today = today
        self._seen: dict[Bdf, str | None] = {}
        self._lost: dict[Bdf, str] = {}

    def look(self, why: str) -> WatchReport:
        """Raises nothing that a later look could do better; NeedsRoot and UsageError, though."""
        facts = collect(self._host, self._settings.accelerators, names=False)
        actions: list[str] = []
        if self._note_lost(facts):
            actions += self._give_up("a GPU is lost")
            actions += self._stop_units()
        free, told = self._free_paths(facts, actions)
        if not free:
            actions += self._give_up("GPU paths redirect")
        return WatchReport(
            **stamp("watch", facts.boot_id),
            why=why,
            gpus=sum(gpu.bdf not in self._lost for gpu in facts.gpus),
            lost=tuple(f"{bdf} ({how})" for bdf, how in sorted(self._lost.items())),
            paths_free=free,
            acs=told,
            actions=tuple(actions),
            findings=self._findings(facts),
            simulated=self._host.simulates,
        )

    def _note_lost(self, facts: NodeFacts) -> bool:
        """Whether a GPU was lost since the last look."""
        grades = {gpu.bdf: gpu.driver_grade for gpu in facts.gpus}
        answered = any(grade != "pci" for grade in grades.values())
        before = len(self._lost)
        for bdf, grade in self._seen.items():
            if bdf not in facts.functions:
                self._lost.setdefault(bdf, "gone from the bus")
            elif facts.functions[bdf].config_access is ConfigAccess.NONE:
                self._lost.setdefault(bdf, "does not answer: fallen off the bus")
            elif bdf not in grades:
                driver = facts.functions[bdf].driver
                self._lost.setdefault(bdf, f"no longer this node's: driver {driver or 'none'}")
            elif answered and grade != "pci" and grades[bdf] == "pci":
                self._lost.setdefault(bdf, "the driver has lost it")
        self._seen |= {
            bdf: grade for bdf, grade in grades.items() if self._seen.get(bdf) in (None, "pci")
        }
        return len(self._lost) > before

    def _give_up(self, why: str) -> list[str]:
        """The stamp says that this node is as it was measured: it goes."""
        try:
            if self._store.read_ready() is None:
                return []
            self._store.remove_ready()
        except NodeprepError as error:
            return [f"the ready stamp could not be removed: {error.message}"]
        return [f"removed the ready stamp: {why}"]

    def _stop_units(self) -> list[str]:
        """What requires these units stops with them."""
        if self._host.origin is not Origin.LIVE:
            return []
        told = []
        for unit in self._settings.watch.stop_units:
            argv = ("systemctl", "--no-block", "stop", unit)
            try:
                result = self._host.run(argv, deadline_s=_DEADLINE_S)
            except HostError as error:
                told.append(f"could not stop {unit}: {error.message}")
                continue
            said = " ".join(result.stderr.split())[:200]
            told.append(f"stopped {unit}" if result.status == 0 else f"{unit}: {said}")
        return told

    def _free_paths(self, facts: NodeFacts, actions: list[str]) -> tuple[bool, str]:
        """Whether every wanted path is free at the end, and what there is to say."""
        policy = self._settings.acs
        wanted = plan(
            facts,
            pairs=pair_choice(self._settings),
            allow_in_guest=policy.allow_in_guest,
            allow_in_use=may_write_in_use(policy),
        )
        if not wanted.writes:
            if wanted.refusals:
                return False, f"unknown: {wanted.refusals[0].reason}"
            return True, "no GPU path redirects"
        ports = ", ".join(write.bdf for write in wanted.writes)
        if (why_not := hands_off(policy, facts, self._store)) is not None:
            return False, f"{ports} redirect; {why_not}"
        try:
            applied = apply(self._host, facts, wanted, self._store)
        except NodeprepError as error:
            return False, f"{ports} redirect; {error.message}"
        actions += [
            f"wrote {one.write.after} to {one.write.bdf} ({one.write.before})" for one in applied
        ]
        return True, f"{len(applied)} ports redirected and were cleared"

    def _findings(self, facts: NodeFacts) -> tuple[Finding, ...]:
        known = replace(facts, acs_saved=saved_in_this_boot(facts, self._store))
        found = audit(known, self._settings, self._today())
        return tuple(one for one in found if one.id in _FINDINGS)
