"""PyTorch in the place of nccl-tests: its command, and what its JSON says."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from nodeprep.errors import HostError, ParseError
from nodeprep.gate.command import (
    MIN_SIZE,
    Command,
    Container,
    gate_environment,
    gpu_names,
)
from nodeprep.gate.torch_all_reduce import SCHEMA
from nodeprep.host.base import Host
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import NcclHalf, NcclOutcome, NcclRank, NcclReport, NcclRow
from nodeprep.parse.nccl_tests import parse_nccl
from nodeprep.settings import GatePolicy
from nodeprep.units import parse_size_bytes

SCRIPT = Path(__file__).with_name("torch_all_reduce.py")
PLACE = "/opt/nodeprep-torch-all-reduce.py"
"""Where a container finds the script."""
_ASK = ("-c", "import torch.distributed as d; raise SystemExit(0 if d.is_available() else 1)")
_ASK_DEADLINE_S = 60.0
_MAX_ROWS = 64


class _Row(Record, frozen=True):
    size_bytes: int
    time_us: float
    algbw_gbps: float
    busbw_gbps: float
    wrong: int


class _Device(Record, frozen=True):
    rank: int
    device: int | None
    name: str
    bus_id: str | None


class _Document(Record, frozen=True):
    schema: str
    measurement: bool
    note: str
    backend: str
    torch_version: str
    nccl_version: str | None
    ranks: int
    devices: tuple[_Device, ...]
    rows: tuple[_Row, ...]


def find_python(host: Host, policy: GatePolicy) -> str | None:
    """An interpreter that can import torch.distributed; asking takes seconds, so it is the last
    resort."""
    return next((python for python in policy.torch_python if _has_torch(host, python)), None)


def _has_torch(host: Host, python: str) -> bool:
    if not host.has_program(python):
        return False
    try:
        asked = host.run((python, *_ASK), deadline_s=_ASK_DEADLINE_S)
    except HostError:
        return False
    return asked.status == 0


def torch_command(
    facts: NodeFacts,
    group: Sequence[int],
    program: str,
    max_size: str,
    *,
    settings: dict[str, str] | None = None,
    container: tuple[str, str] | None = None,
    backend: str = "nccl",
) -> Command:
    """torchrun over a group: one process for each GPU, rendezvous over loopback."""
    script = PLACE if container else str(SCRIPT)
    command = Command(
        program=program,
        arguments=(
            "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1",
            f"--nproc-per-node={len(group)}", script, f"--backend={backend}",
            f"--min-bytes={parse_size_bytes(MIN_SIZE)}",
            f"--max-bytes={parse_size_bytes(max_size)}",
        ),
        env=gate_environment(facts, group)
        | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        | (settings or {}),
        gpus=gpu_names(facts, group),
    )  # fmt: skip
    if container is None:
        return command
    engine, image = container
    name = f"nodeprep-gate-{secrets.token_hex(6)}"
    return replace(
        command,
        container=Container(engine=engine, image=image, name=name, mounts=((str(SCRIPT), PLACE),)),
    )


def parse_torch(output: str, everything: str) -> NcclReport:
    """The report of a run; `everything` also holds NCCL's log and what explains a failure.

    Raises ParseError for a document of another form.
    """
    around = parse_nccl(everything)
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        outcome = NcclOutcome.CRASH if around.messages else NcclOutcome.TRUNCATED
        reason = around.messages[0] if around.messages else "no JSON line at the end of the run"
        return replace(around, outcome=outcome, reason=reason)
    document = _decoded(lines[-1])
    wrong = [row for row in document.rows if row.wrong]
    return replace(
        around,
        outcome=NcclOutcome.WRONG_DATA if wrong else NcclOutcome.OK,
        reason=f"{wrong[0].wrong} wrong values at {wrong[0].size_bytes} bytes" if wrong else "",
        collective="all_reduce",
        ranks=tuple(
            NcclRank(rank=one.rank, host=None, device=one.device, bus_id=one.bus_id, name=one.name)
            for one in document.devices
        ),
        rows=tuple(map(_row, document.rows)),
        nccl_version=around.nccl_version or document.nccl_version,
        problems=_problems(document),
    )


def _decoded(line: str) -> _Document:
    try:
        document = msgspec.json.decode(line, type=_Document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParseError(f"not what the PyTorch run prints: {error}") from None
    if document.schema != SCHEMA or len(document.rows) > _MAX_ROWS:
        raise ParseError(f"not what the PyTorch run prints: schema {document.schema[:40]!r}")
    return document


def _problems(document: _Document) -> tuple[str, ...]:
    """Why the figures are no measurement of the group."""
    problems = []
    if not document.measurement:
        problems.append(document.note or "not a measurement")
    if not document.rows:
        problems.append("no row was measured")
    places = [one.bus_id for one in document.devices if one.bus_id]
    if len(set(places)) != len(places):
        problems.append("two ranks share one GPU")
    if len(document.devices) != document.ranks:
        problems.append("some rank did not name its device")
    return tuple(problems)


def _row(row: _Row) -> NcclRow:
    half = NcclHalf(
        time_us=row.time_us, algbw_gbps=row.algbw_gbps, busbw_gbps=row.busbw_gbps, wrong=row.wrong
    )
    return NcclRow(
        size_bytes=row.size_bytes, count=row.size_bytes // 4, dtype="float", redop="sum",
        out_of_place=None, in_place=half,
    )  # fmt: skip
