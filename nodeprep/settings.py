"""Policy: every key of the configuration file, typed, with its default.

Defaults come first, then the file (`/etc/nodeprep/config.toml`, or `--config`), then options.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Any

import msgspec

from nodeprep.errors import UsageError

Positive = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{4}$")]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]

_MAX_CONFIG_BYTES = 256 << 10
DEFAULT_CONFIG = Path("/etc/nodeprep/config.toml")


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Accelerators(_Table, frozen=True):
    """Which PCI functions are accelerators."""

    vendors: tuple[Hex, ...] = ("10de",)
    """PCI vendor ids, four hex digits. 10de NVIDIA, 1002 AMD, 1da3 Habana."""
    classes: tuple[Hex, ...] = ("0300", "0302", "1200")
    """Base class and subclass: VGA controller, 3D controller, processing accelerator."""
    expected_count: Count | None = None
    """How many this node must have; None: as many as there are."""


class AcsPolicy(_Table, frozen=True):
    """What may be done to ACS."""

    pairs: str = "group"
    """`group`: pairs of the tensor-parallel group; `all`; a list, `0-1,0-2`; beside them `nic`."""
    allow_in_guest: bool = False
    """Allow writes inside a virtual machine (emulated or fully passed-through fabrics)."""
    reapply: str = "idle"
    """What to do when cleared bits come back. `idle`: write again unless a process uses the GPUs;
    `always`; or `never`: only report it."""
    rearm_alert: Count = 3
    """A port that was armed again this often in one boot is a warning."""


class WatchPolicy(_Table, frozen=True):
    """What `nodeprep watch` does."""

    debounce_s: Positive = 2.0
    """How long the PCI bus must be quiet before it is looked at."""
    interval_s: Positive = 300.0
    """A look without an event: error recovery and resume raise none."""
    stop_units: tuple[str, ...] = ("nodeprep-ready.target",)
    """Stopped when a GPU is lost; what requires them stops too."""


class GatePolicy(_Table, frozen=True):
    """How the bandwidth gate measures and judges."""

    min_busbw_gbps: Positive | None = None
    """GB/s at the largest size; None: the built-in table."""
    binaries: tuple[str, ...] = (
        "/opt/nccl-tests/build/all_reduce_perf",
        "/usr/local/bin/all_reduce_perf",
        "/usr/local/bin/all_reduce_perf_mpi",
        "/opt/amazon/nccl-tests/build/all_reduce_perf",
        "/root/nccl-tests/build/all_reduce_perf",
    )
    """Where all_reduce_perf is looked for before the search path."""
    deadline_s: Positive = 180.0
    max_spread: Fraction = 0.10
    """Largest accepted spread of the last three sizes, as a fraction."""
    max_drop_from_peak: Fraction = 0.20
    class_busbw_gbps: dict[str, Positive] = {}
    """GB/s for a class of the built-in table, `pcie4-switch-p2p`, in place of its pass mark."""
    silence_s: Positive = 60.0
    """Seconds without a row after which a run counts as hung."""
    repeats: Annotated[int, msgspec.Meta(ge=0, le=10)] = 2
    """Further runs after one that failed on bandwidth, or whose last sizes spread."""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=86400)] = 120.0
    """How long to wait for a fabric that is not up yet, or GPUs that are in use."""
    retry_every_s: Positive = 10.0
    image: str | None = None
    """Container image with nccl-tests; None: the program runs on the node itself."""
    container_engine: str | None = None
    """docker or podman; None: the one that is there."""
    container_program: str = "all_reduce_perf"
    """Path of the program inside the image."""
    two_arms: bool | None = None
    """Measure once more with peer-to-peer off; None: at boot, where peer-to-peer is expected."""
    allow_host_memory: bool = False
    """A node whose peer-to-peer is vetoed passes on its figure through host memory."""
    diagnose: bool = True
    """After a failure at boot look for the pair, port or link that causes it."""
    diagnose_s: Positive = 300.0
    """Time for all of that."""
    pair_s: Positive = 45.0
    """Deadline of one pair."""
    total_s: Positive = 1200.0
    """No further run is begun that might not end within this."""
    copies: bool = True
    """Measure copies with nvbandwidth where it is installed."""
    drift_warning: Fraction = 0.05
    """Fall below this node's own last good runs that is a warning, as a fraction."""
    drift_critical: Fraction = 0.10
    torch_python: tuple[str, ...] = ("/opt/vllm/bin/python", "python3")
    """Interpreters with PyTorch that may stand in for nccl-tests."""


