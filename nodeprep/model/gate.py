"""The bandwidth gate: rows of nccl-tests, transports, threshold, verdict."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record
from nodeprep.model.finding import Finding
from nodeprep.model.pci import Bdf


class NcclOutcome(Enum):
    """What a text of all_reduce_perf proves, before any threshold."""

    OK = "ok"
    OK_UNVALIDATED = "ok-unvalidated"
    """A whole table without data checking (-c 0)."""
    WRONG_DATA = "wrong-data"
    NO_COMMUNICATION = "no-communication"
    """One rank: bus bandwidth is 0 by formula."""
    TRUNCATED = "truncated"
    NOT_ALL_REDUCE = "not-all-reduce"
    MIXED = "mixed"
    """Several processes printed their tables into one text."""
    CRASH = "crash"
    HANG = "hang"
    LAUNCH_ERROR = "launch-error"
    NO_TABLE = "no-table"


class NcclHalf(Record, frozen=True):
    """Out-of-place or in-place half of a row."""

    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    wrong: float | None
    """Wrong values; None when the run did not check (N/A), or prints a largest error instead."""
    error: float | None = None
    """Largest difference from the right value: what versions before 2.13 print."""

    @property
    def checked(self) -> bool:
        """Whether the run compared the data of this half."""
        return self.wrong is not None or self.error is not None


class NcclRow(Record, frozen=True):
    size_bytes: int
    count: int | None
    dtype: str | None
    redop: str | None
    out_of_place: NcclHalf | None
    in_place: NcclHalf | None


class NcclRank(Record, frozen=True):
    rank: int
    host: str | None
    device: int | None
    bus_id: str | None
    name: str | None


class NcclReport(Record, frozen=True):
    """Everything one output of nccl-tests says."""

    outcome: NcclOutcome
    reason: str
    """Why this outcome, in a sentence."""
    collective: str | None
    simulated: bool
    """The output says of itself that it is simulated."""
    ranks: tuple[NcclRank, ...]
    rows: tuple[NcclRow, ...]
    avg_busbw_gbps: float | None
    """The printed average, which is never judged."""
    out_of_bounds: int | None
    out_of_bounds_ok: bool | None
    transports: tuple[str, ...]
    """Distinct transports of NCCL's log: `P2P/direct pointer`, `SHM/direct`, `NET/Socket`."""
    channels: dict[str, str] = {}
    """`0->1` -> transport, where the log names both ranks."""
    nccl_version: str | None = None
    messages: tuple[str, ...] = ()
    """Lines that explain a failure."""
    tests_version: str | None = None
    """Version of nccl-tests, where it prints one (2.17.4 and later)."""
    min_bytes: int | None = None
    max_bytes: int | None = None
    """The largest size asked for, or what the program reduced it to for lack of memory."""
    step_factor: int | None = None
    step_bytes: int | None = None
    """Either this or `step_factor` is known; the program steps by bytes unless told -f."""
    validation: int | None = None
    """0: the run was told not to check data."""
    problems: tuple[str, ...] = ()
    """Why the table cannot be taken as a measurement of the whole group; empty: it can."""


class NcclDocument(Record, frozen=True):
    """What `nodeprep parse nccl` prints: the report in short, then its parts."""

    outcome: NcclOutcome
    reason: str
    ranks: int
    """Rank lines in the text."""
    rows: int
    max_size_bytes: int | None
    busbw_out_of_place_gbps: float | None
    """At the largest size."""
    busbw_in_place_gbps: float | None
    avg_busbw_gbps: float | None
    out_of_bounds: int | None
    transports: tuple[str, ...]
    channels: dict[str, str]
    collective: str | None
    nccl_version: str | None
    tests_version: str | None
    simulated: bool
    problems: tuple[str, ...]
    messages: tuple[str, ...]
    devices: tuple[NcclRank, ...]
    table: tuple[NcclRow, ...]


class GateVerdict(Enum):
    PASS = "pass"  # noqa: S105
    FAIL_BANDWIDTH = "fail-bandwidth"
    FAIL_TRANSPORT = "fail-transport"
    WRONG_DATA = "wrong-data"
    HUNG = "hung"
    CRASHED = "crashed"
    NO_BINARY = "no-binary"
    INVALID_OUTPUT = "invalid-output"
    NOT_APPLICABLE = "not-applicable"
    """Fewer than two GPUs: nothing to measure."""
    NO_THRESHOLD = "no-threshold"
    PRECONDITION = "precondition"


