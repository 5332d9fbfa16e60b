"""What is read before, during and after a measurement: error counters, clocks, links under load."""

from __future__ import annotations

from collections.abc import Sequence

from nodeprep.errors import HostError
from nodeprep.facts.asking import number_or_none, text_or_none
from nodeprep.gate.command import members
from nodeprep.gate.links import GENERATION
from nodeprep.host.base import Host
from nodeprep.model.base import Record
from nodeprep.model.facts import NodeFacts
from nodeprep.model.gate import ClockReading, CounterDelta
from nodeprep.model.pci import Bdf, parse_bdf
from nodeprep.model.readings import NvmlGpu
from nodeprep.parse.aer import parse_aer_total

DEVICES = "/sys/bus/pci/devices/"
AER_FILES = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
_LOADED_FRACTION = 4
"""Rows from a quarter of the largest size on are read under full load."""

THROTTLES = {
    0x004: "sw-power-cap", 0x008: "hw-slowdown", 0x020: "sw-thermal-slowdown",
    0x040: "hw-thermal-slowdown", 0x080: "hw-power-brake",
}  # fmt: skip
"""nvml.h, nvmlClocksEventReasons; idle, application and sync clocks hold nothing back."""
HARDWARE_THROTTLES = ("hw-slowdown", "hw-thermal-slowdown", "hw-power-brake")


class LoadedLink(Record, frozen=True):
    """The link of one function as it ran under load."""

    bdf: Bdf
    generation: int | None
    width: int | None
    max_generation: int | None
    max_width: int | None


class Surroundings:
    """Readings around one measurement; what the machine does not say stays unknown."""

    def __init__(self, host: Host, facts: NodeFacts, group: Sequence[int], max_bytes: int) -> None:
        self._host = host
        self._gpus = members(facts, group)
        tree = facts.tree
        self._path = tuple(
            dict.fromkeys(bdf for gpu in self._gpus for bdf in reversed(tree.path(gpu.bdf)))
        )
        self._loaded_from = max_bytes // _LOADED_FRACTION
        self._before = self._nvml()
        self._counters_before = self._counters(self._before)
        self._during: dict[Bdf, NvmlGpu] = {}
        self._links: dict[Bdf, LoadedLink] = {}

    def on_row(self, size_bytes: int) -> None:
        """Reads links and clocks once, when the GPUs are known to be at work."""
        if size_bytes < self._loaded_from or self._links:
            return
        self._links = {gpu.bdf: self._link(gpu.bdf) for gpu in self._gpus}
        self._during = self._nvml()

    def finish(self) -> tuple[tuple[CounterDelta, ...], tuple[ClockReading, ...]]:
        """Reads everything once more: counters that could be read on both sides, and clocks."""
        last = self._nvml()
        after = self._counters(last)
        deltas = tuple(
            CounterDelta(subject=subject, name=name, before=value, after=after[subject, name])
            for (subject, name), value in self._counters_before.items()
            if (subject, name) in after
        )
        moments = (self._before, self._during, last)
        clocks = tuple(
            ClockReading(
                gpu=gpu.index,
                sm_mhz=(
                    _clock(self._before, gpu.bdf),
                    _clock(self._during, gpu.bdf),
                    _clock(last, gpu.bdf),
                ),
                throttles=throttle_names(_mask(self._during, gpu.bdf) | _mask(last, gpu.bdf)),
            )
            for gpu in self._gpus
            if any(gpu.bdf in moment for moment in moments)
        )
        return deltas, clocks

    def links(self) -> tuple[LoadedLink, ...]:
        """Links of the GPUs under load; empty when no row of a large size came."""
        return tuple(self._links.values())

    def _counters(self, nvml: dict[Bdf, NvmlGpu]) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for bdf in self._path:
            for name in AER_FILES:
                total = parse_aer_total(text_or_none(self._host, f"{DEVICES}{bdf}/{name}") or "")
                if total is not None:
                    found[bdf, name] = total
        for bdf, gpu in nvml.items():
            if gpu.pcie_replays is not None:
                found[bdf, "replays"] = gpu.pcie_replays
        return found

    def _link(self, bdf: Bdf) -> LoadedLink:
        def number(name: str) -> int | None:
            return number_or_none(text_or_none(self._host, f"{DEVICES}{bdf}/{name}"))

        def generation(name: str) -> int | None:
            words = (text_or_none(self._host, f"{DEVICES}{bdf}/{name}") or "").split()
            try:
                return GENERATION.get(float(words[0])) if words else None
            except ValueError:
                return None

        return LoadedLink(
            bdf=bdf,
            generation=generation("current_link_speed"),
            width=number("current_link_width"),
            max_generation=generation("max_link_speed"),
            max_width=number("max_link_width"),
        )

    def _nvml(self) -> dict[Bdf, NvmlGpu]:
        """What NVML says of the GPUs of the group at this moment."""
        wanted = {gpu.bdf for gpu in self._gpus}
        try:
            reading = self._host.nvml()
        except HostError:
            return {}
        by_bdf = {parse_bdf(gpu.bus_id): gpu for gpu in reading.gpus}
        return {bdf: gpu for bdf, gpu in by_bdf.items() if bdf in wanted}


def throttle_names(mask: int) -> tuple[str, ...]:
    """The reasons of a mask that hold clocks back."""
    return tuple(name for bit, name in THROTTLES.items() if mask & bit)


def _clock(moment: dict[Bdf, NvmlGpu], bdf: Bdf) -> int | None:
    return moment[bdf].sm_clock_mhz if bdf in moment else None


def _mask(moment: dict[Bdf, NvmlGpu], bdf: Bdf) -> int:
    return (moment[bdf].throttle_reasons or 0) if bdf in moment else 0
