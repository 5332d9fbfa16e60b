"""Functions that the machines are made of; ids and names as in pci.ids."""

from __future__ import annotations

from dataclasses import dataclass

from nodeprep.model.pci import PortType
from tests.machines.node import Part

_HOST_BRIDGE, _PCI_BRIDGE, _GPU = "Host bridge", "PCI bridge", "3D controller"


@dataclass(frozen=True, kw_only=True)
class Card(Part):
    """A GPU: the function, and what the driver says of it."""

    product: str
    memory_mib: int
    """Framebuffer as nvidia-smi prints it."""
    bar1_mib: int
    capability: tuple[int, int]


def _port(vendor: int, device: int, name: str, kind: PortType) -> Part:
    return Part(vendor, device, 0x060400, name, _PCI_BRIDGE, kind)


# Host bridges and root ports.
AMD = "Advanced Micro Devices, Inc. [AMD]"
GENOA_ROOT_COMPLEX = Part(
    0x1022, 0x14A4, 0x060000, f"{AMD} Genoa/Bergamo Root Complex", _HOST_BRIDGE, None
)
GENOA_ROOT_PORT = _port(0x1022, 0x14AB, f"{AMD} Genoa/Bergamo PCIe GPP Bridge", PortType.ROOT_PORT)
ZEN2_ROOT_COMPLEX = Part(
    0x1022, 0x1480, 0x060000, f"{AMD} Starship/Matisse Root Complex", _HOST_BRIDGE, None
)
ZEN2_ROOT_PORT = _port(0x1022, 0x1483, f"{AMD} Starship/Matisse GPP Bridge", PortType.ROOT_PORT)
INTEL_ROOT_COMPLEX = Part(
    0x8086, 0x09A2, 0x088000, "Intel Corporation Ice Lake Memory Map/VT-d",
    "System peripheral", PortType.RC_ENDPOINT,
)  # fmt: skip
ICE_LAKE_ROOT_PORT = _port(0x8086, 0x347A, "Intel Corporation Device", PortType.ROOT_PORT)
SPR_ROOT_PORT = _port(0x8086, 0x352A, "Intel Corporation PCIe Root Port", PortType.ROOT_PORT)

# Switches.
BROADCOM = "Broadcom / LSI"
PEX880_UPSTREAM = _port(0x1000, 0xC010, f"{BROADCOM} PEX880xx PCIe Gen 4 Switch", PortType.UPSTREAM)
PEX880_DOWNSTREAM = _port(
    0x1000, 0xC010, f"{BROADCOM} PEX880xx PCIe Gen 4 Switch", PortType.DOWNSTREAM
)
PEX890_UPSTREAM = _port(0x1000, 0xC030, f"{BROADCOM} PEX890xx PCIe Gen 5 Switch", PortType.UPSTREAM)
PEX890_DOWNSTREAM = _port(
    0x1000, 0xC030, f"{BROADCOM} PEX890xx PCIe Gen 5 Switch", PortType.DOWNSTREAM
)

# GPUs and what belongs to them.
L40S = Card(
    0x10DE, 0x26B9, 0x030200, "NVIDIA Corporation AD102GL [L40S]", _GPU,
    product="NVIDIA L40S", memory_mib=46068, bar1_mib=65536, capability=(8, 9),
)  # fmt: skip
H100_SXM = Card(
    0x10DE, 0x2330, 0x030200, "NVIDIA Corporation GH100 [H100 SXM5 80GB]", _GPU,
    product="NVIDIA H100 80GB HBM3", memory_mib=81559, bar1_mib=131072, capability=(9, 0),
)  # fmt: skip
A100_PCIE = Card(
    0x10DE, 0x20B5, 0x030200, "NVIDIA Corporation GA100 [A100 PCIe 80GB]", _GPU,
    product="NVIDIA A100 80GB PCIe", memory_mib=81920, bar1_mib=131072, capability=(8, 0),
)  # fmt: skip
RTX_PRO_6000 = Card(
    0x10DE, 0x2BB5, 0x030200,
    "NVIDIA Corporation GB202GL [RTX PRO 6000 Blackwell Server Edition]", _GPU,
    product="NVIDIA RTX PRO 6000 Blackwell Server Edition", memory_mib=97887, bar1_mib=131072,
    capability=(12, 0),
)  # fmt: skip
RTX_4090 = Card(
    0x10DE, 0x2684, 0x030000, "NVIDIA Corporation AD102 [GeForce RTX 4090]",
    "VGA compatible controller",
    product="NVIDIA GeForce RTX 4090", memory_mib=24564, bar1_mib=32768, capability=(8, 9),
)  # fmt: skip
AD102_AUDIO = Part(
    0x10DE, 0x22BA, 0x040300, "NVIDIA Corporation AD102 High Definition Audio Controller",
    "Audio device",
)  # fmt: skip
NVSWITCH = Part(0x10DE, 0x22A3, 0x068000, "NVIDIA Corporation GH100 [H100 NVSwitch]", "Bridge")

# Network and storage.
CONNECTX7 = Part(
    0x15B3, 0x1021, 0x020000, "Mellanox Technologies MT2910 Family [ConnectX-7]",
    "Ethernet controller",
)  # fmt: skip
CONNECTX7_IB = Part(
    0x15B3, 0x1021, 0x020700, "Mellanox Technologies MT2910 Family [ConnectX-7]",
    "Infiniband controller",
)  # fmt: skip
PM9A3 = Part(
    0x144D, 0xA80A, 0x010802,
    "Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO",
    "Non-Volatile memory controller",
)  # fmt: skip

# What QEMU's q35 machine shows a guest: no bridge above anything.
Q35_HOST_BRIDGE = Part(
    0x8086, 0x29C0, 0x060000,
    "Intel Corporation 82G33/G31/P35/P31 Express DRAM Controller", _HOST_BRIDGE, None,
)  # fmt: skip
ICH9_ISA_BRIDGE = Part(
    0x8086, 0x2918, 0x060100,
    "Intel Corporation 82801IB (ICH9) LPC Interface Controller", "ISA bridge", None,
)  # fmt: skip
VIRTIO_NET = Part(
    0x1AF4, 0x1041, 0x020000, "Red Hat, Inc. Virtio 1.0 network device", "Ethernet controller",
    PortType.RC_ENDPOINT,
)  # fmt: skip
VIRTIO_BLK = Part(
    0x1AF4, 0x1042, 0x010000, "Red Hat, Inc. Virtio 1.0 block device", "SCSI storage controller",
    PortType.RC_ENDPOINT,
)  # fmt: skip
