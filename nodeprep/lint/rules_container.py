"""Unsafe and useless options of the container; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodeprep.lint.image import accelerator
from nodeprep.lint.ranges import is_unresolved
from nodeprep.lint.said import CRITICAL, INFO, WARNING, say
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding, Severity, Unknown
from nodeprep.model.launch import Container
from nodeprep.units import show_bytes

_MOVING = ("latest", "nightly", "main", "dev", "stable")
_LEAST_SHM = 1 << 30
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([bkmg]?)b?", re.I)
_BIG_CAPS = ("ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "DAC_OVERRIDE")


def image(server: Server, box: Container) -> Iterator[Finding]:
    name = box.image or ""
    if not name or "@sha256:" in name or "$" in name:
        return
    tag = name.rpartition("/")[2].partition(":")[2]
    moving = not tag or tag.split("-")[0] in _MOVING
    what = (
        f"the tag {tag} moves by design"
        if tag and moving
        else ("no tag means latest" if not tag else f"the tag {tag} can be pushed again")
    )
    yield say(
        server, "container-image-unpinned", WARNING, name,
        f"image {name}: {what}; a digest cannot",
        cause="the next pull may be another program", do="name it by digest: IMAGE@sha256:...",
        line=box.line,
    )  # fmt: skip


def shared_memory(server: Server, box: Container) -> Iterator[Finding]:
    size, host = box.first("shm-size"), box.first("ipc") == "host"
    if host and size is not None:
        yield say(
            server, "container-shm", WARNING, "--shm-size",
            f"--shm-size {size} has no effect beside --ipc=host",
            cause="with host IPC the container sees the host's /dev/shm, whatever its size",
            do="remove --ipc=host: own shared memory of a stated size",
            line=box.line_of("shm-size"),
            text=f"--ipc host --shm-size {size}",
        )  # fmt: skip
    elif host:
        yield say(
            server, "container-shm", INFO, "--ipc",
            "--ipc=host opens the host's shared memory to the container",
            cause="NCCL needs room in /dev/shm; a sized private one is enough",
            do="use --shm-size instead", line=box.line_of("ipc"), text="--ipc host",
        )  # fmt: skip
    elif server.tensor_parallel > 1 and (size is None or _bytes(size) < _LEAST_SHM):
        what = f"--shm-size {size}" if size else "the container's default of 64 MiB"
        need = show_bytes((1 + server.tensor_parallel) << 30)
        yield say(
            server, "container-shm", CRITICAL, "--shm-size",
            f"{what} of shared memory for {server.tensor_parallel} ranks",
            cause="NCCL and the engine's queues live in /dev/shm; too small ends in a failed "
            "posix_fallocate or a bus error",
            do=f"set --shm-size to {need}", line=box.line_of("shm-size"),
        )  # fmt: skip


def _bytes(size: str) -> int:
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        return _LEAST_SHM  # not known: a variable, or a unit of its own
    return int(float(match[1]) * _UNITS[match[2].lower()])


def privileges(server: Server, box: Container) -> Iterator[Finding]:
    """Everything that makes the container's walls thinner."""
    walls = _thin_walls(box, accelerator(server))
    for severity, subject, what, do in (*walls, *_mounts(box), *_left_as_is(box)):
        yield say(
            server, "container-privileges", severity, subject, what,
            cause="who takes over the server has what the container has", do=do,
            line=_line(box, subject),
        )  # fmt: skip


def _line(box: Container, subject: str) -> int | None:
    """Where an option, or a mount of that value, stands."""
    place = next((one for one in ("volume", "mount") if subject in box.options.get(one, ())), None)
    return box.line_of(subject.removeprefix("--")) if place is None else box.line_of(place, subject)


def _thin_walls(box: Container, other: str | None) -> Iterator[tuple[Severity, str, str, str]]:
    """`other`: the accelerator, where it is none of NVIDIA's."""
    if box.has("privileged"):
        devices = "--gpus is all that CUDA needs" if other is None else "name devices: --device"
        yield (
            CRITICAL, "--privileged", "--privileged: root inside is root on the host",
            f"remove it: {devices}",
        )  # fmt: skip
    for cap in box.options.get("cap-add", ()):
        if cap.upper().removeprefix("CAP_") in _BIG_CAPS:
            yield WARNING, "--cap-add", f"--cap-add {cap} is not needed to serve", "remove it"
    for option in ("pid", "userns", "uts"):
        if box.first(option) == "host":
            yield WARNING, f"--{option}", f"--{option}=host shares the host's own", "remove it"
    for value in box.options.get("security-opt", ()):
        if value.endswith(("=unconfined", ":unconfined")):
            yield WARNING, "--security-opt", f"--security-opt {value} drops a wall", "remove it"


def _mounts(box: Container) -> Iterator[tuple[Severity, str, str, str]]:
    for volume in (*box.options.get("volume", ()), *box.options.get("mount", ())):
        if "docker.sock" in volume or re.match(
            r"(?:type=bind,)?(?:source=|src=)?/:|.*source=/,", volume
        ):
            yield (
                CRITICAL,
                volume[:80],
                f"the host itself is mounted: {volume[:80]}",
                "remove the mount",
            )


def _left_as_is(box: Container) -> Iterator[tuple[Severity, str, str, str]]:
    if not box.has("privileged") and not _hardened(box):
        yield (
            INFO, "--security-opt", "capabilities and set-user-id programs are left as they are",
            "add --security-opt no-new-privileges --cap-drop ALL",
        )  # fmt: skip


def _hardened(box: Container) -> bool:
    return any("no-new-privileges" in one for one in box.options.get("security-opt", ())) and any(
        one.upper() == "ALL" for one in box.options.get("cap-drop", ())
    )


def gpus(server: Server, box: Container) -> Iterator[Finding | Unknown]:
    """A container for NVIDIA GPUs that is given none; other accelerators come in other ways."""
    asked = (
        box.has("gpus")
        or box.first("runtime") == "nvidia"
        or any("nvidia" in one for one in box.options.get("device", ()))
        or box.has("privileged")
    )
    if asked or accelerator(server) is not None:
        return
    open_word = box.open_words[0] if box.open_words else box.image
    if is_unresolved(open_word):
        yield Unknown(
            subject=f"the container's options ({server.place(box.line)})",
            reason=f"{(open_word or '')[:80]} may hold some of them: whether it has a GPU is open",
            hint="write the options out",
        )
    else:
        yield say(
            server, "container-gpus-missing", CRITICAL, "--gpus",
            "the container is given no GPU",
            cause="without --gpus (or a CDI device) there is no device in it",
            do="add --gpus, best with the UUIDs of the group", line=box.line,
        )  # fmt: skip


RULES = (image, shared_memory, privileges, gpus)
