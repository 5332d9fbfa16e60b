"""The guest's PCIe fabric as arguments of QEMU.

Two root complexes, one a NUMA node; below each a switch with two accelerators:

    pxb-pcie NUMA 0, bus 20      20:00.0 root port -> 21:00.0 upstream port
                                     22:00.0, 22:01.0 ports -> 23:00.0, 24:00.0 accelerators
                                     22:02.0 port           -> 25:00.0 another device
    pxb-pcie NUMA 1, bus 60      the same with 60, 61, 62, 63, 64, 65

QEMU's own downstream port (xio3130) has no ACS; a root port below the upstream port has it, and
QEMU and Linux take it there.  Accelerators are virtio consoles of class 0380, found by
`[accelerators]` of the guest's configuration.
"""

from __future__ import annotations

SWITCHES = (
    ("0000:20:00.0", "0000:21:00.0", "0000:22"),
    ("0000:60:00.0", "0000:61:00.0", "0000:62"),
)
PORTS = tuple(f"{bus}:0{slot}.0" for _, _, bus in SWITCHES for slot in (0, 1))
"""The ports above accelerators, in bus order."""
OTHER_PORTS = tuple(f"{bus}:02.0" for _, _, bus in SWITCHES)
ROOT_PORTS = tuple(root for root, _, _ in SWITCHES)
ACCELERATORS = ("0000:23:00.0", "0000:24:00.0", "0000:63:00.0", "0000:64:00.0")
ALL_PORTS = (*ROOT_PORTS, *PORTS, *OTHER_PORTS)

CONFIG = """\
[accelerators]
vendors = ["1af4"]
classes = ["0380"]

[acs]
allow_in_guest = true
"""
"""/etc/nodeprep/config.toml of the guest."""


def fabric() -> list[str]:
    """Arguments for QEMU: memory nodes, IOMMU, switches and devices."""
    arguments = []
    for node in (0, 1):
        arguments += ["-object", f"memory-backend-ram,id=m{node},size=512M"]
        arguments += ["-numa", f"node,nodeid={node},memdev=m{node},cpus={node}"]
    arguments += ["-device", "intel-iommu,intremap=off"]
    for node in (0, 1):
        for device in _switch(node):
            arguments += ["-device", device]
    return arguments


def _switch(node: int) -> list[str]:
    bus = 0x20 + 0x40 * node
    modern = "disable-legacy=on,disable-modern=off"
    return [
        f"pxb-pcie,id=pxb{node},bus=pcie.0,addr=1{node}.0,bus_nr={bus},numa_node={node}",
        f"pcie-root-port,id=rp{node},bus=pxb{node},chassis={1 + node},slot={1 + node},addr=0.0",
        f"x3130-upstream,id=up{node},bus=rp{node}",
        *(
            f"pcie-root-port,id=d{node}{slot},bus=up{node},chassis={10 + 10 * node},"
            f"slot={100 + slot},port={slot},addr={slot}.0"
            for slot in range(3)
        ),
        *(
            f"virtio-serial-pci,id=g{node}{slot},bus=d{node}{slot},class=0x0380,{modern}"
            for slot in range(2)
        ),
        f"virtio-rng-pci,id=n{node},bus=d{node}2,{modern}",
    ]
