"""GPUs and pairs: the bus says which exist, NVML what they are, nvidia-smi's text otherwise."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from nodeprep.errors import HostError, ParseError
from nodeprep.facts.asking import number_or_none
from nodeprep.host.base import Host
from nodeprep.model.gpu import Gpu, GpuProcess
from nodeprep.model.pci import Bdf, PciFunction, parse_bdf
from nodeprep.model.readings import NvmlGpu, NvmlPair, NvmlReading
from nodeprep.model.topology import GpuPair, LevelMatrix, P2pStatus, PathLevel
from nodeprep.settings import Accelerators
from nodeprep.units import MIB

_DEADLINE_S = 30.0
_FIELDS = (
    "index", "pci.bus_id", "name", "uuid", "memory.total", "memory.used", "compute_cap",
    "mig.mode.current", "pstate",
)  # fmt: skip
QUERY = f"--query-gpu={','.join(_FIELDS)}"
"""What nvidia-smi is asked for each GPU."""

APPS = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory,name"
"""Which processes compute on which GPU."""

# nvml.h: nvmlGpuTopologyLevel_t and nvmlGpuP2PStatus_t.
_ANCESTORS = {
    0: PathLevel.PIX,
    10: PathLevel.PIX,
    20: PathLevel.PXB,
    30: PathLevel.PHB,
    40: PathLevel.NODE,
    50: PathLevel.SYS,
}
_STATUSES = {
    0: P2pStatus.OK,
    1: P2pStatus.CNS,
    2: P2pStatus.GNS,
    3: P2pStatus.TNS,
    4: P2pStatus.DR,
    5: P2pStatus.NS,
    6: P2pStatus.U,
}


class Driver(NamedTuple):
    """What the driver says, whichever way it was asked."""

    gpus: dict[Bdf, Gpu]
    pairs: tuple[GpuPair, ...]
    """Indices are positions in `gpus`, in PCI order."""
    problem: str | None = None


def accelerators(functions: Mapping[Bdf, PciFunction], policy: Accelerators) -> tuple[Bdf, ...]:
    """The functions that the policy calls accelerators, in PCI order.

    Virtual functions and functions handed to guests (vfio-pci) are not this node's to use.
    """
    vendors = {int(vendor, 16) for vendor in policy.vendors}
    classes = {int(code, 16) for code in policy.classes}
    return tuple(
        sorted(
            one.bdf
            for one in functions.values()
            if one.vendor_id in vendors
            and one.class_code >> 8 in classes
            and not (one.is_vf or one.driver == "vfio-pci")
        )
    )


def ask_driver(host: Host) -> Driver:
    """NVML first; its own words are kept when the text of nvidia-smi has to do instead."""
    try:
        return from_nvml(host.nvml())
    except HostError as nvml_error:
        if not host.has_program("nvidia-smi"):
            raise
        driver = from_nvidia_smi(host)
        return driver._replace(problem=f"NVML: {nvml_error.message}")


def merge(
    bdfs: tuple[Bdf, ...], driver: Driver, functions: Container[Bdf]
) -> tuple[tuple[Gpu, ...], tuple[GpuPair, ...]]:
    """GPUs numbered in PCI order, each with what the driver knows of it, and their pairs.

    A GPU of the driver that the bus does not list counts too; one that the bus lists and the policy
    does not want does not.
    """
    hidden = {bdf for bdf in driver.gpus if bdf not in functions}
    everything = sorted({*bdfs, *hidden})
    number = {bdf: index for index, bdf in enumerate(everything)}
    gpus = tuple(
        _renumbered(driver.gpus[bdf], number[bdf])
        if bdf in driver.gpus
        else Gpu(index=number[bdf], bdf=bdf, driver_grade="pci")
        for bdf in everything
    )
    places = sorted(driver.gpus)
    known = {}
    for pair in driver.pairs:
        if places[pair.a] not in number or places[pair.b] not in number:
            continue
        low, high = sorted((number[places[pair.a]], number[places[pair.b]]))
        known[low, high] = GpuPair(
            a=low,
            b=high,
            driver_level=pair.driver_level,
            nvlinks=pair.nvlinks,
            p2p_read=pair.p2p_read,
            p2p_write=pair.p2p_write,
        )
    pairs = tuple(
        known.get((a, b), GpuPair(a=a, b=b))
        for a in range(len(gpus))
        for b in range(a + 1, len(gpus))
    )
    return gpus, pairs


def from_nvml(reading: NvmlReading) -> Driver:
    """NVML's device order need not be PCI order; positions are mapped to it."""
    bdfs = [parse_bdf(gpu.bus_id) for gpu in reading.gpus]
    if len(set(bdfs)) < len(bdfs):
        raise HostError("NVML names one bus address for two GPUs", hint="compare with nvidia-smi")
    places = {bdf: position for position, bdf in enumerate(sorted(bdfs))}
    gpus = {bdf: _nvml_gpu(bdf, gpu) for bdf, gpu in zip(bdfs, reading.gpus, strict=True)}
    pairs = tuple(
        _nvml_pair(pair, places[bdfs[pair.a]], places[bdfs[pair.b]])
        for pair in reading.pairs
        if 0 <= pair.a < len(bdfs) and 0 <= pair.b < len(bdfs)
    )
    return Driver(gpus, pairs)


