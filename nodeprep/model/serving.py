"""One configuration of a serving engine, and the files made from it."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record

KnobValue = bool | int | float | str


_BIG_GPU_BYTES = 70 << 30


def goal_tokens(goal: str | None, memory_bytes: int | None) -> int | None:
    """Tokens of one step for `latency` or `throughput`; None: no goal, the engine's default.

    A step is what a decoding request waits for: 2048 tokens keep it short, 4096 or (from 70 GiB a
    GPU, as vLLM's own defaults) 8192 fill the GPU.
    """
    if goal is None:
        return None
    if goal == "latency":
        return 2048
    return 8192 if memory_bytes is not None and memory_bytes >= _BIG_GPU_BYTES else 4096


class Interconnect(Enum):
    """How the GPUs of one tensor-parallel group reach each other."""

    SINGLE = "single GPU"
    NVLINK = "NVLink mesh"
    """Every pair is joined by NVLink, directly or through NVSwitch."""
    SWITCH = "PCIe switch"
    """Every pair has a common PCIe switch: PIX or PXB."""
    HOST = "host path"
    """At least one pair meets in the root complex or on another socket."""
    UNKNOWN = "unknown"


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


class GivenConfig(Record, frozen=True):
    """A configuration somebody runs already, to be compared with ours.

    Names as they wrote them: `max_model_len` and `--max-model-len` are one option.
    """

    options: dict[str, KnobValue] = {}
    """Options of `vllm serve`, `model` among them."""
    env: dict[str, str] = {}
    container: dict[str, str] = {}
    """Options of `docker run`: image, ipc, shm-size, publish, gpus."""


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
    node: str = "this node"
    """For whom the files were rendered."""
    gpu_indices: tuple[int, ...] = ()
    """The group's GPUs in nvidia-smi's numbering, PCI bus order."""
    all_gpus: bool = False
    """The group is every GPU of the node."""
    interconnect: Interconnect = Interconnect.UNKNOWN
    left_out: tuple[Knob, ...] = ()
    """What was considered and not rendered, with the value that would have stood there."""
    api_key_file: str = ""
    """Environment file with VLLM_API_KEY; empty: the server asks for no key."""
    hf_token_file: str | None = None
    cache_dir: str = "/var/cache/nodeprep"
    vllm_program: str = "/opt/vllm/bin/vllm"

    instance: int = 0
    instances: int = 1
    """Servers on this node; with more than one each file carries the instance's number."""

    @property
    def suffix(self) -> str:
        """Of the names of this server's files, units and container."""
        return f"-{self.instance}" if self.instances > 1 else ""

    def option(self, name: str) -> Knob | None:
        return next((knob for knob in self.options if knob.name == name), None)

    def variable(self, name: str) -> Knob | None:
        return next((knob for knob in self.env if knob.name == name), None)


class RenderedFile(Record, frozen=True):
    path: str
    changed: bool
