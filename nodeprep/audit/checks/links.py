"""Width and speed of every link on the way: width is judged always, speed only under load."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from nodeprep.audit.registry import check
from nodeprep.audit.view import View
from nodeprep.model.base import Record
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.pci import LinkStatus, PciFunction


class _Link(Record, frozen=True):
    """One link: the port above it, the function below it, and whose path it is on."""

    above: PciFunction
    below: PciFunction
    gpu_index: int

    @property
    def ends(self) -> tuple[LinkStatus, LinkStatus] | None:
        if self.above.link is None or self.below.link is None:
            return None
        return self.above.link, self.below.link

    @property
    def name(self) -> str:
        return f"{self.above.bdf} to {self.below.bdf}"


@check("pcie-width-narrow")
def width_narrow(view: View) -> Iterator[Finding]:
    """A link that came up with fewer lanes than both of its ends have."""
    narrow = [link for link in _gpu_links(view) if _lanes_lost(link)]
    if narrow:
        yield Finding(
            id="pcie-width-narrow",
            severity=Severity.WARNING,
            subject=", ".join(f"GPU{link.gpu_index} {link.below.bdf}" for link in narrow),
            summary="a GPU's link runs with fewer lanes than slot and card have",
            cause="slot, riser, cable or bifurcation setting",
            evidence=tuple(_width_evidence(link) for link in narrow),
            remedy=Remedy(
                text="reseat the card, check riser and BIOS bifurcation; not an ACS matter"
            ),
        )


@check("upstream-link-bottleneck")
def upstream_bottleneck(view: View) -> Iterator[Finding]:
    """A hop above a GPU that carries less than the GPU's own link can."""
    for gpu in view.gpus:
        links = _links_above(view, gpu.index)
        own = _best(links[0]) if links else None
        if own is None:
            continue
        for link in links[1:]:
            hop = _best(link)
            if hop is not None and hop < own:
                yield Finding(
                    id="upstream-link-bottleneck",
                    severity=Severity.WARNING,
                    subject=f"GPU{gpu.index} {link.above.bdf}",
                    summary=f"the link {link.name} above GPU{gpu.index} carries {hop:.0f} GT/s in "
                    f"all lanes together, the GPU's own link {own:.0f}",
                    cause="a slot behind the chipset, or a switch with a narrow uplink",
                    evidence=(_width_evidence(link),),
                    remedy=Remedy(text="move the card to a slot of the CPU, or leave it out"),
                )


@check("pcie-speed-low-maybe-idle")
def speed_low(view: View) -> Iterator[Finding]:
    """Low speed at full width: usually an idle GPU saving power, so only a note."""
    slow = [link for link in _gpu_links(view) if not _lanes_lost(link) and _speed_lost(link)]
    if slow:
        yield Finding(
            id="pcie-speed-low-maybe-idle",
            severity=Severity.INFO,
            subject=", ".join(f"GPU{link.gpu_index}" for link in slow),
            summary="these GPUs run their link below its speed, at full width",
            cause="power saving of an idle GPU; only a reading under load would tell a fault",
            evidence=tuple(_width_evidence(link) for link in slow[:8]),
            remedy=Remedy(text="read again under load, as the bandwidth gate does"),
        )


def _links_above(view: View, gpu_index: int) -> list[_Link]:
    """The links from a GPU upwards: a switch's inside is no link, so steps go port to port."""
    gpu = view.facts.gpus[gpu_index]
    if gpu.bdf not in view.facts.functions:
        return []
    steps = (view.facts.functions[gpu.bdf], *view.tree.chain(gpu.bdf))
    return [
        _Link(above=above, below=below, gpu_index=gpu_index)
        for below, above in pairwise(steps)
        if above.kind in ("root port", "downstream port")
    ]


def _gpu_links(view: View) -> list[_Link]:
    return [links[0] for gpu in view.gpus if (links := _links_above(view, gpu.index))]


def _lanes_lost(link: _Link) -> bool:
    if link.ends is None:
        return False
    above, below = link.ends
    if below.width is None or above.max_width is None or below.max_width is None:
        return False
    return below.width < min(above.max_width, below.max_width)


def _speed_lost(link: _Link) -> bool:
    if link.ends is None:
        return False
    above, below = link.ends
    if below.speed_gts is None or above.max_speed_gts is None or below.max_speed_gts is None:
        return False
    return below.speed_gts < min(above.max_speed_gts, below.max_speed_gts)


def _best(link: _Link) -> float | None:
    """GT/s over all negotiated lanes at the best speed both ends have."""
    if link.ends is None:
        return None
    above, below = link.ends
    if below.width is None or above.max_speed_gts is None or below.max_speed_gts is None:
        return None
    return below.width * min(above.max_speed_gts, below.max_speed_gts)


def _width_evidence(link: _Link) -> Evidence:
    status = link.below.link
    above = link.above.link
    assert status is not None
    assert above is not None
    return Evidence(
        source=f"{link.below.bdf} LnkSta",
        text=f"x{status.width} at {status.speed_gts} GT/s; the card has x{status.max_width} at "
        f"{status.max_speed_gts}, the port above x{above.max_width} at {above.max_speed_gts}",
    )
