"""Copies host to device, device to host and between pairs, by nvbandwidth where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from nodeprep.errors import HostError, ParseError
from nodeprep.gate.command import gate_environment, members
from nodeprep.gate.links import GENERATION
from nodeprep.host.base import Host
from nodeprep.model.facts import NodeFacts
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.gate import CopyFigure
from nodeprep.model.gpu import Gpu
from nodeprep.model.tree import PciTree
from nodeprep.parse.nvbandwidth import BandwidthTable, parse_nvbandwidth

PROGRAM = "nvbandwidth"
HOST_TESTS = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce")
PAIR_TEST = "device_to_device_memcpy_read_ce"
_DEADLINE_S = 120.0
_APART = 0.10
"""Below the median of its hop class by more than this a copy is an outlier."""
_LEAST_OF_CLASS = 3


def copy_figures(
    host: Host, facts: NodeFacts, group: Sequence[int]
) -> tuple[tuple[CopyFigure, ...], str | None]:
    """Every copy that was measured, and why there is none; both empty without nvbandwidth."""
    if not host.has_program(PROGRAM):
        return (), None
    argv = (PROGRAM, "-j", "-t", *HOST_TESTS, PAIR_TEST)
    try:
        answer = host.run(argv, deadline_s=_DEADLINE_S, env=gate_environment(facts, group))
        tables = parse_nvbandwidth(answer.stdout)
    except (HostError, ParseError) as error:
        return (), f"copies not measured: {error.message}"
    return tuple(figures(facts, group, tables)), None


def figures(
    facts: NodeFacts, group: Sequence[int], tables: Sequence[BandwidthTable]
) -> Iterator[CopyFigure]:
    """Cells by GPU: a test between host and device has one row, one between devices a square.

    `memcpy CE GPU(row) <- GPU(column)`: a device read comes from the column.
    """
    gpus = members(facts, group)
    for table in tables:
        for row, cells in enumerate(table.cells):
            for column, gbps in enumerate(cells):
                if gbps is None or column >= len(gpus):
                    continue
                if table.name in HOST_TESTS:
                    up = table.name.startswith("device")
                    ends = (f"GPU{gpus[column].index}", "host")
                    source, target = ends if up else ends[::-1]
                    hop = _link_class(facts.tree, gpus[column])
                elif row < len(gpus) and row != column:
                    source, target = f"GPU{gpus[column].index}", f"GPU{gpus[row].index}"
                    hop = _pair_class(facts, gpus[row], gpus[column])
                else:
                    continue
                yield CopyFigure(
                    test=table.name, source=source, target=target, gbps=gbps, hop_class=hop
                )


def outliers(copies: Sequence[CopyFigure]) -> Iterator[Finding]:
    """Copies far below the median of their own hop class."""
    classes: dict[tuple[str, str], list[CopyFigure]] = {}
    for one in copies:
        if one.hop_class is not None:
            classes.setdefault((one.test, one.hop_class), []).append(one)
    for (test, hop), found in classes.items():
        middle = median(one.gbps for one in found)
        slow = [one for one in found if one.gbps < (1 - _APART) * middle]
        if len(found) >= _LEAST_OF_CLASS and slow:
            yield _outlier(test, hop, middle, slow)


def _outlier(test: str, hop: str, middle: float, slow: Sequence[CopyFigure]) -> Finding:
    return Finding(
        id="copy-bandwidth-outlier",
        severity=Severity.WARNING,
        subject=", ".join(f"{one.source}->{one.target}" for one in slow[:8]),
        summary=f"{test}: {len(slow)} copies are more than {_APART:.0%} below the "
        f"{middle:.1f} GB/s of their class ({hop})",
        cause="a narrower or slower link on that way, another NUMA node, or other load",
        evidence=tuple(
            Evidence(source=f"{PROGRAM} {test}", text=f"{one.source}->{one.target} {one.gbps:.2f}")
            for one in slow[:8]
        ),
        remedy=Remedy(text="compare link width and speed of these GPUs under load"),
    )


def _link_class(tree: PciTree, gpu: Gpu) -> str | None:
    """`Gen4 x16`: what the GPU's link can do, so that a degraded one stands out in its class."""
    function = tree.functions.get(gpu.bdf)
    link = function.link if function else None
    if link is None or link.max_speed_gts not in GENERATION or link.max_width is None:
        return None
    return f"Gen{GENERATION[link.max_speed_gts]} x{link.max_width}"


def _pair_class(facts: NodeFacts, a: Gpu, b: Gpu) -> str | None:
    pair = facts.pair(a.index, b.index)
    if pair is not None and pair.nvlinks:
        return f"NV{pair.nvlinks}"
    if not {a.bdf, b.bdf} <= facts.functions.keys():
        return None
    level = facts.tree.level(a.bdf, b.bdf)
    return None if level is None else level.value
