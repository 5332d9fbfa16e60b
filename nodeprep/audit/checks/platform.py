"""Virtualization and passthrough: where the hardware is not ours to judge or to change."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import View
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.units import count


@check("vm-guest-limits")
def guest(view: View) -> Iterator[Finding]:
    """Inside a guest the tree is the hypervisor's invention."""
    if view.guest:
        yield Finding(
            id="vm-guest-limits",
            severity=Severity.WARNING,
            subject=str(view.facts.platform.virtualization),
            summary="this is a virtual machine: what it sees of PCIe is decided by its host",
            cause="virtualisation",
            evidence=(
                Evidence(
                    source="systemd-detect-virt --vm",
                    text=str(view.facts.platform.virtualization),
                ),
            ),
            remedy=Remedy(
                text="read ACS, links and IOMMU on the hypervisor; in the guest use a topology "
                "file or NCCL_P2P_DISABLE=1 where P2P fails, and no bare-metal thresholds"
            ),
        )


@check("vfio-on-gpu-path")
def vfio(view: View) -> Iterator[Finding]:
    """A function below a GPU's switch that belongs to a guest or is meant for one."""
    held = view.held_for_guests()
    if held:
        yield Finding(
            id="vfio-on-gpu-path",
            severity=Severity.WARNING,
            subject=", ".join(one.bdf for one in held),
            summary=f"{_are_bound(len(held))} to vfio-pci, for a guest",
            cause="PCI passthrough: ACS keeps guests apart here",
            evidence=tuple(
                Evidence(
                    source=f"{one.bdf} driver",
                    text=f"driver {one.driver or 'none'}, override {one.driver_override or 'none'}",
                )
                for one in held[:8]
            ),
            remedy=Remedy(
                text="leave ACS as it is on this node, or take the functions out of passthrough "
                "first; nodeprep refuses to write while they are held"
            ),
        )


def _are_bound(number: int) -> str:
    return f"{count(number, 'function')} beside the GPUs {'is' if number == 1 else 'are'} bound"
