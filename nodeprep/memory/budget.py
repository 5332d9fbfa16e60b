"""What a release takes from `utilization x total` before the KV cache gets the rest.

freed (to 0.6.3): free memory before the model minus free memory after profiling, torch's cache
  included; the process group is made in between.
used (V0 0.6.4, V1 to 0.9.0): torch's peak + everything else in use on the device: the context,
  NCCL, other processes.
baseline (V0 0.6.5-0.10.2, V1 0.9.1-0.10.2): weights + peak increase + increase of non-torch
  memory since a snapshot taken before the process group: NCCL yes, context no.
snapshot (0.11.0-0.26): the same, with the snapshot after the process group: NCCL only where it
  is allocated lazily.
consumed (0.27 on): free memory at the snapshot minus free memory after profiling + transient
  peak: also what torch keeps in persistent buffers and loses in fragments.
Sources: worker.py, v1/worker/gpu_worker.py and utils/mem_utils.py of those releases.
"""

from __future__ import annotations

from nodeprep.memory.communication import communication_bytes, lazy_bytes
from nodeprep.memory.gpus import GpuModel
from nodeprep.units import MIB

_CUBLAS = 8 * MIB + MIB // 8
_CUBLAS_HOPPER = 32 * MIB
_MODULES_V0 = 50 * MIB
_MODULES_V1 = 70 * MIB
"""Kernels loaded during profiling.  Fitted: 0.01 to 0.12 GiB in logs at TP 1."""
_GRAPH_TRIAL = 100 * MIB
"""Driver memory left by the trial capture.  Fitted: 0.02 to 0.3 GiB beyond the rest in logs of
0.19 and 0.22."""
_HOST_GROWTH = 700 * MIB
"""Where GPU and host share their memory, what the engine's own process grows by while it loads and
compiles is missing from the free memory too.  Fitted on two logs of a GB10 (0.13)."""
_PERSISTENT = 64 * MIB
"""Persistent buffers and fragments of segments that `consumed` counts as well.  Fitted on one log
of 0.26.1.dev: 0.33 GiB beside the weights."""
_FRAGMENTED_SHARE = 0.01
"""Of quantized weights: segments left half empty when loading replaces their tensors, which
`consumed` counts.  Fitted on two sources (fp8 blocks, 0.27 and 0.29)."""
_FREED_SLACK = 1.35
"""Torch's reserved peak against its allocated peak when the forward pass sets it.  Fitted on two
logs of 0.6.2."""


def cublas_bytes(major: int) -> int:
    """cuBLAS workspace, allocated through torch at the first product.

    2 x 4 MiB + 8 x 16 KiB, on Hopper and later 32 MiB.
    Source: aten/src/ATen/cuda/CublasHandlePool.cpp parseChosenWorkspaceSize.
    """
    return _CUBLAS_HOPPER if major >= 9 else _CUBLAS


def other_bytes(
    kind: str,
    present_bytes: int,
    *,
    v1: bool,
    graph_trial: bool = False,
    unified: bool = False,
    persistent_bytes: int = 0,
) -> int:
    """Neither torch's nor NCCL's: kernels, persistent buffers, and where it is counted what was on
    the device before (`present_bytes`: the context, other processes).
    """
    modules = (_MODULES_V1 if v1 else _MODULES_V0) + (_GRAPH_TRIAL if graph_trial else 0)
    modules += _HOST_GROWTH if unified else 0
    if kind == "used":
        return modules + present_bytes
    if kind == "consumed":
        return modules + _PERSISTENT + persistent_bytes
    return modules


def nccl_bytes(kind: str, tp: int, gpu: GpuModel, *, nvlink: bool) -> int:
    """The part of NCCL's memory that this accounting sees."""
    if kind in ("snapshot", "consumed"):
        return lazy_bytes(tp, nvlink=nvlink, major=gpu.major)
    return communication_bytes(tp, nvlink=nvlink, major=gpu.major)


def counted_peak(kind: str, peak_bytes: int, forward_peak: bool) -> int:
    """Torch's peak as the accounting counts it: `freed` sees the cached segments too."""
    return int(peak_bytes * _FREED_SLACK) if kind == "freed" and forward_peak else peak_bytes


def fragment_bytes(kind: str, weights: int, *, quantized: bool) -> int:
    """Reserved but unallocated memory that loading leaves, where the accounting sees it."""
    return int(weights * _FRAGMENTED_SHARE) if kind == "consumed" and quantized else 0


def reserve_bytes(total_bytes: int, requested_bytes: int) -> int:
    """What stays outside the budget: (1 - utilization) x total."""
    return total_bytes - requested_bytes


def outside_bytes(
    kind: str, gpu: GpuModel, tp: int, present_bytes: int, graphs: int, *, nvlink: bool
) -> int:
    """What will live in that reserve: what was there before (context, other processes), NCCL and
    graphs, each where the budget ignores it.
    """
    context = 0 if kind == "used" else present_bytes
    whole = communication_bytes(tp, nvlink=nvlink, major=gpu.major)
    return context + graphs + max(0, whole - nccl_bytes(kind, tp, gpu, nvlink=nvlink))


def before_bytes(gpu: GpuModel, tp: int, kind: str, present_bytes: int, *, nvlink: bool) -> int:
    """In use when vLLM checks free memory: what was there, and NCCL once it exists before that."""
    if kind in ("snapshot", "consumed"):
        whole = communication_bytes(tp, nvlink=nvlink, major=gpu.major)
        return present_bytes + whole - lazy_bytes(tp, nvlink=nvlink, major=gpu.major)
    return present_bytes
