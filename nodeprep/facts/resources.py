"""CPUs and memory of the host."""

from __future__ import annotations

from nodeprep.host.base import Host
from nodeprep.model.facts import HostResources


def collect_resources(host: Host) -> HostResources:
    """What psutil says. Raises HostError where nobody can say."""
    reading = host.resources()
    return HostResources(
        logical_cpus=reading.logical_cpus,
        memory_total_bytes=reading.memory_total_bytes,
        memory_available_bytes=reading.memory_available_bytes,
        swap_total_bytes=reading.swap_total_bytes,
        shm_total_bytes=reading.shm_total_bytes,
    )
