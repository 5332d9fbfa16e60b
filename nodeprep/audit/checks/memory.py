"""BAR1 against the memory behind it: peers reach a GPU's memory through BAR1."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import View
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.units import show_bytes


@check("bar1-smaller-than-vram")
def bar1_small(view: View) -> Iterator[Finding]:
    """BAR1 that does not cover the memory, while PCIe P2P is granted."""
    over_pcie = {
        index
        for path in view.paths
        if path.pair.p2p_granted and not path.over_nvlink
        for index in (path.pair.a, path.pair.b)
    }
    small = [
        gpu
        for gpu in view.gpus
        if gpu.index in over_pcie
        and gpu.bar1_total_bytes is not None
        and gpu.memory_total_bytes is not None
        and gpu.bar1_total_bytes < gpu.memory_total_bytes
    ]
    if small:
        yield Finding(
            id="bar1-smaller-than-vram",
            severity=Severity.CRITICAL,
            subject=", ".join(f"GPU{gpu.index}" for gpu in small),
            summary="BAR1 does not cover the memory of these GPUs while P2P is granted",
            cause="Resizable BAR or Above 4G Decoding is off",
            evidence=tuple(
                Evidence(
                    source=f"GPU{gpu.index} BAR1",
                    text=f"{show_bytes(gpu.bar1_total_bytes or 0)} of "
                    f"{show_bytes(gpu.memory_total_bytes or 0)}",
                )
                for gpu in small
            ),
            remedy=Remedy(
                text="switch on Resizable BAR and Above 4G Decoding, then check data by value",
                needs_reboot=True,
            ),
        )
