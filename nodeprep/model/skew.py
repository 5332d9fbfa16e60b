"""Why one GPU of a group holds more memory than its peers: the difference, by process.

Used by the audit of a node and by the watch over a running server; facts in, values out.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.model.base import Record
from nodeprep.model.gpu import Gpu
from nodeprep.units import MIB

LEAST_SKEW_BYTES = 512 * MIB
"""A context alone is 0.1 to 0.6 GiB; less than that is noise of drivers and allocators."""
_SAME_WORK = 0.5
"""A GPU belongs to the group when its largest process holds at least this share of the largest."""


class SkewPart(Record, frozen=True):
    """One reason, with the bytes it explains; all parts of a skew add up to it."""

    kind: str
    """stray: contexts of processes at home on another GPU; others: further processes of this GPU
    alone; worker: the main process itself; unlisted: in use, but by no process that is listed."""
    bytes: int
    pids: tuple[int, ...] = ()


class Skew(Record, frozen=True):
    """A GPU that holds more than its peers."""

    gpu: int
    used_bytes: int
    peers_bytes: int
    """What the peers hold, the lower middle of them."""
    parts: tuple[SkewPart, ...]
    """Largest first."""

    @property
    def difference_bytes(self) -> int:
        return self.used_bytes - self.peers_bytes


class _Use(Record, frozen=True):
    gpu: Gpu
    used: int
    main: int
    stray: int
    stray_pids: tuple[int, ...]
    others: int
    other_pids: tuple[int, ...]

    @property
    def unlisted(self) -> int:
        return self.used - self.main - self.stray - self.others


def skews(gpus: Iterable[Gpu], least_bytes: int = LEAST_SKEW_BYTES) -> tuple[Skew, ...]:
    """GPUs of one group that hold clearly more than the others, with the reasons.

    A group is GPUs of one size whose main processes hold alike, as ranks of one server do; a GPU
    that works on something else, or on nothing, is no peer.  GPUs whose use is unknown are left
    out: nothing is concluded from what was not read.
    """
    known = [gpu for gpu in gpus if _used(gpu) is not None]
    homes = _homes(known)
    uses = [_use(gpu, homes) for gpu in known]
    found = []
    for use in uses:
        peers = [one for one in uses if one is not use and _alike(one, use)]
        if peers:
            found.append(_compare(use, peers))
    return tuple(one for one in found if one.difference_bytes >= least_bytes)


def _used(gpu: Gpu) -> int | None:
    if gpu.memory_used_bytes is not None:
        return gpu.memory_used_bytes
    listed = _listed(gpu)
    return sum(listed.values()) if listed else None


def _listed(gpu: Gpu) -> dict[int, int]:
    """Bytes by process; one that is listed twice, as compute and graphics, counts once."""
    found: dict[int, int] = {}
    for one in gpu.processes or ():
        if one.memory_bytes is not None:
            found[one.pid] = max(one.memory_bytes, found.get(one.pid, 0))
    return found


def _homes(gpus: Iterable[Gpu]) -> dict[int, int]:
    """The GPU on which each process holds most."""
    best: dict[int, tuple[int, int]] = {}
    for gpu in gpus:
        for pid, size in _listed(gpu).items():
            if pid not in best or size > best[pid][0]:
                best[pid] = (size, gpu.index)
    return {pid: index for pid, (_, index) in best.items()}


def _use(gpu: Gpu, homes: dict[int, int]) -> _Use:
    listed = _listed(gpu)
    at_home = {pid: size for pid, size in listed.items() if homes[pid] == gpu.index}
    main = max(at_home, key=lambda pid: at_home[pid], default=None)
    stray = {pid: size for pid, size in listed.items() if pid not in at_home}
    others = {pid: size for pid, size in at_home.items() if pid != main}
    return _Use(
        gpu=gpu,
        used=_used(gpu) or 0,
        main=0 if main is None else at_home[main],
        stray=sum(stray.values()),
        stray_pids=tuple(sorted(stray)),
        others=sum(others.values()),
        other_pids=tuple(sorted(others)),
    )


def _alike(one: _Use, other: _Use) -> bool:
    """Equal size, and main processes (or, where none is listed, the whole use) of like size."""
    if one.gpu.memory_total_bytes != other.gpu.memory_total_bytes:
        return False
    a, b = (one.main, other.main) if one.main and other.main else (one.used, other.used)
    return min(a, b) >= max(a, b) * _SAME_WORK and max(a, b) > LEAST_SKEW_BYTES


def _compare(use: _Use, peers: list[_Use]) -> Skew:
    """The parts are differences to the same figure of the peers, so they sum to the whole."""
    typical = sorted(peers, key=lambda one: one.used)[(len(peers) - 1) // 2]
    parts = (
        SkewPart(kind="stray", bytes=use.stray - typical.stray, pids=use.stray_pids),
        SkewPart(kind="others", bytes=use.others - typical.others, pids=use.other_pids),
        SkewPart(kind="worker", bytes=use.main - typical.main),
        SkewPart(kind="unlisted", bytes=use.unlisted - typical.unlisted),
    )
    return Skew(
        gpu=use.gpu.index,
        used_bytes=use.used,
        peers_bytes=typical.used,
        parts=tuple(sorted((one for one in parts if one.bytes), key=lambda one: -one.bytes)),
    )
