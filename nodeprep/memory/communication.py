"""Memory of NCCL and of the custom all-reduce, the same on every rank of a ring.

NCCL allocates for each channel and connection one buffer a protocol: SIMPLE 4 MiB
(NCCL_BUFFSIZE), LL 512 KiB, LL128 4.69 MiB (src/init.cc, computeBuffSizes).  vLLM keeps two
communicators a tensor-parallel group: torch's and pynccl's (distributed/parallel_state.py).
"""

from __future__ import annotations

from nodeprep.units import MIB

SIMPLE_BYTES = 4 * MIB
LL_BYTES = MIB // 2
LL128_BYTES = 4_915_200
_RING_CONNECTIONS = 2
_COMMUNICATORS = 2
_CUSTOM_ALL_REDUCE = 16 * MIB
"""Two buffers of 8 MiB a rank (custom_all_reduce.py max_size)."""
_KERNELS = 90 * MIB
"""NCCL's kernels once loaded.  Fitted on logs of TP 2 and 8 over PCIe."""
_PCIE_CHANNELS = {2: 4}
_NVLS_BYTES = 800 * MIB
"""NVLink SHARP buffers of Hopper and later with more than two ranks.  Fitted: TP 4 on H100."""
_LAZY_NVLINK = 420 * MIB
_LAZY_PCIE = 120 * MIB
"""From 0.11.0 on the communicators exist before the snapshot; only what the first large
collectives connect is counted.  Fitted: H100, TP 2, 0.11.0: 0.54 against 0.13 GiB at TP 1."""


def nccl_buffer_bytes(channels: int, connections: int = _RING_CONNECTIONS) -> int:
    """Buffers of one communicator: channels x connections x (4 + 0.5 + 4.69 MiB)."""
    return channels * connections * (SIMPLE_BYTES + LL_BYTES + LL128_BYTES)


def communication_bytes(tp: int, *, nvlink: bool, major: int) -> int:
    """All of it on one rank; 0 for one rank.

    24 channels over NVLink; over PCIe 4 between two GPUs and 2 around a longer ring, as NCCL's
    logs of such nodes show.
    """
    if tp < 2:
        return 0
    channels = 24 if nvlink else _PCIE_CHANNELS.get(tp, 2)
    size = _COMMUNICATORS * nccl_buffer_bytes(channels) + _KERNELS + _CUSTOM_ALL_REDUCE
    if nvlink and tp > 2 and major >= 9:
        size += _NVLS_BYTES
    return size


def lazy_bytes(tp: int, *, nvlink: bool, major: int) -> int:
    """What is still allocated after the snapshot of 0.11.0 and later; 0 for one rank.

    NVLink SHARP is set up by the first collective that uses it.
    """
    if tp < 2:
        return 0
    if not nvlink:
        return _LAZY_PCIE
    return _LAZY_NVLINK + (_NVLS_BYTES if tp > 2 and major >= 9 else 0)
