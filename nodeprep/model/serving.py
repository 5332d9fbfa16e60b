"""One configuration of a serving engine, and the files made from it."""

from __future__ import annotations

from nodeprep.model.base import Record

KnobValue = bool | int | float | str


class Knob(Record, frozen=True):
    """One setting with its reason; what nobody can explain is not rendered."""

    name: str
    """Flag without dashes (`max-model-len`), or the variable's name."""
    value: KnobValue
    reason: str
    source: str


class Difference(Record, frozen=True):
    """Where we depart from a configuration given to us."""

    name: str
    theirs: KnobValue | None
    ours: KnobValue | None
    reason: str


class ServingConfig(Record, frozen=True):
    """What runs: every file is rendered from this one value."""

    model: str
    vllm_version: str
    image: str
    tensor_parallel: int
    gpu_uuids: tuple[str, ...]
    """In PCI bus order; empty when unknown."""
    options: tuple[Knob, ...]
    """Options of `vllm serve`."""
    env: tuple[Knob, ...]
    """Environment of the engine; never a secret."""
    shm_bytes: int
    host_address: str
    port: int
    cpu_affinity: str | None
    numa_nodes: tuple[int, ...]
    warnings: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    simulated: bool = False


class RenderedFile(Record, frozen=True):
    path: str
    changed: bool