class ServingPolicy(_Table, frozen=True):
    """What this node is to serve."""

    model: str | None = None
    """Catalogue name, Hugging Face name of the catalogue, or path to a config.json; None: nothing
    is planned or rendered."""
    vllm_version: str | None = None
    """None: the newest release that nodeprep knows."""
    image: str | None = None
    tensor_parallel: Count | None = None
    """None: all GPUs of the node."""
    groups: Count = 1
    """Servers on the node, each with tensor_parallel GPUs of its own."""
    goal: str | None = None
    """`latency` or `throughput`: tokens of one step, where max_num_batched_tokens does not say."""
    gpu_memory_utilization: Fraction | None = None
    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    kv_cache_dtype: str | None = None
    host_address: str = "127.0.0.1"
    port: Port = 8000
    dtype: str | None = None
    """None: as the checkpoint says."""
    block_size: Count | None = None
    """Tokens in a KV block; None: the engine's choice."""
    calculate_kv_scales: bool | None = None
    """None: where a release honours it and does not call it deprecated."""
    enable_prefix_caching: bool | None = None
    """None: on."""
    enforce_eager: bool = False
    expandable_segments: bool | None = None
    """None: wherever it is safe."""
    nccl_ib_disable: bool | None = None
    """None: when the node has no adapter NCCL could use."""
    offline: bool = False
    """The model is in the cache or on disk: nothing is fetched."""
    extra_args: dict[str, bool | int | float | str] = {}
    """More options of `vllm serve`, without dashes; checked against the release."""
    extra_env: dict[str, str] = {}
    """More variables of the engine; no secrets."""
    api_key_file: str = "/etc/nodeprep/secrets/vllm.env"
    """File of mode 0600 with the line VLLM_API_KEY=...; empty: the server asks for no key."""
    hf_token_file: str | None = None
    """File that holds a Hugging Face token and nothing else."""
    cache_dir: str = "/var/cache/nodeprep"
    """Weights and compiled kernels."""
    vllm_program: str = "/opt/vllm/bin/vllm"
    """For the unit that runs without a container."""


class Waiver(_Table, frozen=True):
    """A finding that stays visible and does not count, until it expires."""

    id: str
    reason: str
    expires: str
    """`2027-01-31`."""
    subject: str = "*"


class Settings(_Table, frozen=True):
    """The whole configuration file."""

    accelerators: Accelerators = Accelerators()
    acs: AcsPolicy = AcsPolicy()
    watch: WatchPolicy = WatchPolicy()
    gate: GatePolicy = GatePolicy()
    serving: ServingPolicy = ServingPolicy()
    waivers: tuple[Waiver, ...] = ()


def parse_settings(text: str, source: str) -> Settings:
    """Settings from TOML; unknown keys are refused with the nearest known name."""
    try:
        return msgspec.toml.decode(text, type=Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {error}", hint=_nearest(str(error))) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} is not TOML: {error}", hint="see docs/configuration.md"
        ) from None


def load_settings(path: Path) -> Settings:
    """Settings from a file that only root or this user can change: it names programs to run."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            _check_trusted(os.fstat(descriptor), path)
            content = file.read(_MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="name another with --config"
        ) from None
    if len(content) > _MAX_CONFIG_BYTES:
        raise UsageError(f"{path} is over {_MAX_CONFIG_BYTES >> 10} KiB: no configuration of ours")
    try:
        return parse_settings(content.decode("utf-8"), str(path))
    except UnicodeDecodeError:
        raise UsageError(
            f"cannot read {path}: it is not UTF-8", hint="see docs/configuration.md"
        ) from None


def _check_trusted(info: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise UsageError(f"cannot read {path}: it is no plain file")
    if info.st_uid not in (0, os.geteuid()):
        raise UsageError(f"{path} belongs to user {info.st_uid}", hint=f"run: chown root {path}")
    if info.st_mode & 0o022:
        raise UsageError(f"{path} can be changed by others", hint=f"run: chmod go-w {path}")


def override(settings: Settings, table: str, **values: Any) -> Settings:
    """Settings with the given values of one table replaced; None leaves a value alone."""
    given = {name: value for name, value in values.items() if value is not None}
    if not given:
        return settings
    changed = msgspec.structs.replace(getattr(settings, table), **given)
    return msgspec.structs.replace(settings, **{table: changed})


def _nearest(message: str) -> str:
    """A hint for an unknown key: the nearest name the tables know."""
    from difflib import get_close_matches

    quoted = message.split("`")
    if "unknown field" not in message or len(quoted) < 2:
        return "see docs/configuration.md"
    tables: tuple[type[_Table], ...] = (
        Settings, Accelerators, AcsPolicy, WatchPolicy, GatePolicy, ServingPolicy, Waiver,
    )  # fmt: skip
    known = sorted({name for table in tables for name in table.__struct_fields__})
    near = get_close_matches(quoted[1], known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(known)}"
