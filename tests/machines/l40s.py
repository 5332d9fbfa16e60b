"""Four L40S below one Gen4 switch of a dual-socket EPYC node: redirecting, clean, and shared."""

from __future__ import annotations

from tests.machines import driver, parts
from tests.machines.host_files import bare_metal
from tests.machines.node import Node

GPUS = [f"0000:{0x43 + slot:02x}:00.0" for slot in range(4)]
PORTS = [f"0000:42:{4 * slot:02x}.0" for slot in range(4)]
NVME_PORT, NIC_PORT = "0000:42:10.0", "0000:42:14.0"
NAME = "NVIDIA L40S"

_FACTS = (
    "constructed from public facts, not recorded on a node; every figure of a measurement is "
    "simulated",
    "ids and names: pci.ids (10de:26b9 L40S, 1000:c010 PEX880xx, 1022:14ab Genoa root port)",
    "46068 MiB: the L40S framebuffer that nvidia-smi prints with ECC on",
)
_REDIRECTING = (
    "ACSCtl 001d: what Linux sets on every ACS port when an IOMMU driver is active, iommu=pt "
    "included (drivers/pci/pci.c, pci_std_enable_acs)",
)
_CONFIG = """\
# Recorded with the node: what it is to serve.
[serving]
model = "meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic"
tensor_parallel = 4
kv_cache_dtype = "fp8"
"""


def acs() -> Node:
    """The source document's node: redirection on every port."""
    node = _node(
        "l40s-acs",
        "dual-socket EPYC, four L40S below one PCIe switch, ACS redirect on: traffic between the "
        "GPUs climbs to the root complex; the repair is to clear 0x2c on four ports",
        *_REDIRECTING,
        boot="a6c1f1de-58a9-4b3e-9a52-6f0f5f3a0001",
    )
    _fabric(node, control=0x1D, iommu=True)
    _nvml(node)
    return node


def clean() -> Node:
    """The same node with the IOMMU off: the firmware's 0000 stays."""
    node = _node(
        "l40s-clean",
        "the same hardware with the IOMMU off and ACS never switched on; NVML is not readable "
        "there, so the text of nvidia-smi has to do",
        boot="a6c1f1de-58a9-4b3e-9a52-6f0f5f3a0002",
        cmdline="BOOT_IMAGE=/boot/vmlinuz-6.8.0-51-generic root=/dev/md0 ro amd_iommu=off",
    )
    _fabric(node, control=0x00, iommu=False)
    from nodeprep.facts.gpus import QUERY

    driver.nvidia_smi(
        node,
        GPUS,
        query=QUERY,
        name=NAME,
        memory_mib=46068,
        capability="8.9",
        affinity=lambda _: ("0-31,64-95", "0"),
        level=lambda _a, _b: "PIX",
    )
    return node


def vfio() -> Node:
    """A fifth L40S below the same switch belongs to a guest: nothing may be changed."""
    node = _node(
        "l40s-vfio",
        "as l40s-acs, but a fifth L40S below the same switch is bound to vfio-pci: ACS keeps a "
        "guest apart there, so nodeprep must refuse and change nothing",
        *_REDIRECTING,
        boot="a6c1f1de-58a9-4b3e-9a52-6f0f5f3a0003",
    )
    _fabric(node, control=0x1D, iommu=True, guest_card=True)
    _nvml(node)
    return node


def _node(name: str, what: str, *facts: str, boot: str, cmdline: str | None = None) -> Node:
    node = Node(name=name, notes=(what, *facts, *_FACTS), boot_id=boot)
    node.roots = {"0000:00": 0, "0000:40": 0, "0000:80": 1, "0000:c0": 1}
    bare_metal(
        node,
        kernel="6.8.0-51-generic",
        cmdline=cmdline or "BOOT_IMAGE=/boot/vmlinuz-6.8.0-51-generic root=/dev/md0 ro iommu=pt",
        cpu_vendor="AuthenticAMD",
        cpu_model="AMD EPYC 9354 32-Core Processor",
        sockets=2,
        numa_nodes=2,
        cpus=128,
        memory_gib=768,
        driver="570.124.06",
        config=_CONFIG,
    )
    return node


def _fabric(node: Node, *, control: int, iommu: bool, guest_card: bool = False) -> None:
    groups = iter(range(200)) if iommu else None

    def group() -> int | None:
        return None if groups is None else next(groups)

    for root in node.roots:
        node.function(f"{root}:00.0", parts.GENOA_ROOT_COMPLEX, group=group())
    boot = node.function("00:01.1", parts.GENOA_ROOT_PORT, bus=1, acs=control, width=4,
                         max_width=16, driver="pcieport", group=group())  # fmt: skip
    node.function("01:00.0", parts.PM9A3, parent=boot, width=4, driver="nvme", group=group())
    root_port = node.function("40:01.1", parts.GENOA_ROOT_PORT, bus=0x41, last_bus=0x48,
                              acs=control, driver="pcieport", group=group())  # fmt: skip
    upstream = node.function("41:00.0", parts.PEX880_UPSTREAM, parent=root_port, bus=0x42,
                             last_bus=0x48, driver="pcieport", group=group())  # fmt: skip
    for slot, (port, card) in enumerate(zip(PORTS, GPUS, strict=True)):
        node.function(port, parts.PEX880_DOWNSTREAM, parent=upstream, bus=0x43 + slot, acs=control,
                      driver="pcieport", group=group())  # fmt: skip
        node.function(card, parts.L40S, parent=port, driver="nvidia", group=group())
    node.function(NVME_PORT, parts.PEX880_DOWNSTREAM, parent=upstream, bus=0x47, acs=control,
                  width=16 if guest_card else 4, max_width=16, driver="pcieport",
                  group=group())  # fmt: skip
    if guest_card:
        node.function("47:00.0", parts.L40S, parent=NVME_PORT, driver="vfio-pci", group=group(),
                      group_type="unmanaged")  # fmt: skip
        node.text("/sys/bus/pci/devices/0000:47:00.0/driver_override", "vfio-pci\n")
    else:
        node.function("47:00.0", parts.PM9A3, parent=NVME_PORT, width=4, driver="nvme",
                      group=group())  # fmt: skip
    node.function(NIC_PORT, parts.PEX880_DOWNSTREAM, parent=upstream, bus=0x48, acs=control,
                  driver="pcieport", group=group())  # fmt: skip
    node.function("48:00.0", parts.CONNECTX7, parent=NIC_PORT, max_speed_gts=32.0,
                  driver="mlx5_core", group=group(), vfs=0)  # fmt: skip
    far = node.function("c0:03.1", parts.GENOA_ROOT_PORT, bus=0xC1, acs=control, width=4,
                        max_width=16, driver="pcieport", group=group())  # fmt: skip
    node.function("c1:00.0", parts.PM9A3, parent=far, width=4, driver="nvme", group=group())


def _nvml(node: Node) -> None:
    node.nvml = driver.nvml(
        GPUS,
        name=NAME,
        memory_mib=46068,
        bar1_mib=65536,
        capability=(8, 9),
        driver="570.124.06",
        level=lambda _a, _b: "PIX",
    )
