"""The servers that the machines are built in: CPUs, NUMA nodes, root complexes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.machines import parts
from tests.machines.host_files import Host, host_files
from tests.machines.node import Node, Part

CONSTRUCTED = (
    "constructed from public facts, not recorded on a node; every figure of a measurement is "
    "simulated"
)
KERNEL_ACS = (
    "ACSCtl 001d: what Linux sets on every ACS port when an IOMMU driver is active, iommu=pt "
    "included (drivers/pci/pci.c, pci_std_enable_acs)"
)
UBUNTU_24, UBUNTU_22 = "6.8.0-51-generic", "5.15.0-126-generic"
DRIVER = "570.124.06"


@dataclass(frozen=True)
class Board:
    """What several machines have in common."""

    host: Host
    roots: dict[str, int] = field(default_factory=dict)
    """Root bus -> NUMA node."""
    root_complex: Part | None = None
    """What sits at 00.0 of every root bus; None: the machine adds it itself."""


AMD, INTEL = "AuthenticAMD", "GenuineIntel"

GENOA_2P = Board(
    Host(AMD, "AMD EPYC 9354 32-Core Processor", sockets=2, numa_nodes=2, cpus=128, memory_gib=768),
    {"0000:00": 0, "0000:40": 0, "0000:80": 1, "0000:c0": 1},
    parts.GENOA_ROOT_COMPLEX,
)
GENOA_1P_NPS4 = Board(
    Host(AMD, "AMD EPYC 9354P 32-Core Processor", sockets=1, numa_nodes=4, cpus=64, memory_gib=384),
    {"0000:00": 0, "0000:40": 1, "0000:80": 2, "0000:c0": 3},
    parts.GENOA_ROOT_COMPLEX,
)
MILAN_2P = Board(
    Host(AMD, "AMD EPYC 7543 32-Core Processor", sockets=2, numa_nodes=2, cpus=128, memory_gib=512),
    {
        **dict.fromkeys(("0000:00", "0000:20", "0000:40", "0000:60"), 0),
        **dict.fromkeys(("0000:80", "0000:a0", "0000:c0", "0000:e0"), 1),
    },
    parts.ZEN2_ROOT_COMPLEX,
)
THREADRIPPER = Board(
    Host(
        AMD, "AMD Ryzen Threadripper PRO 5975WX 32-Cores", sockets=1, numa_nodes=1, cpus=64,
        memory_gib=256,
    ),
    dict.fromkeys(("0000:00", "0000:20", "0000:40", "0000:60"), 0),
    parts.ZEN2_ROOT_COMPLEX,
)  # fmt: skip
ICE_LAKE_2P = Board(
    Host(
        INTEL, "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", sockets=2, numa_nodes=2, cpus=128,
        memory_gib=512,
    ),
    {"0000:00": 0, "0000:16": 0, "0000:4a": 0, "0000:97": 1, "0000:c9": 1},
    parts.INTEL_ROOT_COMPLEX,
)  # fmt: skip
GUEST = Board(
    Host(
        AMD, "AMD EPYC 9354 32-Core Processor", sockets=1, numa_nodes=1, cpus=32, memory_gib=192,
        virtualization="kvm",
    )
)  # fmt: skip


def start(
    board: Board,
    name: str,
    *notes: str,
    boot: int,
    options: str,
    config: str,
    iommu: bool,
    kernel: str = UBUNTU_24,
    driver: str = DRIVER,
) -> Node:
    """A node without a device: its board, kernel, command line and configuration file.

    notes: what the machine shows, then the facts it rests on; `options`: of the command line.
    iommu: whether the kernel forms IOMMU groups.
    """
    node = Node(
        name=name,
        notes=notes,
        boot_id=f"a6c1f1de-58a9-4b3e-9a52-6f0f5f3a{boot:04d}",
        iommu=iommu,
        roots=dict(board.roots),
    )
    cmdline = f"BOOT_IMAGE=/boot/vmlinuz-{kernel} root=/dev/md0 ro {options}".rstrip()
    host_files(node, board.host, kernel=kernel, cmdline=cmdline, driver=driver, config=config)
    if board.root_complex is not None:
        for root in node.roots:
            node.function(f"{root}:00.0", board.root_complex)
    return node


def serving(model: str, tensor_parallel: int, *more: str) -> str:
    """The configuration file of a machine."""
    lines = (
        "# Recorded with the node: what it is to serve.",
        "[serving]",
        f'model = "{model}"',
        f"tensor_parallel = {tensor_parallel}",
        *more,
    )
    return "\n".join(lines) + "\n"
