"""What a virtual machine sees of its GPUs."""

from __future__ import annotations

from dataclasses import replace

from nodeprep.model.pci import PortType
from tests.machines import boards, driver, l40s, parts
from tests.machines.node import DEVICES, Node


def kvm() -> Node:
    """Two L40S given to a KVM guest: a flat bus of the hypervisor's making, nothing to change."""
    node = boards.start(
        boards.GUEST,
        "kvm-guest",
        "a guest has no mark to judge by. "
        "A KVM guest with two L40S passed through: a flat bus, no NUMA node, no link, no port; "
        "what the host's ACS does is not visible, so nothing is changed, and no figure of bare "
        "metal is a mark for it: gate.min_busbw_gbps has to be set",
        boards.CONSTRUCTED,
        "ids and names: pci.ids (10de:26b9 L40S, 8086:29c0 host bridge of QEMU's q35 machine)",
        l40s.FRAMEBUFFER,
        "QEMU shows an assigned card on the root bus as an integrated endpoint without a link "
        "(hw/vfio/pci.c)",
        "CNS: the emulated chipset is on no list of the driver, no x-nv-gpudirect-clique is set",
        boot=16,
        options="",
        config=boards.serving("Qwen/Qwen3-32B-FP8", 2),
        iommu=False,
    )
    integrated = replace(parts.L40S, port_type=PortType.RC_ENDPOINT)
    node.function("00:00.0", parts.Q35_HOST_BRIDGE)
    node.function("00:02.0", parts.VIRTIO_NET, driver="virtio-pci")
    node.function("00:03.0", parts.VIRTIO_BLK, driver="virtio-pci")
    node.function("00:1f.0", parts.ICH9_ISA_BRIDGE, driver="lpc_ich")
    gpus = [
        node.function(f"0000:00:{place:02x}.0", integrated, driver="nvidia") for place in (5, 6)
    ]
    for gpu in gpus:
        for end in ("current", "max"):
            node.text(f"{DEVICES}/{gpu}/{end}_link_speed", "Unknown\n")
            node.text(f"{DEVICES}/{gpu}/{end}_link_width", "0\n")
    node.nvml = driver.nvml(integrated, gpus, level=lambda _a, _b: "PHB", p2p="CNS")
    return node