def from_nvidia_smi(host: Host) -> Driver:
    """The query and the three matrices; a matrix that cannot be had leaves its column unknown."""
    from nodeprep.parse.nvidia_smi import parse_query_csv
    from nodeprep.parse.p2p import parse_p2p
    from nodeprep.parse.topo import parse_topo

    query = host.run(
        ("nvidia-smi", QUERY, "--format=csv,nounits"),
        deadline_s=_DEADLINE_S,
    )
    if query.status != 0:
        said = (query.stdout or query.stderr).strip().splitlines()
        raise HostError(f"nvidia-smi ended with {query.status}: {said[0] if said else 'no word'}")
    rows = parse_query_csv(query.stdout)
    gpus = _with_processes(
        host, {bdf: gpu for row in rows if (gpu := _row_gpu(row)) and (bdf := gpu.bdf)}
    )
    smi_index = {gpu.index: place for place, gpu in enumerate(sorted(gpus.values(), key=_by_bdf))}
    levels = _matrix(host, ("nvidia-smi", "topo", "-m"), parse_topo)
    reads = _matrix(host, ("nvidia-smi", "topo", "-p2p", "r"), parse_p2p)
    writes = _matrix(host, ("nvidia-smi", "topo", "-p2p", "w"), parse_p2p)
    pairs = tuple(
        _text_pair(a, b, smi_index, levels, reads, writes)
        for a in sorted(smi_index)
        for b in sorted(smi_index)
        if a < b
    )
    return Driver(gpus, pairs)


def _with_processes(host: Host, gpus: dict[Bdf, Gpu]) -> dict[Bdf, Gpu]:
    """The GPUs with the compute processes on them; None stays where nvidia-smi does not tell."""
    from msgspec.structs import replace

    from nodeprep.parse.nvidia_smi import parse_query_csv

    try:
        result = host.run(("nvidia-smi", APPS, "--format=csv,nounits"), deadline_s=_DEADLINE_S)
        rows = parse_query_csv(result.stdout) if result.status == 0 else None
    except (HostError, ParseError):
        rows = None
    if rows is None:
        return gpus
    running: dict[str, list[GpuProcess]] = {}
    for row in rows:
        pid, used = number_or_none(row.get("pid")), number_or_none(row.get("used_gpu_memory"))
        process = GpuProcess(
            pid=pid or 0, memory_bytes=None if used is None else used * MIB, name=row.get("name")
        )
        running.setdefault(row.get("gpu_uuid") or "", []).append(process)
    return {
        bdf: replace(gpu, processes=tuple(running.get(gpu.uuid or "?", ())))
        for bdf, gpu in gpus.items()
    }


def _by_bdf(gpu: Gpu) -> str:
    return gpu.bdf


def _renumbered(gpu: Gpu, index: int) -> Gpu:
    from msgspec.structs import replace

    return replace(gpu, index=index)


