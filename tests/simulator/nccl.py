"""What all_reduce_perf would print on a machine that is only a model.

Two functions for builders of recorded machines and for tests:

`model_busbw_gbps(tree, gpu_bdfs)` computes bus bandwidth from topology, links and ACS state;
`simulate_all_reduce(version, bus_ids, names, busbw_gbps)` prints it in the byte format of
nccl-tests v2.13.10, v2.17.9 or v2.19.6.  The first line says that nothing was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nodeprep.gate.links import hops_below
from nodeprep.model.gpu import Gpu
from nodeprep.model.pci import Bdf
from nodeprep.model.tree import PciTree

SIMULATED_LINE = "# SIMULATED by nodeprep"
VERSIONS = ("2.13.10", "2.17.9", "2.19.6")
MIB = 1 << 20
GATE_SIZES = tuple(8 * MIB << step for step in range(7))
"""8 MiB to 512 MiB, as `-b 8M -e 512M -f 2`."""
VIA = {"P2P": "P2P/direct pointer", "SHM": "SHM/direct/direct", "NET": "NET/Socket/0"}
_LOCAL_GBPS = 500.0
"""A copy inside one GPU: what a single rank does."""
_HALVES_APART = 0.0002
"""Out-of-place and in-place differ by this fraction from their mean."""
SHM_EFFICIENCY = 0.6
"""Host memory reaches 14-18 of 24 GB/s on Gen4, 27 of 48 on Gen5, 4-7 of 12 on Gen3."""
AMD_INTERCONNECT_GBPS = 16.0
"""NCCL's figure between two AMD sockets (src/graph/topo.h)."""


def model_busbw_gbps(
    tree: PciTree,
    gpu_bdfs: Sequence[Bdf],
    *,
    transport: str | Sequence[str] = "P2P",
    nvlink_gbps: float | None = None,
    interconnect_gbps: float = AMD_INTERCONNECT_GBPS,
) -> float:
    """Bus bandwidth of a ring over the GPUs in this order, GB/s.

    Each hop gives its rate divided by the flows that share it in one direction; the smallest
    share limits the ring.  A flow turns at the lowest common bridge.  It climbs to the root complex
    and comes down again when a port on its way redirects (ACS), when no bridge is common, or when
    `transport` is `SHM`.  Between NUMA nodes it also crosses `interconnect_gbps`.
    `transport` may name one for each GPU and its next.
    With `nvlink_gbps` (GB/s of one GPU in one direction) the ring runs over NVLink instead.
    """
    ring = [transport] * len(gpu_bdfs) if isinstance(transport, str) else list(transport)
    if nvlink_gbps is not None and set(ring) == {"P2P"}:
        return nvlink_gbps
    links: Counter[tuple[Bdf | None, Bdf, str]] = Counter()
    rates: dict[tuple[Bdf | None, Bdf, str], float] = {}
    crossings: Counter[tuple[int | None, int | None]] = Counter()
    efficiency: dict[tuple[Bdf | None, Bdf, str], float] = {}
    for source, target, via in zip(gpu_bdfs, [*gpu_bdfs[1:], gpu_bdfs[0]], ring, strict=True):
        route = tree.route(source, target)
        climbs = via == "SHM" or route.common is None or bool(route.redirecting)
        turn = None if climbs or route.common is None else route.common.bdf
        for end, direction in ((source, "up"), (target, "down")):
            for hop in hops_below(tree, Gpu(index=0, bdf=end), turn):
                if hop is None:
                    raise ValueError(f"the model does not know a link above {end}")
                key = (hop.above, hop.below, direction)
                links[key] += 1
                rates[key] = hop.gbps
                if via == "SHM":
                    efficiency[key] = SHM_EFFICIENCY
        if climbs and route.a.numa_node != route.b.numa_node:
            crossings[route.a.numa_node, route.b.numa_node] += 1
    shares = [rates[key] * efficiency.get(key, 1.0) / flows for key, flows in links.items()]
    shares += [interconnect_gbps / flows for flows in crossings.values()]
    return min(shares)


def simulate_all_reduce(
    version: str,
    bus_ids: Sequence[tuple[int, str]],
    names: Sequence[str],
    busbw_gbps: float,
    *,
    sizes: Sequence[int] = GATE_SIZES,
    transport: str | Sequence[str] = "P2P",
    nccl_version: str = "2.27.7",
    latency_us: float = 40.0,
    wrong: int = 0,
    validation: int = 1,
    host: str = "node-a",
    pid: int = 4242,
    channels: int = 2,
    simulated_line: bool = True,
) -> str:
    """The output of `all_reduce_perf -f 2 -g N -w 5 -n 20 -c 1`.

    `bus_ids`: (CUDA device, address `0000:3b:00.0`) of each rank; `names`: product names.
    `busbw_gbps` is what the largest size reaches; smaller ones pay `latency_us` on top.
    `transport`: `P2P`, `SHM` or `NET`, or one for each rank and its next.
    `wrong`: wrong values in the last row.
    """
    ranks = len(bus_ids)
    factor = 2 * (ranks - 1) / ranks
    lines = [SIMULATED_LINE] if simulated_line else []
    lines += head_lines(version, sizes, ranks, validation, nccl_version)
    lines += [
        rank_line(version, rank, pid, host, device, address, name)
        for rank, ((device, address), name) in enumerate(zip(bus_ids, names, strict=True))
    ]
    log = log_lines(host, pid, ranks, transport, channels, nccl_version)
    lazy = tuple(map(int, nccl_version.split(".")[:2])) >= (2, 22)
    lines += [] if lazy else log
    lines += header_lines(version)
    lines += log if lazy else []
    busbws: list[float] = []
    for size in sizes:
        rest = 1 - size / sizes[-1]
        wire_us = size * factor / busbw_gbps / 1e3 if ranks > 1 else size / _LOCAL_GBPS / 1e3
        time_us = wire_us + latency_us * rest
        times = (time_us * (1 - _HALVES_APART), time_us * (1 + _HALVES_APART))
        errors = (wrong if size == sizes[-1] else 0) if validation else None
        lines.append(row_line(version, size, *times, ranks, errors))
        busbws += [size * factor / time / 1e3 for time in times]
    average = sum(busbws) / len(busbws) if busbws else 0.0
    lines += footer_lines(version, average, wrong * 2 if validation else 0)
    return "\n".join(lines) + "\n"