class Threshold(Record, frozen=True):
    """What the node must reach, and why."""

    threshold_gbps: float | None
    expected_gbps: float | None
    source: str
    """`--min-busbw`, `config`, `table: <class>` or `none`."""
    link_class: str | None
    limiting_hop: str | None
    reasoning: tuple[str, ...]
    expected_transport: str | None
    """`P2P`, `SHM` or None when either will do."""
    verified: bool
    """Whether public recordings stand behind the row."""
    warn_below_gbps: float | None = None
    """At or over the threshold, yet lower than what such nodes reach."""


class GateRun(Record, frozen=True):
    """One of the runs behind a result: a repetition, an arm, a pair."""

    name: str
    """`1`, `2`, `3`; `p2p-off`; `0-3` for a pair of GPU indices."""
    verdict: GateVerdict
    measured_gbps: float | None
    reason: str
    duration_s: float | None = None
    transports: dict[str, str] = {}


class Neighbours(Record, frozen=True):
    """Two GPUs between which NCCL's log names a way, and what driver and registers say of them."""

    a: int
    b: int
    """GPU indices."""
    transport: str
    level: str | None
    p2p_read: str | None
    p2p_write: str | None
    redirecting: tuple[Bdf, ...] | None
    """Ports on the way whose ACS control word redirects; None: some register is not known."""


class CounterDelta(Record, frozen=True):
    """How far an error counter moved during the measurement."""

    subject: str
    name: str
    """`aer_dev_correctable`, `aer_dev_nonfatal`, `aer_dev_fatal` (sysfs), `replays` (NVML)."""
    before: int
    after: int

    @property
    def delta(self) -> int:
        return self.after - self.before


class ClockReading(Record, frozen=True):
    """Clock of one GPU, and why it is held back, at three moments; None: NVML would not say."""

    gpu: int
    sm_mhz: tuple[int | None, int | None, int | None]
    """Before, during and after."""
    throttles: tuple[str, ...]
    """Reasons seen during or after the run, `hw-thermal-slowdown`; without idle ones."""


class CopyFigure(Record, frozen=True):
    """One copy of nvbandwidth, GB/s."""

    test: str
    """`host_to_device_memcpy_ce`."""
    source: str
    target: str
    gbps: float
    hop_class: str | None
    """Link of the GPU, or level of the pair: what it is compared within."""


class DriftReading(Record, frozen=True):
    """This run against the node's own last good ones."""

    baseline_gbps: float
    runs: int
    """Good runs that the baseline is the median of."""
    change: float
    """-0.07: seven per cent below."""


class GateResult(Record, frozen=True):
    verdict: GateVerdict
    reason: str
    gpus: tuple[int, ...] = ()
    """Indices of the GPUs that were asked for, rising."""
    measured_gbps: float | None = None
    """Mean of out-of-place and in-place bus bandwidth at the largest size."""
    threshold_gbps: float | None = None
    threshold_source: str = "none"
    expected_gbps: float | None = None
    limiting_hop: str | None = None
    reasoning: tuple[str, ...] = ()
    rows: tuple[NcclRow, ...] = ()
    transports: dict[str, str] = {}
    avg_busbw_gbps: float | None = None
    warnings: tuple[str, ...] = ()
    simulated: bool = False
    binary: str | None = None
    duration_s: float | None = None
    source: str = "nccl-tests"
    """What measured: `nccl-tests` or `torch`."""
    nccl_version: str | None = None
    runs: tuple[GateRun, ...] = ()
    """Every repetition of the measurement, in order."""
    arms: tuple[GateRun, ...] = ()
    """The same collective with peer-to-peer switched off."""
    veto: str | None = None
    """Why peer-to-peer must not be used; the renderer obeys it."""
    neighbours: tuple[Neighbours, ...] = ()
    pair_runs: tuple[GateRun, ...] = ()
    """What --diagnose measured pair by pair."""
    findings: tuple[Finding, ...] = ()
    counters: tuple[CounterDelta, ...] = ()
    clocks: tuple[ClockReading, ...] = ()
    copies: tuple[CopyFigure, ...] = ()
    drift: DriftReading | None = None
    survivors: tuple[str, ...] = ()
    """Processes that could not be killed: the node needs a reboot."""

    @property
    def p2p_verified(self) -> bool:
        """Whether checked data went from GPU to GPU without passing through host memory.

        The verdict stands for the data check; the transports of NCCL's log tell the way.
        """
        if self.verdict is not GateVerdict.PASS or not self.transports or self.veto is not None:
            return False
        return all(name.startswith("P2P") for name in self.transports.values())
