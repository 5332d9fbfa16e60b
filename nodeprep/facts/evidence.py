"""What a snapshot holds beside the answers to nodeprep's own questions: for a person to read."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from nodeprep.errors import HostError
from nodeprep.host.base import Host

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("lspci", "-D", "-nn", "-vvv"),
    ("lspci", "-t"),
    ("nvidia-smi",),
    ("nvidia-smi", "-q"),
    ("nvidia-smi", "topo", "-m"),
    ("nvidia-smi", "topo", "-p2p", "r"),
    ("nvidia-smi", "topo", "-p2p", "w"),
    ("nvidia-smi", "topo", "-p2p", "n"),
    ("dmesg", "--level", "emerg,alert,crit,err,warn"),
)
FILES = (
    "/proc/sys/kernel/hostname",
    "/proc/meminfo",
    "/proc/modules",
    "/etc/os-release",
    "/etc/nccl.conf",
    "/etc/nodeprep/config.toml",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/board_name",
    "/sys/class/dmi/id/bios_version",
    "/sys/module/pcie_aspm/parameters/policy",
)
_DEADLINE_S = 20.0
_PATIENCE_S = 120.0
"""For all commands together: tools of a sick node hang one after the other."""


def collect_evidence(host: Host) -> int:
    """Asks for everything above; what the node does not have is skipped. How many it answered."""
    patient_until = time.monotonic() + _PATIENCE_S
    questions: list[Callable[[], object]] = [partial(host.read_text, path) for path in FILES]
    questions += [
        partial(host.run, argv, deadline_s=_DEADLINE_S)
        for argv in COMMANDS
        if host.has_program(argv[0])
    ]
    return sum(time.monotonic() < patient_until and _answers(question) for question in questions)


def _answers(question: Callable[[], object]) -> bool:
    try:
        question()
    except HostError:
        return False
    return True
