"""What a group of GPUs must reach, and why."""

from __future__ import annotations

import msgspec

from nodeprep.gate.classes import GroupClass, classify
from nodeprep.gate.table import ClassRow, Figures, row_for
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import Threshold
from nodeprep.settings import GatePolicy
from nodeprep.units import show_bytes

_HOST_MEMORY_FRACTION = 2 / 3
"""What host memory reaches of a link's rate: 16 of 24 GB/s (Gen4), and 4.0 of the 6 that each of
two RTX 2080 Ti has behind one Gen3 uplink."""


def threshold(
    facts: NodeFacts,
    group: tuple[int, ...],
    settings: GatePolicy,
    min_busbw_gbps: float | None,
    nccl_version: str | None,
    size_bytes: int | None = None,
) -> Threshold:
    """The mark in GB/s at the largest size: --min-busbw, then configuration, then the table.

    `group` holds GPU indices; `nccl_version` (`2.27.7`) decides when NCCL goes peer-to-peer, None
    takes the rule since 2.23.  `size_bytes` is the largest size of the run, None stands for
    512 MiB: NVLink is faster at 8 GiB.  The class, the expected figure and the limiting hop are
    told whichever mark counts.  Without a mark `threshold_gbps` is None and `source` is `none`.
    """
    found = classify(facts, group, nccl_version)
    row = row_for(found.link_class, len(group)) if found.link_class else None
    built_in = _from_row(found, row, size_bytes) if row else _without_row(found, len(group))
    by_class = settings.class_busbw_gbps.get(found.link_class or "")
    given = [
        (min_busbw_gbps, "--min-busbw"),
        (settings.min_busbw_gbps, "config"),
        (by_class, f"config: {found.link_class}"),
    ]
    for value, source in given:
        if value is not None:
            return msgspec.structs.replace(
                built_in,
                threshold_gbps=value,
                source=source,
                warn_below_gbps=None,
                reasoning=(*built_in.reasoning, f"the mark {value:g} comes from {source}"),
            )
    return built_in


def _from_row(found: GroupClass, row: ClassRow, size_bytes: int | None) -> Threshold:
    figures = row.at(size_bytes)
    scale, notes = _scale(found, figures)
    kept = [row.note] if row.note else []
    if not row.verified:
        kept.append("the figures of this class are not verified by a public recording")
    fraction = figures.pass_gbps / figures.expected_gbps
    where = "" if figures is row.figures else f" at {show_bytes(size_bytes or 0)}"
    told = f"the pass mark is {fraction:.2f} of the {figures.expected_gbps:g} expected{where}"
    notes = (*notes, told)
    return Threshold(
        threshold_gbps=_rounded(figures.pass_gbps * scale),
        expected_gbps=_rounded(figures.expected_gbps * scale),
        source=f"table: {row.link_class}",
        link_class=row.link_class,
        limiting_hop=found.limiting_hop,
        reasoning=(*found.reasoning, f"{row.words}: {row.evidence}", *notes, *kept),
        expected_transport=None if found.mixed else row.transport,
        verified=row.verified and scale == 1.0,
        warn_below_gbps=_rounded(figures.warn_below_gbps * scale),
    )


def _scale(found: GroupClass, figures: Figures) -> tuple[float, tuple[str, ...]]:
    """How much of a full-width link of its own a GPU of this group has."""
    scale, notes = found.scale, []
    if scale < 1.0:
        notes.append(f"degraded: the limiting link has {scale:.0%} of 16 lanes, figures scaled")
    share = found.uplink_gbps
    if share is not None and share * _HOST_MEMORY_FRACTION < figures.expected_gbps * scale:
        scale = share * _HOST_MEMORY_FRACTION / figures.expected_gbps
        notes.append(f"GPUs share an uplink to host memory: {share:g} GB/s each, figures scaled")
    return scale, tuple(notes)


def _without_row(found: GroupClass, gpus: int) -> Threshold:
    reason = (
        f"no figure is known for {gpus} GPUs of class {found.link_class}"
        if found.link_class
        else "the class is not known"
    )
    return Threshold(
        threshold_gbps=None,
        expected_gbps=None,
        source="none",
        link_class=found.link_class,
        limiting_hop=found.limiting_hop,
        reasoning=(*found.reasoning, f"{reason}: give --min-busbw"),
        expected_transport=_transport_of(found),
        verified=False,
    )


def _transport_of(found: GroupClass) -> str | None:
    """What a class asks of the transport even without a figure."""
    if found.mixed or found.link_class is None:
        return None
    return "P2P" if found.link_class.endswith("switch-p2p") else None


def _rounded(gbps: float) -> float:
    return round(gbps, 2)
