"""Which program measures, and with what arguments and environment it is started."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence

from msgspec.structs import replace

from nodeprep.gate.nvlink import has_nvlink
from nodeprep.host.base import Host
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.gpu import Gpu
from nodeprep.settings import GatePolicy
from nodeprep.units import GIB, parse_size_bytes

PROGRAM = "all_reduce_perf"
MIN_SIZE = "8M"
PCIE_SIZE = "512M"
NVLINK_SIZE = "8G"
"""NVLink is not yet saturated at 512 MiB."""
PAIR_SIZE = "128M"
"""Enough to tell a bad pair from a good one."""
_BUFFERS = 3
"""nccl-tests keeps three buffers of the largest size on each GPU (-c 1)."""
_SPARE_BYTES = 2 * GIB
ENGINES = ("docker", "podman")
LOG_PLACE = "/var/log/nodeprep-gate"
"""Where a container finds the folder for NCCL's log."""
P2P_OFF = {"NCCL_P2P_DISABLE": "1"}


class Container(Record, frozen=True):
    engine: str
    image: str
    name: str
    """By which it is killed."""
    mounts: tuple[tuple[str, str], ...] = ()
    """Files of the node and where the container finds them, read only."""


class Command(Record, frozen=True):
    """One program over one group of GPUs, before it is started."""

    program: str
    arguments: tuple[str, ...]
    env: dict[str, str]
    gpus: tuple[str, ...] = ()
    """What a container is given: UUIDs, or numbers where some GPU has none."""
    container: Container | None = None

    @property
    def shown(self) -> str:
        """What ran, for a person."""
        where = f" in {self.container.image}" if self.container else ""
        return f"{self.program}{where}"


def find_binary(host: Host, policy: GatePolicy, binary: str | None = None) -> str | None:
    """The program to run: the one named, else the first of the policy, else by the search path.

    Beside a fabricated tree only a program that somebody named: one that happens to lie on this
    computer would measure this computer.
    """
    if binary is not None:
        return binary if host.has_program(binary) else None
    if host.origin is Origin.FABRICATED and policy.binaries == GatePolicy().binaries:
        return None
    return next((path for path in (*policy.binaries, PROGRAM) if host.has_program(path)), None)


def find_engine(host: Host, policy: GatePolicy) -> str | None:
    """docker or podman."""
    wanted = (policy.container_engine,) if policy.container_engine else ENGINES
    return next((engine for engine in wanted if host.has_program(engine)), None)


def gate_command(
    facts: NodeFacts,
    group: Sequence[int],
    program: str,
    max_size: str,
    *,
    settings: dict[str, str] | None = None,
    container: tuple[str, str] | None = None,
) -> Command:
    """all_reduce_perf over a group; `settings`: NCCL variables that are under test.

    `container`: engine and image to run it in.
    """
    _, *arguments = gate_argv(program, group, max_size)
    command = Command(
        program=program,
        arguments=tuple(arguments),
        env=gate_environment(facts, group) | (settings or {}),
        gpus=gpu_names(facts, group),
    )
    if container is None:
        return command
    engine, image = container
    name = f"nodeprep-gate-{secrets.token_hex(6)}"
    return replace(command, container=Container(engine=engine, image=image, name=name))


def gate_argv(program: str, group: Sequence[int], max_size: str = PCIE_SIZE) -> tuple[str, ...]:
    """The command line.  No option that an old binary lacks: it would print its usage and end 0.

    -w and -n are given because their defaults changed between versions.
    """
    return (program, "-b", MIN_SIZE, "-e", max_size, "-f", "2", "-g", str(len(group)),
            "-w", "5", "-n", "20", "-c", "1")  # fmt: skip