def _nvml_gpu(bdf: Bdf, gpu: NvmlGpu) -> Gpu:
    return Gpu(
        index=0,
        bdf=bdf,
        name=gpu.name,
        uuid=gpu.uuid,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_used_bytes=gpu.memory_used_bytes,
        bar1_total_bytes=gpu.bar1_total_bytes,
        compute_capability=gpu.compute_capability,
        mig_enabled=None if gpu.mig_current is None else gpu.mig_current == 1,
        driver_grade="nvml",
        performance_state=gpu.performance_state,
        processes=None
        if gpu.processes is None
        else tuple(GpuProcess(pid=one.pid, memory_bytes=one.memory_bytes) for one in gpu.processes),
        fabric_state=gpu.fabric_state,
    )


def _nvml_pair(pair: NvmlPair, a: int, b: int) -> GpuPair:
    level = None if pair.common_ancestor is None else _ANCESTORS.get(pair.common_ancestor)
    return GpuPair(
        a=a,
        b=b,
        driver_level=PathLevel.NVLINK if pair.nvlinks else level,
        nvlinks=pair.nvlinks,
        p2p_read=None if pair.p2p_read is None else _STATUSES.get(pair.p2p_read, P2pStatus.U),
        p2p_write=None if pair.p2p_write is None else _STATUSES.get(pair.p2p_write, P2pStatus.U),
    )


def _row_gpu(row: dict[str, str | None]) -> Gpu | None:
    try:
        bdf = parse_bdf(row.get("pci.bus_id") or "")
    except ParseError:
        return None
    total, used = number_or_none(row.get("memory.total")), number_or_none(row.get("memory.used"))
    major, _, minor = (row.get("compute_cap") or "").partition(".")
    generation, revision = number_or_none(major), number_or_none(minor)
    return Gpu(
        index=number_or_none(row.get("index")) or 0,
        bdf=bdf,
        name=row.get("name"),
        uuid=row.get("uuid"),
        memory_total_bytes=None if total is None else total * MIB,
        memory_used_bytes=None if used is None else used * MIB,
        compute_capability=None
        if generation is None or revision is None
        else (generation, revision),
        mig_enabled={"Enabled": True, "Disabled": False}.get(row.get("mig.mode.current") or ""),
        driver_grade="nvidia-smi",
        performance_state=number_or_none((row.get("pstate") or "").removeprefix("P")),
    )


def _matrix(
    host: Host, argv: tuple[str, ...], parse: Callable[[str], tuple[LevelMatrix, ...]]
) -> LevelMatrix | None:
    try:
        result = host.run(argv, deadline_s=_DEADLINE_S)
        matrices = parse(result.stdout)
    except (HostError, ParseError):
        return None
    return next((matrix for matrix in matrices if matrix.complete), None)


def _text_pair(
    a: int,
    b: int,
    place: dict[int, int],
    levels: LevelMatrix | None,
    reads: LevelMatrix | None,
    writes: LevelMatrix | None,
) -> GpuPair:
    level, nvlinks = level_of_cell(_cell(levels, a, b))
    low, high = sorted((place[a], place[b]))
    return GpuPair(
        a=low,
        b=high,
        driver_level=level,
        nvlinks=nvlinks,
        p2p_read=_status(_cell(reads, a, b)),
        p2p_write=_status(_cell(writes, a, b)),
    )


def level_of_cell(cell: str | None) -> tuple[PathLevel | None, int | None]:
    """`NV18` -> (NVLINK, 18); `PIX` -> (PIX, 0); anything else -> (None, None)."""
    if cell is None:
        return None, None
    if cell.startswith("NV") and cell[2:].isdecimal():
        return PathLevel.NVLINK, number_or_none(cell[2:])
    try:
        return PathLevel(cell), 0
    except ValueError:
        return None, None


def _cell(matrix: LevelMatrix | None, a: int, b: int) -> str | None:
    return None if matrix is None else matrix.cells.get(f"GPU{a}", {}).get(f"GPU{b}")


def _status(cell: str | None) -> P2pStatus | None:
    try:
        return None if cell is None else P2pStatus(cell)
    except ValueError:
        return P2pStatus.U
