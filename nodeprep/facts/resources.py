"""CPUs and memory of the host."""

from __future__ import annotations

from pathlib import PurePosixPath

from nodeprep.errors import HostError
from nodeprep.host.base import Host
from nodeprep.model.facts import HostResources

_MOST_FOLDERS = 16
_DEADLINE_S = 10.0


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


def disk_room(host: Host, path: str) -> int | None:
    """Bytes free where a folder lies or would lie; None: the host does not say.

    Asks df for the folder and, while there is none, for the ones above it.
    """
    place = PurePosixPath(path)
    for folder in (place, *place.parents)[:_MOST_FOLDERS]:
        argv = ("df", "--output=avail", "--block-size=1", "--", str(folder))
        try:
            result = host.run(argv, deadline_s=_DEADLINE_S)
        except HostError:
            return None
        lines = result.stdout.split()
        if result.status == 0 and lines and lines[-1].isdecimal():
            return int(lines[-1])
    return None
