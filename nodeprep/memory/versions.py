"""vLLM versions, and what each release's memory accounting does: data in versions.json."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from nodeprep.errors import UsageError
from nodeprep.memory.data import load
from nodeprep.model.base import Record

_VERSION = re.compile(
    r"v?(\d{1,3})\.(\d{1,4})(?:\.(\d{1,4})(?:\.\d{1,4})?)?(?P<rest>[a-z0-9.+_-]{0,80})", re.I
)
_REST = re.compile(
    r"(?:[._-]?(?:a|b|c|rc|alpha|beta|pre)\.?\d*)?(?:[._-]?post\d*)?(?:[._-]?dev\d*)?(?:\+.*)?",
    re.I,
)

Version = tuple[int, int, int]

OLDEST: Version = (0, 4, 0)
NEWEST: Version = (0, 33, 0)
"""The newest release whose source was read."""


class EngineRules(Record, frozen=True):
    """What one release does; the words are explained in the modules that use them."""

    version: Version
    engine: str
    """V0, V1, or auto: V1 where it supports the request, V0 otherwise."""
    utilization: float
    budget_v0: str
    """freed, used, baseline: see budget.py."""
    budget_v1: str
    """used, baseline, snapshot, consumed: see budget.py."""
    chunk_tokens_v0: int
    """Tokens a step when V0 chunks by itself, above 32768 tokens of context; 0: it does not."""
    seqs_v0: int
    sampler: str
    """sort or triton: see sampler.py."""
    flashinfer: str
    """none, installed, default: whether FlashInfer samples: not, where installed, always."""
    a100_is_large: bool
    huge_tier: bool
    graphs: str
    """none, v1, all: which model runners subtract an estimate of CUDA graph memory."""
    v2: str
    """none, listed-dense, listed, dense, all: which models get model runner V2 by default."""
    v2_architectures: tuple[str, ...]
    v2_sampler: str
    """copy, logits, full: what V2's profiling run samples with."""
    reported: str
    """blocks, groups, concurrency: how `GPU KV cache size` is worked out."""
    steps_in_flight: int
    """Steps whose tokens a sliding or chunked window keeps beside itself."""
    state_blocks: int
    """Blocks of one sequence in a group of state-space layers."""
    hybrid: bool
    """Sliding layers get groups of their own; otherwise they are kept as full attention."""
    mla: bool
    mla_padded: bool
    mla_absorbed: bool
    """MLA's projections are multiplied out and stored beside the originals."""
    fp8_kv_needs_v0: bool
    """fp8 KV below compute capability 9 falls back to V0."""
    deepstack_tokens: int
    """Tokens of the largest video that a tower with deepstack outputs is profiled with; 0: an image
    is larger."""
    moe_workspace: bool
    """The experts' intermediate buffers stay allocated."""
    graph_trial: bool
    """Graphs are captured on trial while memory is measured, and leave driver memory behind."""


class _Change(Record, frozen=True, rename={"since": "from", "values": "set"}):
    since: str
    source: str
    values: dict[str, msgspec.Raw]


class _Table(Record, frozen=True):
    about: str
    changes: tuple[_Change, ...]


def show_version(version: Version) -> str:
    """`0.33.0`."""
    return ".".join(map(str, version))


def newest_version() -> str:
    """The newest release whose source was read, as text: the default where none is given."""
    return show_version(NEWEST)


def parse_version(text: str) -> Version:
    """Major, minor, patch of a version; suffixes map to the release they belong to.

    `0.8.5.post1`, `0.26.1rc1.dev156+g0eec856` and `v0.6.4` are read as 0.8.5, 0.26.1 and 0.6.4; a
    fourth number (`0.10.1.1`) is a repair of the third.
    A plain development build is numbered one patch ahead of the tag it was made after
    (setuptools_scm): `0.6.5.dev12` follows 0.6.4.  Raises UsageError.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None or not _REST.fullmatch(match["rest"]):
        raise UsageError(
            f"{text[:60]!r} is not a vLLM version", hint="give it as `vllm --version` prints it"
        )
    patch = int(match[3] or 0)
    if patch and re.match(r"[._-]?dev", match["rest"], re.I):
        patch -= 1
    return int(match[1]), int(match[2]), patch


@lru_cache(maxsize=64)
def rules_for(version: Version) -> EngineRules:
    """The rules in force in that release; a newer one than known gets the newest known."""
    if version < OLDEST:
        raise UsageError(
            f"vLLM {show_version(version)} is older than {show_version(OLDEST)}",
            hint="nodeprep knows the memory accounting of 0.4.0 and later",
        )
    merged: dict[str, msgspec.Raw] = {}
    for change in load("versions.json", _Table).changes:
        if parse_version(change.since) <= version:
            merged.update(change.values)
    values = {key: msgspec.json.decode(raw) for key, raw in merged.items()}
    return msgspec.convert({**values, "version": version}, EngineRules)
