"""GPUs below several switches: on two sockets, and in a tree of two levels."""

from __future__ import annotations

from tests.machines import boards, driver, l40s, parts
from tests.machines.fabric import nvme, slot, switch
from tests.machines.node import Node

TWO_SWITCHES_PORTS = ["0000:42:00.0", "0000:42:04.0", "0000:c2:00.0", "0000:c2:04.0"]
REARMED_PORTS = [f"0000:4a:{4 * index:02x}.0" for index in range(4)]


def two_switches() -> Node:
    """A switch on each socket, and a tensor-parallel group below each."""
    node = boards.start(
        boards.GENOA_2P,
        "l40s-two-switches",
        "two groups, each below a switch. "
        "Dual-socket EPYC with a Gen4 switch on each socket, two L40S below each, ACS redirect "
        "on: the model runs on two GPUs, so a group stays below its switch, and four downstream "
        "ports are freed; the root ports are left alone, since no group crosses the sockets",
        boards.CONSTRUCTED,
        boards.KERNEL_ACS,
        *l40s.FACTS[1:],
        boot=12,
        options="iommu=pt",
        config=boards.serving("Qwen/Qwen3-32B-FP8", 2),
        iommu=True,
    )
    nvme(node, "00:01.1", parts.GENOA_ROOT_PORT, parts.PM9A3, bus=1, acs=0x1D)
    gpus = [gpu for root in (0x40, 0xC0) for gpu in _pair(node, root)]
    node.nvml = driver.nvml(
        parts.L40S, gpus, level=lambda a, b: "PIX" if a // 2 == b // 2 else "SYS"
    )
    return node


def _pair(node: Node, root: int) -> list[str]:
    """A switch with two L40S below the root port of a root bus."""
    top = node.function(f"{root:02x}:01.1", parts.GENOA_ROOT_PORT, bus=root + 1, last_bus=root + 4,
                        acs=0x1D, driver="pcieport")  # fmt: skip
    upstream = switch(node, f"{root + 1:02x}:00.0", parts.PEX880_UPSTREAM, parent=top,
                      buses=(root + 2, root + 4))  # fmt: skip
    return [
        slot(node, f"{root + 2:02x}:{4 * index:02x}.0", parts.PEX880_DOWNSTREAM, parts.L40S,
             parent=upstream, bus=root + 3 + index, acs=0x1D)
        for index in range(2)
    ]  # fmt: skip


def broadcom_tree() -> Node:
    """Eight GPUs below two leaf switches of one top switch; half of the leaf ports redirect."""
    node = boards.start(
        boards.GENOA_2P,
        "broadcom-two-level",
        "error recovery armed a leaf again. "
        "Dual-socket EPYC, eight RTX PRO 6000 below two leaf switches of one top switch: PIX "
        "inside a leaf, PXB across; redirection had been cleared in this boot, and error recovery "
        "set it again on the four ports of the second leaf: only these are written",
        boards.CONSTRUCTED,
        boards.KERNEL_ACS,
        "restoring a port after AER or DPC recovery switches ACS on again (drivers/pci/pci.c, "
        "pci_restore_state); 0011 is 001d with 0x2c cleared",
        "ids and names: pci.ids (10de:2bb5 RTX PRO 6000 Blackwell Server Edition, 1000:c030 "
        "PEX890xx, 1022:14ab Genoa root port)",
        "97887 MiB: the framebuffer that nvidia-smi prints for this card",
        "one top switch and two leaves: a layout seen in nvidia-smi topo -m of 8-GPU nodes",
        boot=18,
        options="iommu=pt",
        config=boards.serving("zai-org/GLM-4.5-Air", 8),
        iommu=True,
        driver="580.126.09",
    )
    nvme(node, "00:01.1", parts.GENOA_ROOT_PORT, parts.PM9A3, bus=1, acs=0x1D)
    root_port = node.function("40:01.1", parts.GENOA_ROOT_PORT, bus=0x41, last_bus=0x4F, acs=0x1D,
                              speed_gts=32.0, driver="pcieport")  # fmt: skip
    top = switch(node, "41:00.0", parts.PEX890_UPSTREAM, parent=root_port, buses=(0x42, 0x4F),
                 speed_gts=32.0)  # fmt: skip
    gpus = _leaf(node, top, "42:00.0", first_bus=0x43, acs=0x11)
    gpus += _leaf(node, top, "42:04.0", first_bus=0x49, acs=0x1D)
    slot(node, "42:08.0", parts.PEX890_DOWNSTREAM, parts.CONNECTX7, parent=top, bus=0x4F, acs=0x1D,
         speed_gts=32.0, driver="mlx5_core", vfs=0)  # fmt: skip
    node.nvml = driver.nvml(
        parts.RTX_PRO_6000,
        gpus,
        level=lambda a, b: "PIX" if a // 4 == b // 4 else "PXB",
        driver="580.126.09",
    )
    return node


def _leaf(node: Node, top: str, port: str, *, first_bus: int, acs: int) -> list[str]:
    """A leaf switch below `port` of the top switch, with four GPUs; acs: of its own ports."""
    above = node.function(port, parts.PEX890_DOWNSTREAM, parent=top, bus=first_bus,
                          last_bus=first_bus + 5, acs=0x11, speed_gts=32.0,
                          driver="pcieport")  # fmt: skip
    upstream = switch(node, f"{first_bus:02x}:00.0", parts.PEX890_UPSTREAM, parent=above,
                      buses=(first_bus + 1, first_bus + 5), speed_gts=32.0)  # fmt: skip
    return [
        slot(node, f"{first_bus + 1:02x}:{4 * index:02x}.0", parts.PEX890_DOWNSTREAM,
             parts.RTX_PRO_6000, parent=upstream, bus=first_bus + 2 + index, acs=acs,
             speed_gts=32.0)
        for index in range(4)
    ]  # fmt: skip
