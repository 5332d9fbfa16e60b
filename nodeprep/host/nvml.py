"""NVML behind the door: every quirk of the binding is handled here and nowhere else.

nvidia-ml-py keeps NVML_P2P_CAPS_INDEX_READ as the tuple `(0,)`, which its own functions refuse, so
the documented numbers stand here (nvml.h, nvmlGpuP2PCapsIndex_t).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref
from typing import Any

import pynvml

from nodeprep.errors import HostError, NotFound
from nodeprep.model.readings import NvmlGpu, NvmlPair, NvmlProcess, NvmlReading

_P2P_READ, _P2P_WRITE = 0, 1
_REMOTE_IS_SWITCH = 2
_MAX_NVLINKS = 18
_CLOCK_SM = 1
"""nvml.h, nvmlClockType_t."""


def read_nvml() -> NvmlReading:
    """Every GPU and pair that NVML knows.

    Raises NotFound without a driver library, HostError when NVML refuses to start (its message
    tells a driver/library version mismatch from a lost GPU).
    """
    with _started():
        handles = [
            handle
            for index in range(pynvml.nvmlDeviceGetCount())
            if (handle := _ask("nvmlDeviceGetHandleByIndex", index)) is not None
        ]
        gpus = tuple(_gpu(handle) for handle in handles)
        links = [_links(handle) for handle in handles]
        pairs = tuple(
            _pair(a, b, handles, gpus, links)
            for a in range(len(handles))
            for b in range(a + 1, len(handles))
        )
        return NvmlReading(
            driver_version=_text(_ask("nvmlSystemGetDriverVersion")), gpus=gpus, pairs=pairs
        )


@contextmanager
def _started() -> Iterator[None]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        raise NotFound(
            "no NVML library (libnvidia-ml.so.1)", hint="install the NVIDIA driver"
        ) from None
    except pynvml.NVMLError as error:
        raise HostError(f"NVML does not start: {error}") from None
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _ask(question: str, *arguments: Any) -> Any:
    """An answer of NVML, or None where this GPU, driver or binding has none."""
    try:
        return getattr(pynvml, question)(*arguments)
    except (pynvml.NVMLError, AttributeError, UnicodeDecodeError):
        return None


def _number(question: str, *arguments: Any) -> int | None:
    answer = _ask(question, *arguments)
    return None if answer is None else int(answer)


def _text(value: str | bytes | None) -> str | None:
    """Older bindings answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _gpu(handle: Any) -> NvmlGpu:
    memory = _ask("nvmlDeviceGetMemoryInfo", handle)
    bar1 = _ask("nvmlDeviceGetBAR1MemoryInfo", handle)
    capability = _ask("nvmlDeviceGetCudaComputeCapability", handle)
    mig = _ask("nvmlDeviceGetMigMode", handle)
    running = _ask("nvmlDeviceGetComputeRunningProcesses", handle)
    return NvmlGpu(
        bus_id=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId) or "",
        name=_text(_ask("nvmlDeviceGetName", handle)),
        uuid=_text(_ask("nvmlDeviceGetUUID", handle)),
        memory_total_bytes=None if memory is None else int(memory.total),
        memory_used_bytes=None if memory is None else int(memory.used),
        bar1_total_bytes=None if bar1 is None else int(bar1.bar1Total),
        compute_capability=None if capability is None else (capability[0], capability[1]),
        mig_current=None if mig is None else int(mig[0]),
        performance_state=_number("nvmlDeviceGetPerformanceState", handle),
        nvlinks_active=_active_nvlinks(handle),
        processes=None
        if running is None
        else tuple(
            NvmlProcess(pid=int(one.pid), memory_bytes=_process_bytes(one)) for one in running
        ),
        fabric_state=_fabric_state(handle),
        throttle_reasons=_throttle_reasons(handle),
        sm_clock_mhz=_number("nvmlDeviceGetClockInfo", handle, _CLOCK_SM),
        pcie_replays=_number("nvmlDeviceGetPcieReplayCounter", handle),
    )


def _fabric_state(handle: Any) -> int | None:
    """Only NVSwitch systems register their GPUs with a fabric; the binding fills a structure."""
    info = getattr(pynvml, "c_nvmlGpuFabricInfo_t", None)
    if info is None:
        return None
    answer = info()
    if _ask("nvmlDeviceGetGpuFabricInfo", handle, byref(answer)) is None:
        return None
    return int(answer.state)


def _throttle_reasons(handle: Any) -> int | None:
    """The query was renamed with driver 535; both names give the same mask."""
    for name in ("EventReasons", "ThrottleReasons"):
        mask = _number(f"nvmlDeviceGetCurrentClocks{name}", handle)
        if mask is not None:
            return mask
    return None


def _process_bytes(process: Any) -> int | None:
    """NVML_VALUE_NOT_AVAILABLE is all ones; the binding turns it into None only sometimes."""
    used = process.usedGpuMemory
    return None if used is None or used >= (1 << 63) else int(used)


def _active_nvlinks(handle: Any) -> int | None:
    states = [_ask("nvmlDeviceGetNvLinkState", handle, link) for link in range(_MAX_NVLINKS)]
    known = [state for state in states if state is not None]
    return sum(known) if known else None


def _links(handle: Any) -> list[str]:
    """The far end of every active NVLink: a bus id, or `switch`."""
    ends: list[str] = []
    for link in range(_MAX_NVLINKS):
        if _ask("nvmlDeviceGetNvLinkState", handle, link) != 1:
            continue
        kind = _ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        if kind == _REMOTE_IS_SWITCH:
            ends.append("switch")
            continue
        remote = _ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        if remote is not None:
            ends.append((_text(remote.busId) or "").lower())
    return ends


def _pair(
    a: int, b: int, handles: list[Any], gpus: tuple[NvmlGpu, ...], links: list[list[str]]
) -> NvmlPair:
    first, second = handles[a], handles[b]
    return NvmlPair(
        a=a,
        b=b,
        common_ancestor=_number("nvmlDeviceGetTopologyCommonAncestor", first, second),
        p2p_read=_number("nvmlDeviceGetP2PStatus", first, second, _P2P_READ),
        p2p_write=_number("nvmlDeviceGetP2PStatus", first, second, _P2P_WRITE),
        nvlinks=_nvlinks_between(a, b, gpus, links),
    )


def _nvlinks_between(
    a: int, b: int, gpus: tuple[NvmlGpu, ...], links: list[list[str]]
) -> int | None:
    """Links from a to b: direct ones, or the fewer of the two sides' links to the switches."""
    if gpus[a].nvlinks_active is None and gpus[b].nvlinks_active is None:
        return None
    direct = sum(end == gpus[b].bus_id.lower() for end in links[a])
    switched = min(links[a].count("switch"), links[b].count("switch"))
    return direct + switched
