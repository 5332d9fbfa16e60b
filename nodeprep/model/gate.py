"""The bandwidth gate: rows of nccl-tests, transports, threshold, verdict."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record


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


class GateResult(Record, frozen=True):
    verdict: GateVerdict
    reason: str
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
