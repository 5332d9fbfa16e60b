"""Functions that the machines are made of; ids and names as in pci.ids."""

from __future__ import annotations

from nodeprep.model.pci import PortType
from tests.machines.node import Part

_HOST_BRIDGE, _PCI_BRIDGE = "Host bridge", "PCI bridge"


def _port(vendor: int, device: int, name: str, kind: PortType) -> Part:
    return Part(vendor, device, 0x060400, name, _PCI_BRIDGE, kind)


AMD = "Advanced Micro Devices, Inc. [AMD]"
GENOA_ROOT_COMPLEX = Part(
    0x1022, 0x14A4, 0x060000, f"{AMD} Genoa/Bergamo Root Complex", _HOST_BRIDGE, None
)
GENOA_ROOT_PORT = _port(0x1022, 0x14AB, f"{AMD} Genoa/Bergamo PCIe GPP Bridge", PortType.ROOT_PORT)
INTEL_ROOT_COMPLEX = Part(
    0x8086, 0x09A2, 0x088000, "Intel Corporation Ice Lake Memory Map/VT-d",
    "System peripheral", PortType.RC_ENDPOINT,
)  # fmt: skip
SPR_ROOT_PORT = _port(0x8086, 0x352A, "Intel Corporation PCIe Root Port", PortType.ROOT_PORT)

BROADCOM = "Broadcom / LSI"
PEX880_UPSTREAM = _port(0x1000, 0xC010, f"{BROADCOM} PEX880xx PCIe Gen 4 Switch", PortType.UPSTREAM)
PEX880_DOWNSTREAM = _port(
    0x1000, 0xC010, f"{BROADCOM} PEX880xx PCIe Gen 4 Switch", PortType.DOWNSTREAM
)
PEX890_UPSTREAM = _port(0x1000, 0xC030, f"{BROADCOM} PEX890xx PCIe Gen 5 Switch", PortType.UPSTREAM)
PEX890_DOWNSTREAM = _port(
    0x1000, 0xC030, f"{BROADCOM} PEX890xx PCIe Gen 5 Switch", PortType.DOWNSTREAM
)

L40S = Part(0x10DE, 0x26B9, 0x030200, "NVIDIA Corporation AD102GL [L40S]", "3D controller")
H100_SXM = Part(
    0x10DE, 0x2330, 0x030200, "NVIDIA Corporation GH100 [H100 SXM5 80GB]", "3D controller"
)
NVSWITCH = Part(0x10DE, 0x22A3, 0x068000, "NVIDIA Corporation GH100 [H100 NVSwitch]", "Bridge")
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
