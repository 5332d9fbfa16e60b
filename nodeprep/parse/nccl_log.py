"""NCCL's own log (NCCL_DEBUG=INFO): transports, version, settings, warnings.

    node-a:123:130 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer
    node-a:123:130 [0] NCCL INFO Channel 00 : 0[1a000] -> 1[3d000] via direct shared memory
    node-a:123:130 [0] NCCL INFO Ring 00 : 0 -> 1 [send] via NET/Socket/0

Wording by version: NCCL src/transport/{p2p,shm,net}.cc, src/graph/paths.cc, src/init.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodeprep.model.nccl_log import NcclLink, NcclLog
from nodeprep.parse.nccl_text import Wording, read_lines

_MAX_WARNINGS = 50
_MAX_TEXT = 300

_CHANNEL = Wording(
    r"(?:Channel|Ring|CollNet)\s+\d{1,4}(?:/\d{1,4})?\s*:\s*"
    r"(?P<source>\d{1,6})(?:\[[^\]]{0,40}\])?\s*->\s*(?P<target>\d{1,6})(?:\[[^\]]{0,40}\])?"
    r"\s*(?:\[(?:send|receive)\]\s*)?via\s+(?P<via>\S.{0,120})",
    " via ",
)
_VERSION = Wording(r"NCCL version\s+v?(\d+\.\d+(?:\.\d+)?)", "NCCL version")
_DRIVER = Wording(r"cudaDriverVersion\s+(\d{4,6})\b", "cudaDriverVersion")
_RANKS = Wording(r"\bn[rR]anks\s+(\d{1,6})\b", "nranks", "nRanks")
_NETWORK = Wording(r"Using network\s+([\w./-]{1,40})", "Using network")
_DISABLED = Wording(
    r"P2P is disabled between (?:NVLINK )?connected GPUs (\d{1,4}) and (\d{1,4})",
    "P2P is disabled",
)
_COULD_NOT = Wording(
    r"Could not enable P2P between dev (\d{1,4})\(=\w+\) and dev (\d{1,4})\(=\w+\)",
    "Could not enable P2P",
)
_DIRECT = Wording(r"(?:isAllDirectP2p|intraNodeP2pSupport)\s+([01])\b", "Check P2P Type")
_NVLS = Wording(r"NVLS multicast support is (not )?available", "NVLS multicast")
_SETTING = Wording(r"\b(NCCL_[A-Z0-9_]{2,60}) set by [\w./-]{1,80} to (\S.{0,200})", " set by ")
_ALGORITHM = Wording(
    r"(?P<call>[A-Z]\w{2,20}): (?P<size>\d{1,19}) Bytes -> Algo (?P<algo>\w+) proto (?P<proto>\w+)",
    " -> Algo ",
)
_WARN = Wording(r"NCCL WARN\s+(.*)", "NCCL WARN")

_P2P = re.compile(r"P2P/(?:direct pointer|indirect|[\w-]+)(?:/read|/CE)?")
_SHM = re.compile(r"SHM(?:/[A-Za-z]\w*){0,3}")
_NET = re.compile(r"(?P<kind>NET|COLLNET)/(?P<name>[A-Za-z][\w.+-]*)(?P<rest>\S*)")

_SLOWEST_FIRST = ("NET", "SHM", "COLLNET", "P2P")


def parse_nccl_log(text: str) -> NcclLog:
    """Everything a log of any NCCL version says; other lines in the text do no harm.

    Raises ParseError for binary or over-size input; a text without NCCL lines gives an empty log.
    """
    return read_log(read_lines(text))


def read_log(lines: Iterable[str]) -> NcclLog:
    """The log from cleaned lines."""
    kept = [line[:1000] for line in lines if line and not line.isspace()]
    links = _links(kept)
    version = _last(_VERSION, kept)
    driver = _last(_DRIVER, kept)
    ranks = [int(match[1]) for match in _RANKS.each(kept)]
    return NcclLog(
        nccl_version=version,
        cuda_driver_version=None if driver is None else int(driver),
        ranks=max(ranks, default=None),
        links=tuple(links),
        transports=_unique(_transport(match["via"]) for match in _CHANNEL.each(kept)),
        networks=_unique(match[1] for match in _NETWORK.each(kept)),
        p2p_disabled=_disabled_pairs(kept),
        all_direct_p2p=_flag(_last(_DIRECT, kept)),
        nvls=_nvls(kept),
        environment=_environment(kept),
        algorithms={
            f"{match['call']} {match['size']}": f"{match['algo']} {match['proto']}"
            for match in _ALGORITHM.each(kept)
        },
        warnings=_unique(
            text[:_MAX_TEXT] for match in _WARN.each(kept) if (text := match[1].strip())
        )[:_MAX_WARNINGS],
        complete=any("Init COMPLETE" in line for line in kept),
    )


def transport_kind(transport: str) -> str:
    """`P2P`, `SHM`, `NET` or `COLLNET`: the first word of a transport."""
    return transport.partition("/")[0]


def _links(lines: list[str]) -> list[NcclLink]:
    """One link for each ordered pair of ranks, in order of appearance."""
    seen: dict[tuple[int, int], list[str]] = {}
    for match in _CHANNEL.each(lines):
        transport = _transport(match["via"])
        if transport is not None:
            pair = int(match["source"]), int(match["target"])
            seen.setdefault(pair, []).append(transport)
    return [
        NcclLink(
            source=source,
            target=target,
            transports=tuple(sorted(dict.fromkeys(transports), key=_slowness)),
            channels=len(transports),
        )
        for (source, target), transports in seen.items()
    ]


def _slowness(transport: str) -> int:
    return _SLOWEST_FIRST.index(transport_kind(transport))


def _transport(via: str) -> str | None:
    """A transport in one spelling for all versions; device numbers and pointers are left out."""
    if via.startswith("direct shared memory"):
        return "SHM/direct"
    for pattern in (_P2P, _SHM):
        match = pattern.match(via)
        if match:
            return match[0]
    match = _NET.match(via)
    if match is None:
        return None
    direct = "/GDRDMA" if "GDRDMA" in match["rest"] else ""
    return f"{match['kind']}/{match['name']}{direct}"


def _disabled_pairs(lines: list[str]) -> tuple[tuple[int, int], ...]:
    pairs = {
        (min(a, b), max(a, b))
        for pattern in (_DISABLED, _COULD_NOT)
        for match in pattern.each(lines)
        for a, b in [(int(match[1]), int(match[2]))]
    }
    return tuple(sorted(pairs))


def _environment(lines: list[str]) -> dict[str, str]:
    """`NCCL_P2P_DISABLE set by environment to 1.` -> the value, without the full stop."""
    return {match[1]: match[2].strip().removesuffix(".") for match in _SETTING.each(lines)}


def _nvls(lines: list[str]) -> bool | None:
    """False as soon as one device lacks multicast."""
    answers = [match[1] is None for match in _NVLS.each(lines)]
    return all(answers) if answers else None


def _flag(digit: str | None) -> bool | None:
    return None if digit is None else digit == "1"


def _last(wording: Wording, lines: list[str]) -> str | None:
    found = None
    for match in wording.each(lines):
        found = str(match[1])
    return found


def _unique(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
