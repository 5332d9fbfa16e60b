"""How the IOMMU treats the GPUs' own groups; the command line alone proves nothing."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import PairPath, View
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity

_TRANSLATED = ("DMA", "DMA-FQ")


@check("iommu-translated")
def translated(view: View) -> Iterator[Finding]:
    """GPU DMA goes through IOMMU translation, where NVIDIA does not support P2P on bare metal."""
    if view.guest or not any(_may_use_p2p(path) for path in view.paths):
        return
    hit = [
        (gpu, group)
        for gpu in view.gpus
        if (function := view.facts.functions.get(gpu.bdf)) is not None
        and function.iommu_group is not None
        and (group := view.facts.iommu_groups.get(function.iommu_group)) is not None
        and group.type in _TRANSLATED
    ]
    if hit:
        yield Finding(
            id="iommu-translated",
            severity=Severity.WARNING,
            subject=", ".join(f"GPU{gpu.index}" for gpu, _ in hit),
            summary="the IOMMU translates the DMA of these GPUs",
            cause="the kernel's default domain is translated, and no iommu=pt changes it",
            evidence=tuple(
                Evidence(
                    source=f"/sys/kernel/iommu_groups/{group.number}/type", text=str(group.type)
                )
                for _, group in hit[:8]
            ),
            remedy=Remedy(
                text="boot with iommu=pt (or with the IOMMU off), then run a value-checked "
                "all_reduce: a bandwidth number alone proves nothing here",
                needs_reboot=True,
                risk="passthrough gives devices access to all host memory",
            ),
        )


def _may_use_p2p(path: PairPath) -> bool:
    """Over PCIe, and not refused by the driver."""
    return not path.over_nvlink and path.pair.p2p_granted is not False
