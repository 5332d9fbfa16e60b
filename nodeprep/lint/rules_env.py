"""Variables: what a release does not read, what only repeats a default, P2P; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.image import accelerator
from nodeprep.lint.said import INFO, WARNING, say
from nodeprep.lint.secrets import shown_variable
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.serving import flags

_NO_EFFECT = "vllm-setting-without-effect"
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
        lived = flags.env_lived(name)
        near = flags.env_nearest(name)
        if lived is not None:
            why = f"releases {lived[0]} to {lived[1]} do"
        else:
            why = f"did you mean {near[0]}?" if near else "no release known here does"
        instead = "use --attention-backend" if name == "VLLM_ATTENTION_BACKEND" else "remove it"
        yield say(
            server, "vllm-flag-not-in-release", WARNING, name,
            f"vLLM {server.version} does not read {name}: {why}",
            cause="an unknown variable is ignored without a word",
            do=instead, line=_line(server, name), text=f"{name}={shown_variable(name, value)}",
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


RULES = (unread, defaults, peer_to_peer)
