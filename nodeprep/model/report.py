"""The documents commands print: the JSON contract."""

from __future__ import annotations

from enum import Enum
from typing import Any

from nodeprep.model.acs import AcsPlan, AcsWrite, AppliedWrite, PortCheck, Refusal
from nodeprep.model.audit_report import AuditReport as AuditReport
from nodeprep.model.base import Document, Record
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.gate import GateResult
from nodeprep.model.memory import MemoryPlan
from nodeprep.model.pci import Bdf
from nodeprep.model.plan_report import PlanReport as PlanReport
from nodeprep.model.plan_report import SweepReport as SweepReport
from nodeprep.model.serving import Knob, RenderedFile


class StageStatus(Enum):
    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"


class Stage(Record, frozen=True):
    name: str
    status: StageStatus
    duration_s: float
    detail: str = ""


class NodeVerdict(Enum):
    READY = "ready"
    NOT_READY = "not-ready"


class AcsReport(Document, frozen=True):
    """What `acs plan`, `apply`, `verify` and `restore` print."""

    actions: tuple[AcsWrite | Refusal, ...]
    kernel_parameter: str
    applied: tuple[AppliedWrite, ...]
    verified: bool | None
    """None: nothing to verify."""
    plan: AcsPlan
    detail: str
    simulated: bool
    """The registers are a model of a recorded machine."""
    findings: tuple[Finding, ...] = ()
    """What the registers did since they were written first: armed again."""
    ports: tuple[PortCheck, ...] = ()
    """What `acs verify` found: every port it looked at against the word it should hold."""
    machine: str | None = None
    """Recorded machine, if one is replayed."""


class PersistReport(Document, frozen=True):
    """What `acs persist` prints."""

    method: str
    """`systemd` or `kernel`."""
    action: str
    """`install`, `remove` or `check`."""
    state: str
    """systemd: `absent`, `outdated`, `disabled`, `enabled`; kernel: see BootParameter."""
    detail: str
    files: tuple[RenderedFile, ...]
    kernel_parameter: str
    ports: tuple[PortCheck, ...]
    """The ports that the parameter of this boot names."""
    next_steps: tuple[str, ...]
    notes: tuple[str, ...]


class WatchReport(Document, frozen=True):
    """One look of `watch`."""

    why: str
    """`start`, `interval`, or the events."""
    gpus: int
    """As many as answer."""
    lost: tuple[str, ...]
    """GPUs that were there and are not, each with what is known of it."""
    paths_free: bool
    """No wanted GPU path redirects, when the look ends."""
    acs: str
    """What was found and done."""
    actions: tuple[str, ...]
    """What was done: stamp removed, units stopped, ports written."""
    findings: tuple[Finding, ...]
    simulated: bool


class AcsSection(Record, frozen=True):
    actions: tuple[AcsWrite | Refusal, ...] = ()
    applied: tuple[AppliedWrite, ...] = ()
    kernel_parameter: str = ""
    verified: bool | None = None
    warnings: tuple[str, ...] = ()
    """What policy allows beyond the default: writing in a guest, say."""


class Report(Document, frozen=True):
    """The result of a boot run."""

    verdict: NodeVerdict
    exit_status: int
    machine: str | None
    dry_run: bool
    simulated: bool
    stages: tuple[Stage, ...]
    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]
    acs: AcsSection
    gate: GateResult | None
    memory: MemoryPlan | None
    knobs: tuple[Knob, ...]
    rendered: tuple[str, ...]
    reasons: tuple[str, ...]
    """Why not ready; empty when ready."""
    gate_groups: tuple[GateResult, ...] = ()
    """One measurement for each server's GPUs, where the node serves several groups."""

    @property
    def measured(self) -> tuple[GateResult, ...]:
        """Every measurement of the run: all GPUs first."""
        return (() if self.gate is None else (self.gate,)) + self.gate_groups


class GateReport(GateResult, frozen=True, kw_only=True):
    """What `gate` prints: the result itself, with the head of a document."""

    schema: str
    tool_version: str
    boot_id: str | None
    collected_at: str


class MachineEntry(Record, frozen=True):
    name: str
    constructed: bool
    notes: tuple[str, ...]
    summary: str = ""
    """What it shows, in at most 100 characters."""
    gpus: str = ""
    """`4 x NVIDIA L40S`."""
    exit_status: int | None = None
    """What `bringup` ends with on it; None: nobody wrote down what is expected."""


class MachinesReport(Document, frozen=True):
    """The recorded machines that ship."""

    machines: tuple[MachineEntry, ...]


class SnapshotReport(Document, frozen=True):
    """What `snapshot` prints about the file it wrote."""

    path: str
    size_bytes: int
    redacted: bool
    answers: int
    missing: tuple[str, ...]
    """Collectors that did not get everything, and why."""


class Hop(Record, frozen=True):
    """One step of the way from one GPU to the other."""

    bdf: Bdf | None
    """None for the host itself (root complex, CPU interconnect)."""
    what: str
    """`downstream port`, `host bridge 0000:40`..."""
    side: str
    """`a`, `common` or `b`."""
    vendor_device: str | None = None
    name: str | None = None
    acs: str | None = None
    """Control word, `none` without the capability, None when unknown."""
    redirects: tuple[str, ...] = ()
    link: str | None = None
    numa_node: int | None = None


class PathLevels(Record, frozen=True):
    tree: str
    driver: str


class ExplainReport(Document, frozen=True):
    pair: tuple[str, str]
    hops: tuple[Hop, ...]
    level: PathLevels
    level_words: str
    p2p: dict[str, str]
    nccl_path: str
    would_change: tuple[str, ...]
    would_not_change: tuple[str, ...]
    iommu: str
    findings: tuple[Finding, ...]
    machine: str | None = None
    """Recorded machine, if one is replayed."""


class ExplainFindingReport(Document, frozen=True):
    """What `explain FINDING-ID` prints."""

    id: str
    text: str
    """The page of the finding, in Markdown."""


class RenderReport(Document, frozen=True):
    files: tuple[RenderedFile, ...]
    knobs: tuple[Knob, ...]
    warnings: tuple[str, ...]
    simulated: bool
    groups: tuple[tuple[int, ...], ...] = ()
    """GPUs of each server, in nvidia-smi's numbering."""
    diff: str = ""
    """What would change, as a unified difference; only with --diff, which writes nothing."""


class LintReport(Document, frozen=True):
    """What `lint` found in files that start a vLLM server."""

    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]
    files: tuple[str, ...]
    servers: tuple[str, ...]
    """What starts a server in them: form and place."""
    vllm_version: str
    """The release they were checked against."""
    version_source: str


class ErrorReport(Document, frozen=True):
    """What `--format json` prints when a command could not do its work."""

    error: str
    hint: str
    status: int
    name: str
    context: dict[str, Any] = {}
