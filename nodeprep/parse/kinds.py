"""What `nodeprep parse KIND` can read: one line a kind, nothing imported before it is used."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple, cast

from nodeprep.errors import UsageError
from nodeprep.parse.text import decode


class Kind(NamedTuple):
    target: str
    """`module:function`; the function takes text and returns what msgspec can write as JSON."""
    help: str


KINDS: dict[str, Kind] = {
    "topo": Kind("nodeprep.parse.topo:parse_topo_document", "nvidia-smi topo -m"),
    "p2p": Kind("nodeprep.parse.p2p:parse_p2p_document", "nvidia-smi topo -p2p r (or w, n, a, p)"),
    "lspci": Kind("nodeprep.parse.lspci:parse_lspci_document", "lspci -vvv, whole or in parts"),
    "lspci-tree": Kind("nodeprep.parse.lspci_tree:parse_lspci_tree", "lspci -t, lspci -tv"),
    "setpci": Kind("nodeprep.parse.setpci:parse_setpci_document", "setpci ... ECAP_ACS+6.w"),
    "nccl": Kind("nodeprep.parse.nccl_tests:parse_nccl_document", "all_reduce_perf (nccl-tests)"),
    "nccl-log": Kind("nodeprep.parse.nccl_log:parse_nccl_log", "a log with NCCL_DEBUG=INFO"),
    "metrics": Kind("nodeprep.parse.metrics:parse_metrics", "a Prometheus page (vLLM /metrics)"),
    "config-json": Kind("nodeprep.parse.hf_config:parse_hf_config_text", "a model's config.json"),
    "nvidia-smi": Kind(
        "nodeprep.parse.nvidia_smi_table:parse_nvidia_smi_table", "nvidia-smi, the plain table"
    ),
    "dmesg": Kind("nodeprep.parse.kernel_log:parse_kernel_log", "dmesg, journalctl -k"),
    "cmdline": Kind("nodeprep.parse.cmdline:parse_cmdline", "/proc/cmdline"),
}


def parse_kind(kind: str, data: bytes) -> object:
    """The value behind pasted bytes, ready for msgspec.

    Raises UsageError for an unknown kind, ParseError when the bytes are not of that kind.
    """
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1)
        raise UsageError(
            f"unknown kind {kind!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"kinds: {', '.join(KINDS)}",
        )
    module, _, function = KINDS[kind].target.partition(":")
    parse = cast("Callable[[str], object]", getattr(import_module(module), function))
    return parse(decode(data))
