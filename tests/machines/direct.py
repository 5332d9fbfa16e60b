"""GPUs on root ports of their own, no switch between them: the way leads through the CPU."""

from __future__ import annotations

from tests.machines import boards, driver, l40s, parts
from tests.machines.fabric import nvme, slot
from tests.machines.node import Node

_GENOA_FACTS = (
    boards.CONSTRUCTED,
    "ids and names: pci.ids (10de:26b9 L40S, 1022:14ab Genoa root port)",
    l40s.FRAMEBUFFER,
)
_P2P_ON_EPYC = (
    "P2P OK: the open driver accepts every AMD CPU since Zen (src/nvidia, cpu.c and p2p_caps.c)"
)


def host() -> Node:
    """Two L40S on each socket: the usual L40S server, where host memory is the right way."""
    node = boards.start(
        boards.GENOA_2P,
        "l40s-host",
        "no switch: through host memory. "
        "Dual-socket EPYC, four L40S on root ports of their own, two a socket, no switch: P2P is "
        "granted, yet NCCL goes through host memory beyond a switch, so the mark is that of this "
        "class and nothing is there to repair",
        *_GENOA_FACTS,
        _P2P_ON_EPYC,
        "NCCL since 2.23 uses P2P only up to PXB, with more than two GPUs on AMD too (paths.cc)",
        boot=10,
        options="amd_iommu=off",
        config=l40s.LLAMA_70B,
        iommu=False,
    )
    places = (("00:03.1", 0x03), ("40:01.1", 0x41), ("80:01.1", 0x81), ("c0:01.1", 0xC1))
    gpus = [slot(node, port, parts.GENOA_ROOT_PORT, parts.L40S, bus=bus, acs=0x00)
            for port, bus in places]  # fmt: skip
    nvme(node, "00:01.1", parts.GENOA_ROOT_PORT, parts.PM9A3, bus=1, acs=0x00)
    node.nvml = driver.nvml(
        parts.L40S, gpus, level=lambda a, b: "NODE" if a // 2 == b // 2 else "SYS"
    )
    return node


def nps4() -> Node:
    """One socket cut into four NUMA nodes, a GPU in each: SYS everywhere, without a second CPU."""
    node = boards.start(
        boards.GENOA_1P_NPS4,
        "epyc-nps4",
        "one socket, yet every pair is SYS. "
        "One EPYC in NPS4, four L40S, one in each NUMA node: every pair is SYS although there is "
        "one socket, and the figures are those of one socket; redirection was taken out by a "
        "kernel parameter, so no register is written",
        *_GENOA_FACTS,
        _P2P_ON_EPYC,
        "ACSCtl 0011: before 6.11 Linux sets 001d with an IOMMU driver active, then takes the bits "
        "of pci=disable_acs_redir out of it (drivers/pci/pci.c, pci_enable_acs)",
        "SYS: hwloc, which NVML asks, knows NUMA nodes and not sockets",
        boot=15,
        options="iommu=pt pci=disable_acs_redir=pci:1022:14ab",
        config=l40s.LLAMA_70B,
        iommu=True,
    )
    places = (("00:01.1", 0x01), ("40:01.1", 0x41), ("80:01.1", 0x81), ("c0:01.1", 0xC1))
    gpus = [slot(node, port, parts.GENOA_ROOT_PORT, parts.L40S, bus=bus, acs=0x11)
            for port, bus in places]  # fmt: skip
    nvme(node, "00:03.1", parts.GENOA_ROOT_PORT, parts.PM9A3, bus=3, acs=0x11)
    node.nvml = driver.nvml(parts.L40S, gpus, level=lambda _a, _b: "SYS")
    return node


