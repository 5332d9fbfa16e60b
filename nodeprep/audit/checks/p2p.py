"""The driver's peer-to-peer letters with their true meaning; none of them speaks of ACS."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import PairPath, View, alike, pair_names, pair_subject
from nodeprep.model.base import Record
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.topology import P2pStatus

_USE_SHM = "let NCCL go through host memory (its default there) and judge bandwidth by that class"


class _Meaning(Record, frozen=True):
    id: str
    summary: str
    cause: str
    remedy: str


_MEANINGS = {
    P2pStatus.CNS: _Meaning(
        id="p2p-chipset-not-supported",
        summary="the driver does not accept the way between these GPUs for P2P",
        cause="CNS: no switch on the driver's list joins them, and CPU or chipset are not on it "
        "either. It is no verdict on ACS, and neither ACS nor IOMMU settings change it",
        remedy="put a tensor-parallel group inside one recognised switch or NVLink pair; else "
        + _USE_SHM,
    ),
    P2pStatus.GNS: _Meaning(
        id="p2p-gpu-not-supported",
        summary="these GPUs offer no PCIe P2P",
        cause="GNS: a limit of the product or of the driver for it; not ACS, IOMMU or BIOS",
        remedy=_USE_SHM,
    ),
    P2pStatus.TNS: _Meaning(
        id="p2p-topology-not-supported",
        summary="these GPUs hang on different I/O hubs of old Intel Xeons",
        cause="TNS: root ports of two hubs that do not pass peer traffic to each other",
        remedy="keep a group inside one socket; else " + _USE_SHM,
    ),
    P2pStatus.NS: _Meaning(
        id="p2p-not-supported",
        summary="the driver refuses P2P for these GPUs",
        cause="NS: MIG, vGPU, unlike GPUs, a model without P2P, or a fabric fault on NVSwitch "
        "systems; not ACS",
        remedy="find which of these it is; until then " + _USE_SHM,
    ),
    P2pStatus.DR: _Meaning(
        id="p2p-disabled-by-setting",
        summary="P2P is switched off by a registry key of the driver",
        cause="DR: an NVreg_RegistryDwords option of the nvidia module",
        remedy="look for ForceP2P in /etc/modprobe.d and take it out",
    ),
}


@check(*(meaning.id for meaning in _MEANINGS.values()), "p2p-mixed-gpu-models")
def letters(view: View) -> Iterator[Finding]:
    """One finding a letter, naming its pairs."""
    if view.guest:
        return
    for status, meaning in _MEANINGS.items():
        paths = [path for path in view.paths if _is(path, status)]
        if not paths:
            continue
        unlike = [path for path in paths if _unlike(path)]
        if status is P2pStatus.NS and len(unlike) == len(paths):
            yield _mixed(view, paths)
        elif not (status is P2pStatus.NS and _mig(view)):
            yield _finding(status, meaning, paths)


def _is(path: PairPath, status: P2pStatus) -> bool:
    return status in (path.pair.p2p_read, path.pair.p2p_write)


def _unlike(path: PairPath) -> bool:
    return path.route.a.vendor_device != path.route.b.vendor_device


def _mig(view: View) -> bool:
    return any(gpu.mig_enabled for gpu in view.facts.gpus)


def _finding(status: P2pStatus, meaning: _Meaning, paths: list[PairPath]) -> Finding:
    return Finding(
        id=meaning.id,
        severity=Severity.WARNING,
        subject=pair_subject(paths),
        summary=f"{meaning.summary} ({status.value})",
        cause=meaning.cause,
        evidence=(_evidence(paths),),
        remedy=Remedy(text=meaning.remedy),
    )


def _mixed(view: View, paths: list[PairPath]) -> Finding:
    models = sorted({gpu.name or view.facts.functions[gpu.bdf].vendor_device
                     for gpu in view.facts.gpus if gpu.bdf in view.facts.functions})  # fmt: skip
    return Finding(
        id="p2p-mixed-gpu-models",
        severity=Severity.WARNING,
        subject=pair_subject(paths),
        summary=f"unlike GPUs in one group: {', '.join(models)}",
        cause="the driver grants P2P only between equal chips (NS exactly between unlike ones)",
        evidence=(_evidence(paths),),
        remedy=Remedy(text="keep a tensor-parallel group inside one GPU model"),
    )


def _evidence(paths: list[PairPath]) -> Evidence:
    shown = "; ".join(
        f"{pair_names(same)} {letters}" for letters, same in alike(paths, _letters).items()
    )
    return Evidence(source="P2P status of the driver", text=shown)


def _letters(path: PairPath) -> str:
    return f"read {_letter(path.pair.p2p_read)} write {_letter(path.pair.p2p_write)}"


def _letter(status: P2pStatus | None) -> str:
    return "unknown" if status is None else status.value
