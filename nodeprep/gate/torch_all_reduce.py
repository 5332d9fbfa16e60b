"""all_reduce with PyTorch, one process for each GPU: stands in for nccl-tests where it is missing.

Runs by itself under torchrun, in any Python that has torch; nothing of nodeprep is imported.

    torchrun --standalone --nproc-per-node=4 torch_all_reduce.py --max-bytes 536870912

This is the shape of a serving engine: peers are reached through CUDA IPC or cuMem handles, which
the one process of `all_reduce_perf -g N` never needs.  Rank 0 prints a row for each size, and one
line of JSON at the end.  algbw = size / time, busbw = algbw * 2 (n-1) / n, both in 10**9 bytes a
second, in place only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from typing import Any

WARMUPS = 5
ITERATIONS = 20
MIN_BYTES = 8 << 20
SCHEMA = "nodeprep.torch-all-reduce/1"


def main() -> int:
    arguments = _arguments()
    torch: Any = importlib.import_module("torch")
    dist: Any = importlib.import_module("torch.distributed")
    on_gpu = arguments.backend == "nccl"
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    minutes = importlib.import_module("datetime").timedelta(seconds=60)
    dist.init_process_group(arguments.backend, timeout=minutes)
    try:
        bench = _Bench(torch, dist, device)
        sizes = _sizes(arguments.min_bytes, arguments.max_bytes)
        rows = [bench.row(size) for size in sizes]
        devices = bench.devices()
    finally:
        dist.destroy_process_group()
    if rank == 0:
        _print_document(torch, arguments.backend, rows, devices)
    return 0


class _Bench:
    """One communicator and its timing."""

    def __init__(self, torch: Any, dist: Any, device: Any) -> None:
        self._torch, self._dist, self._device = torch, dist, device
        self._ranks: int = dist.get_world_size()
        self._rank: int = dist.get_rank()

    def row(self, size_bytes: int) -> dict[str, float | int]:
        """Times one size, then checks the value of every element in a pass of its own."""
        buffer = self._torch.zeros(size_bytes // 4, dtype=self._torch.float32, device=self._device)
        # Zeros: the sum of repeated in-place runs would overflow with any other value.
        seconds = self._slowest(self._time(buffer))
        wrong = self._wrong(buffer)
        algbw = size_bytes / seconds / 1e9
        busbw = algbw * 2 * (self._ranks - 1) / self._ranks
        row = {
            "size_bytes": size_bytes,
            "time_us": seconds * 1e6,
            "algbw_gbps": algbw,
            "busbw_gbps": busbw,
            "wrong": wrong,
        }
        if self._rank == 0:
            _say(
                f"{size_bytes:12d}  {size_bytes // 4:12d}     float     sum      -1"
                f"  {row['time_us']:7.1f}  {algbw:6.2f}  {busbw:6.2f}  {wrong:6d}"
            )
        return row

    def devices(self) -> list[dict[str, object]]:
        """Every rank's device, by rank."""
        mine: dict[str, object] = {
            "rank": self._rank,
            "device": None,
            "name": "cpu",
            "bus_id": None,
        }
        if self._device.type == "cuda":
            found = self._torch.cuda.get_device_properties(self._device)
            mine |= {"device": self._device.index, "name": found.name, "bus_id": _bus_id(found)}
        mine.setdefault("bus_id", None)
        gathered: list[Any] = [None] * self._ranks
        self._dist.all_gather_object(gathered, mine)
        return gathered

    def _time(self, buffer: Any) -> float:
        """Seconds of one all_reduce on this rank."""
        for _ in range(WARMUPS):
            self._dist.all_reduce(buffer)
        self._dist.barrier()
        if self._device.type != "cuda":
            began = time.perf_counter()
            for _ in range(ITERATIONS):
                self._dist.all_reduce(buffer)
            return (time.perf_counter() - began) / ITERATIONS
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(ITERATIONS):
            self._dist.all_reduce(buffer)
        end.record()
        self._torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / ITERATIONS

    def _slowest(self, seconds: float) -> float:
        held = self._torch.tensor([seconds], dtype=self._torch.float64, device=self._device)
        self._dist.all_reduce(held, op=self._dist.ReduceOp.MAX)
        return float(held.item())

    def _wrong(self, buffer: Any) -> int:
        """Elements of all ranks that are not 1 + 2 + ... + n after a sum of rank + 1."""
        buffer.fill_(self._rank + 1)
        self._dist.all_reduce(buffer)
        right = self._ranks * (self._ranks + 1) / 2
        wrong = (buffer != right).sum().to(self._torch.int64).reshape(1)
        self._dist.all_reduce(wrong)
        return int(wrong.item())


def _print_document(
    torch: Any, backend: str, rows: list[dict[str, float | int]], devices: list[dict[str, object]]
) -> None:
    on_gpu = backend == "nccl"
    document = {
        "schema": SCHEMA,
        "measurement": on_gpu,
        "note": "" if on_gpu else "gloo on the CPU: plumbing only, not a measurement",
        "backend": backend,
        "torch_version": str(torch.__version__),
        "nccl_version": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
        "ranks": len(devices),
        "devices": devices,
        "rows": rows,
    }
    _say(json.dumps(document, separators=(",", ":")))


def _bus_id(found: Any) -> str | None:
    """`0000:3b:00.0`, where this torch knows it."""
    bus = getattr(found, "pci_bus_id", None)
    if bus is None:
        return None
    domain, device = getattr(found, "pci_domain_id", 0), getattr(found, "pci_device_id", 0)
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def _sizes(least: int, most: int) -> list[int]:
    sizes = []
    while least <= most:
        sizes.append(least)
        least *= 2
    return sizes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--min-bytes", type=int, default=MIN_BYTES)
    parser.add_argument("--max-bytes", type=int, default=512 << 20)
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
