"""GPUs as data: memory as CUDA reports it, capability, links."""

from __future__ import annotations

import re

from msgspec.structs import replace

from nodeprep.errors import UsageError
from nodeprep.memory.data import load
from nodeprep.model.base import Record
from nodeprep.units import bytes_from_gib

_MIG = re.compile(r"\d ?g\.(\d{1,3}) ?gb")
_SIZE = re.compile(r"(?<![\d.])(\d{1,4}) ?g(?:i?b)?\b(?!\.)|-(\d{1,3})[qc]\b")
_COUNTED = re.compile(
    r"^\s*\d{1,2}\s*[x*]\s*\D|^\s*\d{1,2}\s+[a-z]|\s[x*]\s*\d{1,3}$|\*\s*\d{1,3}$", re.I
)
"""`2x L40S`, `2 L40S`, `L40S x2`, `L40S*2`: nobody's name, and easily read as one GPU."""
_USUAL_SHARE = 0.985
_SMALLEST_SHARE = 0.88
"""CUDA's total against the nominal size: 44.4 of 48 GB with ECC in GDDR6 is the least."""


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
    unified: bool = False
    """The GPU's memory is the host's."""
    exact_total: bool = False
    """The total was measured, not looked up."""
    guessed_total: bool = False
    """The total comes from a size in the name that the table does not have for this model."""

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
    if _COUNTED.search(name):
        raise UsageError(
            f"GPU {name[:60]!r} holds a number of GPUs", hint="give it behind a colon: L40S:2"
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
        return _resized(row, name)
    return replace(row, total_gib=memory_gib, source="--gpu-memory-gib", exact_total=True)


def _resized(row: GpuModel, name: str) -> GpuModel:
    """The row with the memory that the name states, where it is not the row's own.

    Cards of one model come in sizes (RTX 4090 48GB, RTX 3080 12GB), vGPU and MIG profiles carry
    theirs (`A40-8Q`, `A100 MIG 3g.40gb`).  CUDA shows about 1.5 % less than such a size.
    """
    stated = _sizes(name)
    if not stated or stated & _sizes(row.name):
        return row
    size = min(stated)
    if size * _SMALLEST_SHARE <= row.total_gib <= size:
        return row
    return replace(
        row, total_gib=round(size * _USUAL_SHARE, 2), guessed_total=True,
        source=f"{size} GB in the name",
    )  # fmt: skip


def _sizes(name: str) -> set[int]:
    text = name.lower()[:200]
    found = [(one, "") for one in _MIG.findall(text)] or _SIZE.findall(text)
    return {int(one) for pair in found for one in pair if one and 4 <= int(one) <= 1024}


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
