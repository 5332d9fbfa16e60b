"""A look-alike of /sys/bus/pci that the real lspci and setpci work on, without root.

    setpci -A linux-sysfs -O sysfs.path=DIR -s 42:00.0 ECAP_ACS+6.w

`DIR/devices/BDF` links into `DIR/_real/pciDDDD:BB/BDF/...`, as the kernel's tree does; `config` is
a plain file, so a write lands in it and every bit can be set.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nodeprep.model.pci import PortType
from tests.pci_bytes import ACS_OFFSET, FULL_BYTES, config_space, control_word

PORT_CAPABILITIES = 0x5F
"""All of ACS but Egress Control, as QEMU's and many real ports have it."""
FUNCTIONS_A_DOMAIN = 44
SWITCHES_A_DOMAIN = 4
GPUS_A_SWITCH = 4

L40S: dict[str, Any] = {
    "vendor": 0x10DE,
    "device": 0x26B9,
    "class_code": 0x030200,
    "subsystem": (0x10DE, 0x1851),
}
NVME: dict[str, Any] = {
    "vendor": 0x144D,
    "device": 0xA80A,
    "class_code": 0x010802,
    "subsystem": (0x144D, 0xA801),
}
ROOT_PORT: dict[str, Any] = {"vendor": 0x1022, "device": 0x1483, "class_code": 0x060400}
SWITCH_PORT: dict[str, Any] = {"vendor": 0x1000, "device": 0xC010, "class_code": 0x060400}
HOST_BRIDGE: dict[str, Any] = {"vendor": 0x1022, "device": 0x1480, "class_code": 0x060000}
INTEGRATED: dict[str, Any] = {"vendor": 0x1022, "device": 0x1481, "class_code": 0x080600}