def head_lines(
    version: str, sizes: Sequence[int], ranks: int, validation: int, nccl_version: str
) -> list[str]:
    """Up to `# Using devices`."""
    new = _number(version) >= (2, 17)
    code = 0
    for part in nccl_version.split("."):
        code = code * 100 + int(part)
    lines = [
        f"# nccl-tests version {version} nccl-headers={code} nccl-library={code}",
        "# Collective test starting: all_reduce_perf",
    ]
    options = (
        f"# nThread 1 nGpus {ranks} minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) "
        f"warmup iters: 5 iters: 20 agg iters: 1 validation: {validation} graph: 0"
    )
    if _number(version) >= (2, 18, 5):
        options += " unalign: 0"
    return [*(lines if new else []), options, "#", "# Using devices"]


def rank_line(
    version: str, rank: int, pid: int, host: str, device: int, address: str, name: str
) -> str:
    domain, bus, rest = address.split(":")
    place = f"{domain}:{bus}:{rest[:2]}" if _number(version) >= (2, 15) else f"0x{bus}"
    return (
        f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {host:>10s} device {device:2d} "
        f"[{place}] {name}"
    )


def header_lines(version: str) -> list[str]:
    blank = f"# {'':>10s}  {'':>12s}  {'':>8s}  {'':>6s}  {'':>6s}"
    before = f"# {'size':>10s}  {'count':>12s}  {'type':>8s}  {'redop':>6s}  {'root':>6s}"
    units = f"# {'(B)':>10s}  {'(elements)':>12s}  {'':>8s}  {'':>6s}  {'':>6s}"
    gap, end = ("  ", " ") if _number(version) >= (2, 17) else (" ", "")
    names = f"  {'time':>7s}  {'algbw':>6s}  {'busbw':>6s}{gap}{'#wrong':>6s}"
    scales = f"  {'(us)':>7s}  {'(GB/s)':>6s}  {'(GB/s)':>6s}{gap}{'':>6s}"
    return [
        "#",
        f"{blank}           out-of-place                       in-place          ",
        f"{before}{names}{names}{end}",
        f"{units}{scales}{scales}{end}",
    ]


def row_line(
    version: str, size: int, out_us: float, in_us: float, ranks: int, wrong: int | None
) -> str:
    head = f"{size:12d}  {size // 4:12d}  {'float':>8s}  {'sum':>6s}  {-1:6d}"
    return head + "".join(_half(version, size, time, ranks, wrong) for time in (out_us, in_us))


def footer_lines(version: str, average: float, wrong: int) -> list[str]:
    lines = [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {average:g} ",
        "#",
    ]
    if _number(version) >= (2, 17):
        lines += ["# Collective test concluded: all_reduce_perf", "#"]
    return [*lines, ""]


def log_lines(
    host: str,
    pid: int,
    ranks: int,
    transport: str | Sequence[str],
    channels: int,
    nccl_version: str,
) -> list[str]:
    """What NCCL_DEBUG=INFO prints of version and ring."""
    lines = [f"{host}:{pid}:{pid} [0] NCCL INFO NCCL version {nccl_version}+cuda12.8"]
    ring = [transport] * ranks if isinstance(transport, str) else list(transport)
    for rank in range(ranks if ranks > 1 else 0):
        after, via = (rank + 1) % ranks, VIA[ring[rank]]
        for channel in range(channels):
            number = f"{channel:02d}" + ("" if ring[rank] == "SHM" else "/0")
            lines.append(
                f"{host}:{pid}:{pid + 1 + rank} [{rank}] NCCL INFO Channel {number} : "
                f"{rank}[{rank}] -> {after}[{after}] via {via}"
            )
    return lines


def _half(version: str, size: int, time_us: float, ranks: int, wrong: int | None) -> str:
    algbw = size / time_us / 1e3
    busbw = algbw * 2 * (ranks - 1) / ranks
    if _number(version) >= (2, 17):
        errors = "   N/A" if wrong is None else f"{wrong:6g}"
        figures = ((time_us, 7), (algbw, 6), (busbw, 6))
        cells = "".join(f"  {_fitted(value, width):>{width}s}" for value, width in figures)
        return f"{cells}  {errors}"
    errors = "  N/A" if wrong is None else f"{wrong:5g}"
    return f"  {_old_time(time_us):>7s}  {algbw:6.2f}  {busbw:6.2f}  {errors}"


def _old_time(time_us: float) -> str:
    if time_us >= 10000:
        return f"{time_us:7.0f}"
    return f"{time_us:7.1f}" if time_us >= 100 else f"{time_us:7.2f}"


def _fitted(value: float, width: int) -> str:
    """As many decimals as fit, as getFloatStr() of src/util.cu does since 2.17.3."""
    digits = max(1, len(str(int(value))))
    if digits < width - 2:
        return f"{value:.2f}"
    if digits < width - 1:
        return f"{value:.1f}"
    return f"{value:.0f}" if digits < width + 1 else f"{value:.1e}"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
