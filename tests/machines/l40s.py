"""Four L40S below one Gen4 switch of a dual-socket EPYC: redirecting, clean, shared, narrow."""

from __future__ import annotations

from tests.machines import boards, driver, parts
from tests.machines.fabric import nvme, slot, switch
from tests.machines.node import Node

GPUS = [f"0000:{0x43 + index:02x}:00.0" for index in range(4)]
PORTS = [f"0000:42:{4 * index:02x}.0" for index in range(4)]
NVME_PORT, NIC_PORT = "0000:42:10.0", "0000:42:14.0"

FRAMEBUFFER = "46068 MiB: the L40S framebuffer that nvidia-smi prints with ECC on"
FACTS = (
    boards.CONSTRUCTED,
    "ids and names: pci.ids (10de:26b9 L40S, 1000:c010 PEX880xx, 1022:14ab Genoa root port)",
    FRAMEBUFFER,
)
LLAMA_70B = boards.serving(
    "meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic", 4, 'kv_cache_dtype = "fp8"'
)


def acs() -> Node:
    """The source document's node: redirection on every port."""
    node = _node(
        "l40s-acs",
        "ACS redirects; bringup repairs it. "
        "Dual-socket EPYC, four L40S below one PCIe switch, ACS redirect on: traffic between the "
        "GPUs climbs to the root complex; the repair is to clear 0x2c on four ports",
        boot=1,
        iommu=True,
    )
    _fabric(node, control=0x1D)
    _nvml(node)
    return node


def clean() -> Node:
    """The same node with the IOMMU off: the firmware's 0000 stays."""
    node = _node(
        "l40s-clean",
        "nothing to repair. "
        "The same hardware with the IOMMU off and ACS never switched on; NVML is not readable "
        "there, so the text of nvidia-smi has to do",
        boot=2,
        iommu=False,
    )
    _fabric(node, control=0x00)
    _nvidia_smi(node)
    return node


def vfio() -> Node:
    """A fifth L40S below the same switch belongs to a guest: nothing may be changed."""
    node = _node(
        "l40s-vfio",
        "a guest's card beside: refused. "
        "As l40s-acs, but a fifth L40S below the same switch is bound to vfio-pci: ACS keeps a "
        "guest apart there, so nodeprep must refuse and change nothing",
        boot=3,
        iommu=True,
    )
    _fabric(node, control=0x1D, guest_card=True)
    _nvml(node)
    return node


def narrow() -> Node:
    """One card has eight of its sixteen lanes: it slows the whole ring, and no register helps."""
    node = _node(
        "l40s-narrow",
        "one card at 8 of 16 lanes. "
        "As l40s-clean, but GPU2 came up with 8 of 16 lanes (a riser, a dirty slot): a warning, "
        "and the ring is judged by the lanes it has",
        boot=11,
        iommu=False,
    )
    _fabric(node, control=0x00, widths=(16, 16, 8, 16))
    _nvidia_smi(node)
    return node


def _node(name: str, what: str, *, boot: int, iommu: bool) -> Node:
    facts = (boards.KERNEL_ACS, *FACTS) if iommu else FACTS
    return boards.start(
        boards.GENOA_2P,
        name,
        what,
        *facts,
        boot=boot,
        options="iommu=pt" if iommu else "amd_iommu=off",
        config=LLAMA_70B,
        iommu=iommu,
    )


def _fabric(
    node: Node,
    *,
    control: int,
    guest_card: bool = False,
    widths: tuple[int, ...] = (16, 16, 16, 16),
) -> None:
    nvme(node, "00:01.1", parts.GENOA_ROOT_PORT, parts.PM9A3, bus=1, acs=control)
    root_port = node.function("40:01.1", parts.GENOA_ROOT_PORT, bus=0x41, last_bus=0x48,
                              acs=control, driver="pcieport")  # fmt: skip
    upstream = switch(node, "41:00.0", parts.PEX880_UPSTREAM, parent=root_port, buses=(0x42, 0x48))
    for bus, port, width in zip(range(0x43, 0x47), PORTS, widths, strict=True):
        slot(node, port, parts.PEX880_DOWNSTREAM, parts.L40S, parent=upstream, bus=bus,
             acs=control, width=width, card_width=16)  # fmt: skip
    if guest_card:
        slot(node, NVME_PORT, parts.PEX880_DOWNSTREAM, parts.L40S, parent=upstream, bus=0x47,
             acs=control, driver="vfio-pci", group_type="unmanaged")  # fmt: skip
        node.text("/sys/bus/pci/devices/0000:47:00.0/driver_override", "vfio-pci\n")
    else:
        nvme(node, NVME_PORT, parts.PEX880_DOWNSTREAM, parts.PM9A3, parent=upstream, bus=0x47,
             acs=control)  # fmt: skip
    slot(node, NIC_PORT, parts.PEX880_DOWNSTREAM, parts.CONNECTX7, parent=upstream, bus=0x48,
         acs=control, driver="mlx5_core", card_speed_gts=32.0, vfs=0)  # fmt: skip
    nvme(node, "c0:03.1", parts.GENOA_ROOT_PORT, parts.PM9A3, bus=0xC1, acs=control)


def _nvml(node: Node) -> None:
    node.nvml = driver.nvml(parts.L40S, GPUS, level=lambda _a, _b: "PIX")


def _nvidia_smi(node: Node) -> None:
    driver.nvidia_smi(
        node,
        parts.L40S,
        GPUS,
        affinity=lambda _: ("0-31,64-95", "0"),
        level=lambda _a, _b: "PIX",
    )
