"""How many GPUs there are, whether the driver has them, and whether they may work together."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import View
from nodeprep.model.facts import Origin
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.pci import Bdf, ConfigAccess
from nodeprep.units import count


@check("not-applicable")
def too_few(view: View) -> Iterator[Finding]:
    """Fewer than two GPUs make no pair."""
    gpus = len(view.facts.gpus)
    pci = view.facts.status("pci")
    if gpus < 2 and (pci is None or pci.error is None):
        yield Finding(
            id="not-applicable",
            severity=Severity.INFO,
            subject="node",
            summary=f"{gpus} GPU: no pair to judge" if gpus else "no GPU: nothing to judge",
            cause="fewer than two accelerators on the PCI bus",
            evidence=(
                Evidence(
                    source="/sys/bus/pci/devices", text=count(len(view.facts.functions), "function")
                ),
            ),
        )


@check("evidence-incomplete")
def no_functions(view: View) -> Iterator[Finding]:
    """The PCI bus itself could not be listed."""
    pci = view.facts.status("pci")
    if not view.facts.functions and pci is not None and pci.error:
        yield Finding(
            id="evidence-incomplete",
            severity=Severity.WARNING,
            subject="/sys/bus/pci/devices",
            summary="the PCI bus could not be listed: nothing is known of this node",
            cause=pci.error,
            evidence=(Evidence(source="pci", text=pci.error),),
            remedy=Remedy(text="run where /sys is mounted", commands=("lspci -tv",)),
        )


@check("gpu-count-mismatch")
def count_mismatch(view: View) -> Iterator[Finding]:
    """GPUs on the bus that the driver does not have, or fewer than this node must have."""
    facts = view.facts
    driver_known = [gpu for gpu in facts.gpus if gpu.driver_grade != "pci"]
    missing = [
        gpu for gpu in facts.gpus if gpu.driver_grade == "pci" and _for_nvidia(view, gpu.bdf)
    ]
    if driver_known and missing:
        yield _mismatch(
            subject=", ".join(f"{gpu.bdf}" for gpu in missing),
            summary=f"the driver does not know {len(missing)} of {len(facts.gpus)} GPUs on the bus",
            text=f"driver: {len(driver_known)}, bus: {len(facts.gpus)}",
        )
    expected = view.settings.accelerators.expected_count
    if expected is not None and len(facts.gpus) != expected:
        yield _mismatch(
            subject="node",
            summary=f"{count(len(facts.gpus), 'GPU')}, {expected} expected by the configuration",
            text=f"bus: {', '.join(gpu.bdf for gpu in facts.gpus)}",
        )


@check("gpu-hardware-fault")
def off_the_bus(view: View) -> Iterator[Finding]:
    """A GPU whose configuration space answers with all ones has left the bus."""
    lost = [
        gpu
        for gpu in view.gpus
        if (one := view.facts.functions.get(gpu.bdf)) is not None
        and one.config_access is ConfigAccess.NONE
        and view.facts.is_root
        and view.facts.origin is not Origin.FABRICATED
    ]
    for gpu in lost:
        yield Finding(
            id="gpu-hardware-fault",
            severity=Severity.CRITICAL,
            subject=f"GPU{gpu.index} {gpu.bdf}",
            summary=f"GPU{gpu.index} does not answer on the bus",
            cause="the GPU has fallen off the bus: hardware, power or cooling",
            evidence=(Evidence(source=f"{gpu.bdf} config", text="all bytes ff, or unreadable"),),
            remedy=Remedy(
                text="take the node out of service; reseat or replace the card",
                commands=("journalctl -k -b | grep -e Xid -e 'fallen off'",),
            ),
        )


@check("mig-enabled")
def mig(view: View) -> Iterator[Finding]:
    """MIG instances have no P2P, so they cannot form a tensor-parallel group."""
    divided = [gpu for gpu in view.gpus if gpu.mig_enabled]
    if divided:
        yield Finding(
            id="mig-enabled",
            severity=Severity.WARNING,
            subject=", ".join(f"GPU{gpu.index}" for gpu in divided),
            summary="MIG mode is on: no P2P between these GPUs",
            cause="the GPUs are partitioned",
            evidence=(Evidence(source="MIG mode", text="Enabled"),),
            remedy=Remedy(
                text="switch MIG off when nobody uses the instances; it takes a GPU reset by hand",
                commands=tuple(f"nvidia-smi -i {gpu.index} -mig 0" for gpu in divided[:1]),
            ),
        )


@check("driver-library-mismatch", "evidence-incomplete")
def driver_problem(view: View) -> Iterator[Finding]:
    """Why the driver gave no answer, where GPUs for it are on the bus."""
    status = view.facts.status("gpu-driver")
    wanted = [gpu for gpu in view.facts.gpus if _for_nvidia(view, gpu.bdf)]
    if status is None or status.error is None or not wanted:
        return
    if view.facts.origin is Origin.FABRICATED:
        return
    if "version mismatch" in status.error.lower():
        yield Finding(
            id="driver-library-mismatch",
            severity=Severity.CRITICAL,
            subject="NVIDIA driver",
            summary="kernel module and user-space library of the driver differ",
            cause="packages were upgraded under a running kernel module",
            evidence=(Evidence(source="NVML", text=status.error),),
            remedy=Remedy(
                text="drain the node, align the packages, reboot, then hold the packages",
                needs_reboot=True,
            ),
        )
    elif all(gpu.driver_grade == "pci" for gpu in view.facts.gpus):
        yield Finding(
            id="evidence-incomplete",
            severity=Severity.WARNING,
            subject="NVIDIA driver",
            summary="the driver gave no answer: P2P status and driver levels are unknown",
            cause=status.error,
            evidence=(Evidence(source="NVML and nvidia-smi", text=status.error),),
            remedy=Remedy(text="see whether the driver runs", commands=("nvidia-smi -L",)),
        )


def _for_nvidia(view: View, bdf: Bdf) -> bool:
    function = view.facts.functions.get(bdf)
    return function is not None and function.vendor_id == 0x10DE and function.driver != "vfio-pci"


def _mismatch(*, subject: str, summary: str, text: str) -> Finding:
    return Finding(
        id="gpu-count-mismatch",
        severity=Severity.CRITICAL,
        subject=subject,
        summary=summary,
        cause="a lost GPU, MIG, a driver that refuses a card, or a wrong expectation",
        evidence=(Evidence(source="PCI bus and driver", text=text),),
        remedy=Remedy(
            text="compare bus and driver; do not lower the count to make it fit",
            commands=("nvidia-smi -L", "lspci -D -d 10de:"),
        ),
    )
