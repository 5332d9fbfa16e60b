"""The run through the host: command, environment, and what every answer becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest
from msgspec.structs import replace

from nodeprep.errors import Denied, HostError, NotFound, NotRecorded, TimedOut
from nodeprep.gate.run import (
    GateRequest,
    gate_argv,
    gate_environment,
    largest_size,
    run_gate,
)
from nodeprep.host.base import ReadAt
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.model.gpu import GpuProcess
from nodeprep.model.readings import CommandResult, NvmlReading, ResourcesReading, Stopped
from nodeprep.settings import GatePolicy
from nodeprep.units import GIB
from tests.gate.nodes import on_nvlink, on_root_ports, on_switch
from tests.simulator.nccl import simulate_all_reduce
from tests.watching import WatchesByRunning

BINARY = "/opt/nccl-tests/build/all_reduce_perf"
QUICK = GatePolicy(wait_s=0.0, repeats=0)
Answer = Callable[[tuple[str, ...]], CommandResult]


class GateHost(WatchesByRunning):
    """A host that has only programs."""

    origin = Origin.LIVE
    machine: str | None = None
    constructed = False
    simulates = False
    is_root: bool | None = True

    def __init__(self, answer: Answer, programs: Sequence[str] = (BINARY,)) -> None:
        self._answer = answer
        self._programs = programs
        self.ran: list[tuple[tuple[str, ...], float, dict[str, str]]] = []

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        raise NotFound(path)

    def write_bytes(self, path: str, data: bytes, *, offset: int) -> None:
        raise NotFound(path)

    def opened(self, path: str) -> AbstractContextManager[ReadAt]:
        raise NotFound(path)

    def read_text(self, path: str) -> str:
        raise NotFound(path)

    def list_dir(self, path: str) -> tuple[str, ...]:
        raise NotFound(path)

    def read_link(self, path: str) -> str:
        raise NotFound(path)

    def has_program(self, name: str) -> bool:
        return name in self._programs

    def run(
        self, argv: Sequence[str], *, deadline_s: float, env: dict[str, str] | None = None
    ) -> CommandResult:
        self.ran.append((tuple(argv), deadline_s, env or {}))
        return self._answer(tuple(argv))

    def nvml(self) -> NvmlReading:
        raise NotFound("NVML")

    def resources(self) -> ResourcesReading:
        raise NotFound("resources")


def printing(text: str, status: int = 0, **fields: Any) -> Answer:
    def answer(argv: tuple[str, ...]) -> CommandResult:
        return CommandResult(argv=argv, status=status, stdout=text, stderr="", **fields)

    return answer


def failing(error: HostError) -> Answer:
    def answer(argv: tuple[str, ...]) -> CommandResult:
        raise error

    return answer


def table(node: NodeFacts, busbw: float = 24.0, **options: Any) -> str:
    devices = [(gpu.index, gpu.bdf) for gpu in node.gpus]
    names = [gpu.name or "?" for gpu in node.gpus]
    options = {"simulated_line": False} | options
    return simulate_all_reduce("2.19.6", devices, names, busbw, **options)


def measure(host: GateHost, node: NodeFacts, **options: Any) -> GateResult:
    group = options.pop("group", tuple(gpu.index for gpu in node.gpus))
    policy = options.pop("policy", QUICK)
    return run_gate(host, node, group, policy, GateRequest(**options))


def test_a_good_node_passes() -> None:
    node = on_switch(4)
    host = GateHost(printing(table(node), duration_s=3.5))
    result = measure(host, node)
    assert result.verdict is GateVerdict.PASS
    assert (result.measured_gbps, result.threshold_gbps) == (24.0, 22.0)
    assert (result.binary, result.duration_s) == (BINARY, 3.5)
    assert len(result.rows) == 7
    ((argv, deadline_s, _),) = host.ran
    assert argv == (
        BINARY, "-b", "8M", "-e", "512M", "-f", "2", "-g", "4", "-w", "5", "-n", "20", "-c", "1"
    )  # fmt: skip
    assert deadline_s == GatePolicy().deadline_s


def test_environment_chooses_nothing_for_nccl() -> None:
    node = on_switch(4, gpu_fields={"uuid": "GPU-1"})
    environment = gate_environment(node, (0, 1))
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-1"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["NCCL_SOCKET_IFNAME"] == "lo"
    assert environment["NCCL_IB_DISABLE"] == "1"
    chosen = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P", "NCCL_SHM", "NCCL_TESTS")
    assert not [name for name in environment if name.startswith(chosen)]
    assert gate_environment(on_switch(4), (2, 0))["CUDA_VISIBLE_DEVICES"] == "0,2"


def test_the_binary_is_looked_for_in_order() -> None:
    node = on_switch(2)
    path = GateHost(printing(table(node)), programs=("all_reduce_perf",))
    assert measure(path, node).binary == "all_reduce_perf"
    both = GateHost(printing(table(node)), programs=("all_reduce_perf", BINARY))
    assert measure(both, node).binary == BINARY
    named = GateHost(printing(table(node)), programs=("/x/all_reduce_perf", BINARY))
    assert measure(named, node, binary="/x/all_reduce_perf").binary == "/x/all_reduce_perf"
    missing = measure(GateHost(printing("")), node, binary="/nowhere")
    assert missing.verdict is GateVerdict.NO_BINARY
    assert "/nowhere" in missing.reason
    nothing = measure(GateHost(printing(""), programs=()), node)
    assert nothing.verdict is GateVerdict.NO_BINARY
    assert nothing.threshold_gbps == 22.0


@pytest.mark.parametrize("group", [(), (0,)])
def test_fewer_than_two_gpus(group: tuple[int, ...]) -> None:
    host = GateHost(printing(""))
    assert measure(host, on_switch(4), group=group).verdict is GateVerdict.NOT_APPLICABLE
    assert host.ran == []


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (TimedOut("no answer within 180 s"), GateVerdict.HUNG),
        (NotFound("gone"), GateVerdict.NO_BINARY),
        (Denied("not executable"), GateVerdict.NO_BINARY),
        (NotRecorded("no answer recorded"), GateVerdict.PRECONDITION),
        (HostError("cannot start"), GateVerdict.CRASHED),
    ],
)
def test_what_the_host_refuses_is_a_verdict(error: HostError, verdict: GateVerdict) -> None:
    result = measure(GateHost(failing(error)), on_switch(4))
    assert result.verdict is verdict
    assert error.message in result.reason
    assert result.measured_gbps is None
    assert result.binary == BINARY


def test_reasons_not_to_touch_the_gpus() -> None:
    busy = on_switch(4, gpu_fields={"processes": (GpuProcess(pid=77, memory_bytes=None),)})
    host = GateHost(printing(table(busy)))
    result = measure(host, busy)
    assert (result.verdict, host.ran) == (GateVerdict.PRECONDITION, [])
    assert "77" in result.reason
    assert measure(host, busy, force=True).verdict is GateVerdict.PASS
    for fields in (
        {"mig_enabled": True},
        {"memory_total_bytes": 48 * GIB, "memory_used_bytes": 46 * GIB},
    ):
        node = on_switch(4, gpu_fields=fields)
        assert measure(GateHost(printing("")), node).verdict is GateVerdict.PRECONDITION
    assert measure(host, on_switch(4), group=(0, 9)).verdict is GateVerdict.PRECONDITION
    idle = on_switch(4, gpu_fields={"processes": (), "memory_total_bytes": 48 * GIB})
    assert measure(GateHost(printing(table(idle))), idle).verdict is GateVerdict.PASS


def test_simulated_output_is_refused_unless_allowed() -> None:
    node = on_switch(4)
    for host in (
        GateHost(printing(table(node, simulated_line=True))),
        GateHost(printing(table(node), simulated=True)),
    ):
        refused = measure(host, node)
        assert refused.verdict is GateVerdict.INVALID_OUTPUT
        assert refused.simulated
        allowed = measure(host, node, allow_simulated=True)
        assert (allowed.verdict, allowed.simulated) == (GateVerdict.PASS, True)


def test_the_version_in_the_log_decides_the_class() -> None:
    """The same board is judged by the policy of the library that ran."""
    node = on_root_ports(4)
    new = measure(GateHost(printing(table(node, 14.0, transport="SHM"))), node)
    assert (new.verdict, new.threshold_source) == (GateVerdict.PASS, "table: pcie4-root-shm")
    old_text = table(node, 14.0, transport="SHM", nccl_version="2.20.5")
    old = measure(GateHost(printing(old_text)), node)
    assert (old.verdict, old.threshold_source) == (
        GateVerdict.FAIL_TRANSPORT, "table: pcie4-root-p2p",
    )  # fmt: skip


def test_marks_from_option_and_policy() -> None:
    node = on_switch(4)
    host = GateHost(printing(table(node, 20.0)))
    assert measure(host, node).verdict is GateVerdict.FAIL_BANDWIDTH
    policy = GatePolicy(min_busbw_gbps=19.0)
    assert measure(host, node, policy=policy).verdict is GateVerdict.PASS
    assert measure(host, node, policy=policy, min_busbw_gbps=21.0).verdict is (
        GateVerdict.FAIL_BANDWIDTH
    )


def test_nvlink_nodes_run_to_eight_gib() -> None:
    roomy = on_nvlink(8, 18, "NVIDIA H100 80GB HBM3", memory_total_bytes=80 * GIB)
    assert largest_size(roomy, tuple(range(8))) == "8G"
    assert largest_size(roomy, (0, 1)) == "512M"
    small = on_nvlink(8, 6, "Tesla V100-SXM3-32GB", memory_total_bytes=16 * GIB)
    assert largest_size(small, tuple(range(8))) == "512M"
    assert largest_size(on_switch(4), (0, 1, 2, 3)) == "512M"
    host = GateHost(failing(TimedOut("late")))
    measure(host, roomy)
    ((argv, deadline_s, _),) = host.ran
    assert argv == gate_argv(BINARY, range(8), "8G")
    assert deadline_s > GatePolicy().deadline_s


def test_garbage_is_a_verdict() -> None:
    node = on_switch(4)
    assert measure(GateHost(printing("\0\1\2")), node).verdict is GateVerdict.INVALID_OUTPUT
    assert measure(GateHost(printing("", -11)), node).verdict is GateVerdict.CRASHED
    cut = measure(GateHost(printing(table(node)[:1500], truncated=True)), node)
    assert cut.verdict is GateVerdict.INVALID_OUTPUT
    assert cut.warnings


def test_what_cannot_be_killed_is_named() -> None:
    node = on_switch(4)
    stuck = printing(
        table(node)[:1500], -9, stopped=Stopped.DEADLINE, survivors=("4711 (state D)",)
    )
    result = measure(GateHost(stuck), node, two_arms=True, diagnose=True)
    assert result.verdict is GateVerdict.HUNG
    assert "process 4711 (state D) cannot be killed: reboot the node" in result.reason
    assert result.survivors == ("4711 (state D)",)
    assert (result.arms, result.pair_runs) == ((), ())


def test_the_file_that_nccl_reads_is_told() -> None:
    node = on_switch(4)

    class Configured(GateHost):
        def read_text(self, path: str) -> str:
            if path == "/etc/nccl.conf":
                return "# site\nNCCL_P2P_LEVEL=SYS\n"
            return super().read_text(path)

    result = measure(Configured(printing(table(node))), node)
    assert "/etc/nccl.conf sets NCCL_P2P_LEVEL=SYS" in result.warnings


def test_gpus_that_are_missing() -> None:
    node = on_switch(4)
    host = GateHost(printing(table(node)))
    result = measure(host, node, expected_count=8)
    assert (result.verdict, host.ran) == (GateVerdict.PRECONDITION, [])
    assert "4 GPUs, expected are 8" in result.reason
    graded = tuple(
        replace(gpu, driver_grade="pci" if gpu.index == 2 else "nvml") for gpu in node.gpus
    )
    lost = measure(host, replace(node, gpus=graded))
    assert "the driver does not list GPU2" in lost.reason


def test_a_fabric_that_is_not_up() -> None:
    node = on_nvlink(8, 18, "NVIDIA H100 80GB HBM3", fabric_state=2)
    result = measure(GateHost(printing(table(node))), node)
    assert result.verdict is GateVerdict.PRECONDITION
    assert "in progress" in result.reason
    up = on_nvlink(8, 18, "NVIDIA H100 80GB HBM3", fabric_state=3)
    host = GateHost(printing(table(up, 440.0)))
    assert measure(host, up).verdict is GateVerdict.PASS


def test_the_mark_is_that_of_the_largest_size_measured() -> None:
    """8 GiB is asked for where memory allows; this run ended at 512 MiB."""
    node = on_nvlink(8, 18, "NVIDIA H20", fabric_state=3)
    slow, enough = (measure(GateHost(printing(table(node, gbps))), node) for gbps in (320.0, 351.0))
    assert (slow.verdict, slow.threshold_gbps) == (GateVerdict.FAIL_BANDWIDTH, 335.0)
    assert (enough.verdict, enough.threshold_gbps) == (GateVerdict.PASS, 335.0)


def test_other_gpus_than_asked_for() -> None:
    node = on_switch(4)
    moved = table(node).replace("[0000:43:00]", "[0000:99:00]")
    result = measure(GateHost(printing(moved)), node)
    assert result.verdict is GateVerdict.INVALID_OUTPUT
    assert "0000:99:00" in result.reason


def test_no_driver() -> None:
    node = on_switch(4, origin=Origin.LIVE, gpu_fields={"driver_grade": "pci"})
    result = measure(GateHost(printing(table(node))), node)
    assert result.verdict is GateVerdict.PRECONDITION
    assert "no NVIDIA driver" in result.reason


def test_a_mark_for_a_class() -> None:
    node = on_switch(4)
    policy = GatePolicy(class_busbw_gbps={"pcie4-switch-p2p": 25.0}, repeats=0)
    result = measure(GateHost(printing(table(node))), node, policy=policy)
    assert result.verdict is GateVerdict.FAIL_BANDWIDTH
    assert result.threshold_source == "config: pcie4-switch-p2p"
