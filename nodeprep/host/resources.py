"""psutil behind the door."""

from __future__ import annotations

import psutil

from nodeprep.model.readings import ResourcesReading


def read_resources() -> ResourcesReading:
    """CPUs, memory, swap and the shared-memory file system of this computer."""
    memory = psutil.virtual_memory()
    try:
        shm_total_bytes: int | None = psutil.disk_usage("/dev/shm").total  # noqa: S108
    except OSError:
        shm_total_bytes = None
    return ResourcesReading(
        logical_cpus=psutil.cpu_count(logical=True),
        memory_total_bytes=memory.total,
        memory_available_bytes=memory.available,
        swap_total_bytes=psutil.swap_memory().total,
        shm_total_bytes=shm_total_bytes,
    )
