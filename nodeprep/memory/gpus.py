"""GPUs as data: memory as CUDA reports it, capability, links."""

from __future__ import annotations

import re

from nodeprep.errors import UsageError
from nodeprep.memory.data import load
from nodeprep.model.base import Record
from nodeprep.units import bytes_from_gib


class GpuModel(Record, frozen=True):
    """One row of gpus.json."""

    name: str
    pattern: str
    """Regular expression for the name as nvidia-smi prints it, in lower case."""
    total_gib: float
    """cudaMemGetInfo total."""
    capability: str
    """Compute capability, `8.9`; empty: not known."""
    sms: int
    """Streaming multiprocessors; the Triton sampler's buffer has one row each."""
    nvlink: bool
    """Usually joined by NVLink in servers that hold several."""
    context_gib: float
    """In use on the device before vLLM's baseline: CUDA context and driver."""
    source: str
    exact_total: bool = False
    """The total was measured, not looked up."""

    @property
    def total_bytes(self) -> int:
        return bytes_from_gib(self.total_gib)

    @property
    def major(self) -> int:
        """Compute capability's major number; 0: not known."""
        return int(self.capability.partition(".")[0] or 0)


class _Table(Record, frozen=True):
    about: str
    gpus: tuple[GpuModel, ...]


def gpu_models() -> tuple[GpuModel, ...]:
    table: _Table = load("gpus.json", _Table)
    return table.gpus


def find_gpu(name: str, memory_gib: float | None = None) -> GpuModel:
    """The row for a GPU name in any usual spelling; `memory_gib` (measured) replaces its total.

    An unknown name is accepted with a measured total only: its capability stays unknown.
    Raises UsageError.
    """
    if memory_gib is not None and not 1 <= memory_gib <= 4096:
        raise UsageError(
            f"GPU memory of {memory_gib} GiB is not plausible",
            hint="give the total of one GPU in GiB, as torch.cuda.mem_get_info reports it",
        )
    row = _match(name)
    if row is None and memory_gib is None:
        raise UsageError(f"GPU {name[:60]!r} is not in the table", hint=_hint(name))
    if row is None:
        assert memory_gib is not None
        return GpuModel(
            name=name[:80], pattern="", total_gib=memory_gib, capability="", sms=108, nvlink=False,
            context_gib=0.45, source="--gpu-memory-gib", exact_total=True,
        )  # fmt: skip
    if memory_gib is None:
        return row
    return GpuModel(
        name=row.name, pattern=row.pattern, total_gib=memory_gib, capability=row.capability,
        sms=row.sms, nvlink=row.nvlink, context_gib=row.context_gib, source="--gpu-memory-gib",
        exact_total=True,
    )  # fmt: skip


def _match(name: str) -> GpuModel | None:
    """The row whose pattern covers most of the name; the first of equals."""
    text = re.sub(r"[-_/]+", " ", name.lower()[:200])
    found = [
        (len(match[0]), row)
        for row in gpu_models()
        if (match := re.search(r"(?<![a-z0-9])(?:" + row.pattern + ")(?![0-9])", text))
    ]
    if not found:
        # RTX3090 or RTXPRO6000, written without spaces after a prefix
        squeezed = text.replace(" ", "")
        found = [
            (len(match[0]), row)
            for row in gpu_models()
            if (match := re.search("(?:" + row.pattern + ")(?![0-9])", squeezed))
            and len(match[0]) > 3
        ]
    return max(found, key=lambda pair: pair[0], default=(0, None))[1]


def _hint(name: str) -> str:
    import difflib

    names = {row.name.lower(): row.name for row in gpu_models()}
    short = {re.sub(r"nvidia |geforce |tesla ", "", low): full for low, full in names.items()}
    near = difflib.get_close_matches(name.lower(), [*names, *short], n=3, cutoff=0.4)
    shown = ", ".join(dict.fromkeys(names.get(low) or short[low] for low in near))
    known = f"nearest: {shown}; or " if shown else ""
    return f"{known}give --gpu-memory-gib with the total that CUDA reports"
