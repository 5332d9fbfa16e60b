"""Eight H100 SXM on NVSwitches: the switches' own ports redirect, and must be left alone."""

from __future__ import annotations

from tests.machines import boards, driver, parts
from tests.machines.host_files import Host
from tests.machines.node import Node

_ROOTS = (0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xC0, 0xE0)
GPUS = [f"0000:{root + 3:02x}:00.0" for root in _ROOTS]
NVSWITCH_PORTS = ["0000:02:1c.0", "0000:42:1c.0", "0000:82:1c.0", "0000:c2:1c.0"]
_BOARD = boards.Board(
    Host(
        boards.INTEL, "Intel(R) Xeon(R) Platinum 8480C", sockets=2, numa_nodes=2, cpus=224,
        memory_gib=2048,
    ),
    {f"0000:{root:02x}": int(root >= 0x80) for root in _ROOTS},
)  # fmt: skip


def sxm8() -> Node:
    """An HGX H100 8-GPU node."""
    node = boards.start(
        _BOARD,
        "h100-sxm8",
        "NVSwitch ports must be left alone. "
        "Eight H100 SXM on four NVSwitches, each GPU below a Gen5 switch with its NIC; only "
        "the ports above the NVSwitches redirect, as seen on a healthy node of this kind: "
        "NVLink carries the traffic, and no register may be written",
        boards.CONSTRUCTED,
        "ids and names: pci.ids (10de:2330 H100 SXM5, 10de:22a3 NVSwitch, 1000:c030 PEX890xx)",
        "81559 MiB: the framebuffer that nvidia-smi prints for H100 80GB HBM3",
        boot=4,
        options="iommu=pt",
        config=boards.serving("meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic", 4),
        iommu=True,
    )
    for index, root in enumerate(_ROOTS):
        _branch(node, index, root)
    node.nvml = driver.nvml(
        parts.H100_SXM,
        GPUS,
        level=lambda a, b: "NODE" if a // 4 == b // 4 else "SYS",
        nvlinks=18,
    )
    return node


def _branch(node: Node, index: int, root: int) -> None:
    """One root complex: switch, GPU, NIC, and on every second one an NVSwitch."""
    group = 100 * index
    node.function(f"{root:02x}:00.0", parts.INTEL_ROOT_COMPLEX, group=group)
    top = node.function(f"{root:02x}:01.0", parts.SPR_ROOT_PORT, bus=root + 1, last_bus=root + 5,
                        acs=0x11, speed_gts=32.0, driver="pcieport", group=group + 1)  # fmt: skip
    switch = node.function(f"{root + 1:02x}:00.0", parts.PEX890_UPSTREAM, parent=top, bus=root + 2,
                           last_bus=root + 5, speed_gts=32.0, driver="pcieport",
                           group=group + 2)  # fmt: skip
    below = (
        ("00.0", root + 3, parts.H100_SXM, "nvidia", 0x11, 16),
        ("10.0", root + 4, parts.CONNECTX7_IB, "mlx5_core", 0x11, 16),
        ("1c.0", root + 5, parts.NVSWITCH, "nvidia-nvswitch", 0x1D, 2),
    )
    for slot, bus, part, name, control, width in below:
        if part is parts.NVSWITCH and index % 2:
            continue
        speed_gts = 16.0 if part is parts.NVSWITCH else 32.0
        port = node.function(f"{root + 2:02x}:{slot}", parts.PEX890_DOWNSTREAM, parent=switch,
                             bus=bus, acs=control, width=width, speed_gts=speed_gts,
                             driver="pcieport", group=group + bus)  # fmt: skip
        node.function(f"{bus:02x}:00.0", part, parent=port, width=width, speed_gts=speed_gts,
                      driver=name, group=group + bus + 40)  # fmt: skip