def started(command: Command, folder: str | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Argument vector and environment; `folder` takes NCCL's log, None leaves it in the output."""
    place = folder if command.container is None else LOG_PLACE
    env = command.env | ({"NCCL_DEBUG_FILE": f"{place}/nccl.%h.%p.log"} if folder else {})
    if command.container is None:
        return (command.program, *command.arguments), env
    return _container_argv(command, command.container, env, folder), {}


def _container_argv(
    command: Command, container: Container, env: dict[str, str], folder: str | None
) -> tuple[str, ...]:
    """One process in a container that sees these GPUs and no network but loopback.

    NCCL shares memory through /dev/shm (--ipc=host), locks pages (memlock), and sets NUMA policy
    for host buffers (SYS_NICE).  Nothing is pulled: a boot run must not wait for a registry.
    """
    inside = dict(env)
    if all(name.isdecimal() for name in command.gpus):
        inside.pop("CUDA_VISIBLE_DEVICES", None)  # the container numbers its GPUs anew
    shared = [f"--volume={here}:{there}:ro" for here, there in container.mounts]
    shared += [f"--volume={folder}:{LOG_PLACE}"] if folder else []
    return (
        container.engine, "run", "--rm", "--pull=never", "--name", container.name,
        "--network=none", "--ipc=host", "--ulimit=memlock=-1", "--cap-add=SYS_NICE",
        *_gpu_options(container.engine, command.gpus), *shared,
        *(f"--env={name}={value}" for name, value in inside.items() if name != "LD_LIBRARY_PATH"),
        "--entrypoint", command.program, container.image, *command.arguments,
    )  # fmt: skip


def _gpu_options(engine: str, gpus: Sequence[str]) -> tuple[str, ...]:
    """Docker splits the value of --gpus at commas unless it is quoted; podman names CDI devices."""
    if engine == "podman":
        named = tuple(f"--device=nvidia.com/gpu={name}" for name in gpus)
        return (*named, "--security-opt=label=disable")
    return ("--gpus", f'"device={",".join(gpus)}"')


def largest_size(facts: NodeFacts, group: Sequence[int]) -> str:
    """`8G` when NVLink joins the whole group of more than a pair and memory allows, else `512M`."""
    pairs = [pair for pair in facts.pairs if pair.a in group and pair.b in group]
    joined = len(group) > 2 and bool(pairs) and all(has_nvlink(pair) for pair in pairs)
    free = [free_bytes(gpu) for gpu in members(facts, group)]
    roomy = all(size is not None and size >= need_bytes(NVLINK_SIZE) for size in free)
    return NVLINK_SIZE if joined and roomy else PCIE_SIZE


def gate_environment(facts: NodeFacts, group: Sequence[int]) -> dict[str, str]:
    """The environment beside the host's own small one.

    Bootstrap goes over loopback, so the gate works before the network is up, and no network card
    stands in for a GPU's way.  Nothing that would choose algorithm or transport is set, and nothing
    of the caller's NCCL settings is passed on.
    """
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(gpu_names(facts, group)),
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,P2P,SHM,NET,GRAPH,ENV",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
    }
    libraries = os.environ.get("LD_LIBRARY_PATH")
    return environment | ({"LD_LIBRARY_PATH": libraries} if libraries else {})


def gpu_names(facts: NodeFacts, group: Sequence[int]) -> tuple[str, ...]:
    """UUIDs in bus order; numbers when some GPU has none."""
    found = members(facts, group)
    uuids = [gpu.uuid for gpu in found if gpu.uuid]
    whole = len(uuids) == len(found) > 0
    return tuple(uuids) if whole else tuple(map(str, sorted(group)))


def members(facts: NodeFacts, group: Sequence[int]) -> list[Gpu]:
    """The GPUs of a group, in bus order: the order of CUDA's devices and of NCCL's ranks."""
    return sorted((gpu for gpu in facts.gpus if gpu.index in set(group)), key=lambda gpu: gpu.index)


def free_bytes(gpu: Gpu) -> int | None:
    if gpu.memory_total_bytes is None:
        return None
    return gpu.memory_total_bytes - (gpu.memory_used_bytes or 0)


def need_bytes(size: str) -> int:
    """Bytes a GPU must have free for a run up to this size."""
    return _BUFFERS * parse_size_bytes(size) + _SPARE_BYTES