class FabricatedTree:
    """A tree under construction and, afterwards, its registers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._places: dict[str, Path] = {}
        self._acs_offsets: dict[str, int] = {}
        (root / "devices").mkdir(parents=True)

    def add(
        self,
        bdf: str,
        *,
        parent: str | None = None,
        readable_bytes: int = FULL_BYTES,
        numa_node: int = 0,
        iommu_group: int | None = None,
        driver: str | None = None,
        files: dict[str, str] | None = None,
        **config: Any,
    ) -> None:
        """One function below `parent`, or on its own root bus.

        readable_bytes: size of its `config` file.  files: further sysfs files by name.  config:
        what `config_space` takes.
        """
        above = self.root / "_real" / f"pci{bdf[:7]}" if parent is None else self._places[parent]
        place = above / bdf
        place.mkdir(parents=True)
        self._places[bdf] = place
        space = config_space(**config)
        if config.get("acs_cap") is not None:
            self._acs_offsets[bdf] = config.get("acs_offset") or ACS_OFFSET
        (place / "config").write_bytes(space[:readable_bytes])
        for name, text in (_identity(space, numa_node) | (files or {})).items():
            (place / name).write_text(text + "\n")
        if iommu_group is not None:
            (place / "iommu_group").symlink_to(f"../../kernel/iommu_groups/{iommu_group}")
        if driver is not None:
            (place / "driver").symlink_to(f"../../bus/pci/drivers/{driver}")
        link = self.root / "devices" / bdf
        link.symlink_to(os.path.relpath(place, link.parent))

    def host_json(self, **facts: object) -> None:
        """What the tree states of its host: virtualization, lockdown, kernel release..."""
        (self.root / "host.json").write_text(json.dumps(facts))

    def control(self, bdf: str) -> int:
        """The ACS Control word that a read finds at this moment."""
        space = (self._places[bdf] / "config").read_bytes()
        return control_word(space, self._acs_offsets[bdf])

    def controls(self) -> dict[str, int]:
        """The ACS Control word of every function that has one."""
        return {bdf: self.control(bdf) for bdf in self._acs_offsets}

    def __len__(self) -> int:
        return len(self._places)


def add_switch(
    tree: FabricatedTree,
    *,
    domain: int = 0,
    bus: int = 0x40,
    slots: int = GPUS_A_SWITCH,
    control: int = 0x1D,
    capabilities: int = PORT_CAPABILITIES,
    card: dict[str, Any] | None = None,
    group: int | None = None,
    **card_fields: Any,
) -> tuple[str, ...]:
    """A root port, a switch and a card in each slot; gives the addresses of the downstream ports.

    Root port BUS:01.1, upstream port BUS+1:00.0, downstream ports BUS+2:SLOT.0, cards
    BUS+3+SLOT:00.0.  group: number of the first IOMMU group; every function has its own.
    """
    last = bus + 2 + slots
    groups = iter(range(group, group + 2 + 2 * slots)) if group is not None else None

    def add(bdf: str, parent: str | None, what: dict[str, Any], **fields: Any) -> str:
        number = None if groups is None else next(groups)
        tree.add(bdf, parent=parent, iommu_group=number, **what, **fields)
        return bdf

    acs: dict[str, Any] = {"acs_cap": capabilities, "acs_ctrl": control}
    root = add(f"{domain:04x}:{bus:02x}:01.1", None, ROOT_PORT, port_type=PortType.ROOT_PORT,
               buses=(bus, bus + 1, last), slot=bus, **acs)  # fmt: skip
    upstream = add(f"{domain:04x}:{bus + 1:02x}:00.0", root, SWITCH_PORT,
                   port_type=PortType.UPSTREAM, buses=(bus + 1, bus + 2, last))  # fmt: skip
    ports = []
    for slot in range(slots):
        below = bus + 3 + slot
        ports.append(add(f"{domain:04x}:{bus + 2:02x}:{slot:02x}.0", upstream, SWITCH_PORT,
                         port_type=PortType.DOWNSTREAM, buses=(bus + 2, below, below),
                         **acs))  # fmt: skip
        add(f"{domain:04x}:{below:02x}:00.0", ports[-1], card or L40S,
            port_type=PortType.ENDPOINT, **card_fields)  # fmt: skip
    return tuple(ports)


def scale_tree(root: Path, functions: int, *, gpu_switches: int = 1) -> FabricatedTree:
    """Copies of one host over PCI domains: 220 functions are 5 domains, 1,012 are 23.

    Each domain holds a host bridge, three integrated functions and four switches with four cards.
    The first `gpu_switches` switches carry GPUs, the others NVMe drives; every port redirects.
    """
    domains, rest = divmod(functions, FUNCTIONS_A_DOMAIN)
    assert rest == 0, f"a multiple of {FUNCTIONS_A_DOMAIN}"
    tree = FabricatedTree(root)
    built = 0
    for domain in range(domains):
        tree.add(f"{domain:04x}:00:00.0", port_type=PortType.RC_ENDPOINT, **HOST_BRIDGE)
        for device in (0x14, 0x15, 0x16):
            tree.add(f"{domain:04x}:00:{device:02x}.0", port_type=PortType.RC_ENDPOINT,
                     **INTEGRATED)  # fmt: skip
        for switch in range(SWITCHES_A_DOMAIN):
            add_switch(tree, domain=domain, bus=0x20 + 0x20 * switch,
                       card=L40S if built < gpu_switches else NVME)  # fmt: skip
            built += 1
    return tree


def _identity(space: bytes, numa_node: int) -> dict[str, str]:
    """The small files that sysfs has beside `config`."""

    def word(at: int) -> str:
        return f"0x{int.from_bytes(space[at : at + 2], 'little'):04x}"

    return {
        "vendor": word(0x00),
        "device": word(0x02),
        "class": f"0x{int.from_bytes(space[9:12], 'little'):06x}",
        "revision": f"0x{space[8]:02x}",
        "subsystem_vendor": word(0x2C),
        "subsystem_device": word(0x2E),
        "irq": str(space[0x3C]),
        "numa_node": str(numa_node),
        "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13),
    }