def a100_pair() -> Node:
    """Two A100 PCIe with three NVLink bridges: redirecting root ports above them do not matter."""
    node = boards.start(
        boards.MILAN_2P,
        "a100-nvlink",
        "NVLink carries all; no writes. "
        "Dual-socket EPYC, two A100 80GB PCIe on root ports of one socket, joined by NVLink "
        "bridges (NV12): the root ports redirect, NVLink carries the traffic, nothing is written",
        boards.CONSTRUCTED,
        boards.KERNEL_ACS,
        "ids and names: pci.ids (10de:20b5 A100 PCIe 80GB, 1022:1483 Starship/Matisse GPP bridge)",
        "81920 MiB: the framebuffer that nvidia-smi prints for A100 80GB PCIe",
        "NV12 and 208 GB/s: three bridges of four links each; a pair of this kind was reported in "
        "NVIDIA/nccl-tests#178",
        boot=13,
        options="iommu=pt",
        config=boards.serving("Qwen/Qwen3-32B", 2),
        iommu=True,
        kernel=boards.UBUNTU_22,
        driver="550.163.01",
    )
    nvme(node, "00:03.1", parts.ZEN2_ROOT_PORT, parts.PM9A3, bus=1, acs=0x1D)
    gpus = [slot(node, port, parts.ZEN2_ROOT_PORT, parts.A100_PCIE, bus=bus, acs=0x1D)
            for port, bus in (("20:01.1", 0x21), ("40:01.1", 0x41))]  # fmt: skip
    node.nvml = driver.nvml(
        parts.A100_PCIE, gpus, level=lambda _a, _b: "NODE", driver="550.163.01", nvlinks=12
    )
    return node


def geforce() -> Node:
    """Four RTX 4090: the product offers no P2P, so redirecting ports cost nothing."""
    node = boards.start(
        boards.THREADRIPPER,
        "geforce-gns",
        "no P2P in these cards (GNS). "
        "Threadripper PRO, four GeForce RTX 4090 on root ports of their own: P2P is GNS, a limit "
        "of the product, so NCCL goes through host memory, and the redirecting root ports are "
        "left as they are",
        boards.CONSTRUCTED,
        boards.KERNEL_ACS,
        "ids and names: pci.ids (10de:2684 RTX 4090, 10de:22ba its audio function, 1022:1483 "
        "Starship/Matisse GPP bridge)",
        "24564 MiB: the framebuffer that nvidia-smi prints for RTX 4090",
        "GNS: nvidia-smi topo -p2p r on GeForce cards of this generation",
        boot=14,
        options="iommu=pt",
        config=boards.serving("Qwen/Qwen3-32B-FP8", 4),
        iommu=True,
    )
    gpus = []
    for root in (0x00, 0x20, 0x40, 0x60):
        port, bus = f"{root:02x}:01.1", root + 1
        gpu = slot(node, port, parts.ZEN2_ROOT_PORT, parts.RTX_4090, bus=bus, acs=0x1D,
                   multifunction=True)  # fmt: skip
        node.function(
            f"{bus:02x}:00.1", parts.AD102_AUDIO, parent=port, driver="snd_hda_intel",
            group=node.group(gpu), multifunction=True,
        )  # fmt: skip
        gpus.append(gpu)
    nvme(node, "40:03.1", parts.ZEN2_ROOT_PORT, parts.PM9A3, bus=0x42, acs=0x1D)
    node.nvml = driver.nvml(parts.RTX_4090, gpus, level=lambda _a, _b: "NODE", p2p="GNS")
    return node


def intel() -> Node:
    """Ice Lake: the driver accepts neither its root complex nor the way between its sockets."""
    node = boards.start(
        boards.ICE_LAKE_2P,
        "intel-cns",
        "the driver refuses P2P (CNS). "
        "Dual-socket Ice Lake Xeon, four L40S on root ports of their own, two a socket: P2P is "
        "CNS, because no switch joins them and this CPU is not on the driver's list; host memory "
        "carries the traffic, and the link between the sockets limits it",
        boards.CONSTRUCTED,
        boards.KERNEL_ACS,
        "ids and names: pci.ids (10de:26b9 L40S, 8086:09a2), kernel logs (8086:347a root port of "
        "Ice Lake, no name in pci.ids)",
        l40s.FRAMEBUFFER,
        "CNS: of Intel the open driver accepts Sapphire Rapids (model 143) only; Ice Lake is "
        "model 106",
        "10 GB/s between the sockets: NCCL's figure for Skylake and later up to Ice Lake (topo.h)",
        boot=19,
        options="intel_iommu=on iommu=pt",
        config=l40s.LLAMA_70B,
        iommu=True,
    )
    gpus = [slot(node, f"{root:02x}:02.0", parts.ICE_LAKE_ROOT_PORT, parts.L40S, bus=root + 1,
                 acs=0x1D) for root in (0x16, 0x4A, 0x97, 0xC9)]  # fmt: skip
    nvme(node, "c9:03.0", parts.ICE_LAKE_ROOT_PORT, parts.PM9A3, bus=0xCB, acs=0x1D)
    node.nvml = driver.nvml(
        parts.L40S, gpus, level=lambda a, b: "NODE" if a // 2 == b // 2 else "SYS", p2p="CNS"
    )
    return node
