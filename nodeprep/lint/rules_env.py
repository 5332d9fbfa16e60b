"""Variables: what a release does not read, what only repeats a default, P2P; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.image import accelerator
from nodeprep.lint.said import INFO, WARNING, say
from nodeprep.lint.secrets import shown_variable
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.model.launch import Form
from nodeprep.serving import flags

_NO_EFFECT = "vllm-setting-without-effect"
_DEFAULT_PORT = 8000
_READ_ELSEWHERE = frozenset((
    "VLLM_CONTIGUOUS_PA", "VLLM_CPU_SIM_MULTI_NUMA", "VLLM_CUSTOM_ALLREDUCE_ALGO",
    "VLLM_DELAYED_SAMPLING", "VLLM_DIST_IDENT", "VLLM_GC_THR_MULTIPLIER",
    "VLLM_GRAPH_DECODE_STRATEGY", "VLLM_GRAPH_PROMPT_RATIO", "VLLM_GRAPH_PROMPT_STRATEGY",
    "VLLM_GRAPH_RESERVED_MEM", "VLLM_HPU_LOG_STEP_CPU_FALLBACKS",
    "VLLM_MINIMAX_M3_MSA_CUTLASS_MIN_BATCH", "VLLM_MORIIO_TRANSFER_TIMEOUT_S",
    "VLLM_PRECOMPILED_WHEEL_LOCATION", "VLLM_PROMPT_USE_FUSEDSDPA", "VLLM_PT_PROFILE",
    "VLLM_REGIONAL_COMPILATION", "VLLM_SKIP_WARMUP", "VLLM_SNAPSHOT_TIMEOUT_S",
    "VLLM_TEST_ENABLE_ARTIFICIAL_PREEMPT", "VLLM_TEST_STANDALONE_COMPILE", "VLLM_USE_FAKE_HPU",
))  # fmt: skip
"""Read by other modules than envs.py, most for one accelerator (os.environ in 0.7.2, 0.8.5, 0.11.2
and 0.33.0): whether another release reads them was not looked up."""
_TRUSTS_DRIVER_FROM = (0, 10, 1)
_DEFAULTS = {
    "NCCL_P2P_DISABLE": "0",
    "NCCL_SHM_DISABLE": "0",
    "NCCL_IB_DISABLE": "0",
}


def unread(server: Server) -> Iterator[Finding]:
    """VLLM_ variables that the release does not define."""
    for name, value in server.env.items():
        if not name.startswith("VLLM_") or flags.env_known(name, server.version) is not False:
            continue
        if name in _READ_ELSEWHERE or name in server.launch.uses:
            continue
        lived = flags.env_lived(name)
        near = flags.env_nearest(name)
        if lived is not None:
            why = f"releases {lived[0]} to {lived[1]} do"
        else:
            why = f"did you mean {near[0]}?" if near else "no release known here does"
        part = server.launch.form is Form.ENV_FILE and not (lived or near)
        instead = "use --attention-backend" if name == "VLLM_ATTENTION_BACKEND" else "remove it"
        yield say(
            server, "vllm-flag-not-in-release", INFO if part else WARNING, name,
            f"vLLM {server.version} does not read {name}: {why}",
            cause="an unknown variable is ignored without a word"
            + ("; compose or a script may still use it" if part else ""),
            do="remove it, unless something else reads it" if part else instead,
            line=_line(server, name), text=f"{name}={shown_variable(name, value)}",
        )  # fmt: skip


def port(server: Server) -> Iterator[Finding]:
    """VLLM_PORT is no --port: the engine's own processes meet there (envs.py, every release)."""
    value = server.env.get("VLLM_PORT", "")
    if not value.isdecimal() or len(value) > 5:
        return
    own = server.number("port", _DEFAULT_PORT) if not server.unresolved("port") else None
    same = own == int(value)
    yield say(
        server, _NO_EFFECT, INFO if same else WARNING, "VLLM_PORT",
        f"VLLM_PORT={value} is not the port of the API, which "
        + ("only --port sets" if own is None or same else f"stays {own}"),
        cause="the engine's own processes meet on this port and those after it",
        do="remove it; the port of the API is --port", line=_line(server, "VLLM_PORT"),
        text=f"VLLM_PORT={value}",
    )  # fmt: skip


def defaults(server: Server) -> Iterator[Finding]:
    for name, default in _DEFAULTS.items():
        if server.env.get(name) == default:
            yield say(
                server, _NO_EFFECT, INFO, name, f"{name}={default} is NCCL's default",
                cause="a variable that says the default changes nothing and proves nothing",
                do="remove it", line=_line(server, name), text=f"{name}={default}",
            )  # fmt: skip
    level = server.env.get("NCCL_P2P_LEVEL")
    if level is not None:
        yield say(
            server, _NO_EFFECT, INFO, "NCCL_P2P_LEVEL",
            f"NCCL_P2P_LEVEL={level} is a policy, not a proof that peer-to-peer works"
            + (", and PXB is the default since NCCL 2.23" if level == "PXB" else ""),
            cause="NCCL uses P2P up to this distance; whether data arrive is another matter",
            do="remove it; the gate reads the transport from NCCL's own log",
            line=_line(server, "NCCL_P2P_LEVEL"), text=f"NCCL_P2P_LEVEL={level}",
        )  # fmt: skip


def peer_to_peer(server: Server) -> Iterator[Finding]:
    """vLLM trusts the driver's word since 0.10.1; NCCL's switch alone leaves vLLM's kernel on."""
    if server.tensor_parallel < 2 or not server.complete or server.is_file:
        return
    if accelerator(server) is not None:
        return
    off = server.value("disable-custom-all-reduce") is True
    if server.env.get("NCCL_P2P_DISABLE") == "1" and not off:
        yield say(
            server, "vllm-p2p-unverified", WARNING, "NCCL_P2P_DISABLE",
            "NCCL_P2P_DISABLE=1 without --disable-custom-all-reduce: vLLM's own kernel still "
            "uses peer-to-peer",
            cause="the two are separate users of P2P", do="add --disable-custom-all-reduce",
            line=_line(server, "NCCL_P2P_DISABLE"), text="NCCL_P2P_DISABLE=1",
        )  # fmt: skip
    skip = server.env.get("VLLM_SKIP_P2P_CHECK")
    trusts = skip == "1" or (skip is None and server.release >= _TRUSTS_DRIVER_FROM)
    if trusts and not off and not server.rendered:
        yield say(
            server, "vllm-p2p-unverified", WARNING, "VLLM_SKIP_P2P_CHECK",
            f"vLLM {server.version} trusts the driver that peer-to-peer works"
            + (" (the default since 0.10.1)" if skip is None else ""),
            cause="drivers grant P2P on nodes where ACS or the IOMMU corrupts or hangs it",
            do="set VLLM_SKIP_P2P_CHECK=0, unless a gate with checked data passed on this boot",
            text=f"VLLM_SKIP_P2P_CHECK={skip or '(not set)'}",
        )  # fmt: skip


def _line(server: Server, name: str) -> int | None:
    found = server.launch.variable(name)
    return None if found is None else found.line


RULES = (unread, port, defaults, peer_to_peer)
