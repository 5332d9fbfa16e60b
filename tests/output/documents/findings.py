"""Findings and gaps as the checks word them."""

from __future__ import annotations

from nodeprep.model.finding import Evidence, Finding, Remedy, Severity, Unknown

REDIRECT = Finding(
    id="acs-redirect-on-gpu-path",
    severity=Severity.CRITICAL,
    subject="0000:42:00.0 0000:42:01.0",
    summary="ACS redirect is on at 2 switch ports between GPU0 and GPU1: peer traffic "
    "climbs to the root port and shares its one link",
    cause="The kernel sets redirection at boot on every ACS port while an IOMMU driver is active, "
    "also with iommu=pt; the firmware's setting does not matter then.",
    evidence=(
        Evidence(source="0000:42:00.0 ACSCtl", text="001d SrcValid ReqRedir CmpltRedir"),
        Evidence(source="0000:42:01.0 ACSCtl", text="001d SrcValid ReqRedir CmpltRedir"),
        Evidence(source="/proc/cmdline", text="BOOT_IMAGE=/vmlinuz root=/dev/md0 ro iommu=pt"),
    ),
    remedy=Remedy(
        text="Clear ReqRedir, CmpltRedir and EgressCtrl on these two ports and read them back.",
        commands=("nodeprep acs plan", "nodeprep acs apply"),
        risk="IOMMU groups 20 and 21 are no longer isolated in hardware",
    ),
)
NARROW = Finding(
    id="pcie-width-narrow",
    severity=Severity.WARNING,
    subject="0000:44:00.0",
    summary="GPU1 runs at x8 in a x16 slot",
    cause="A riser, a dirty contact or a bifurcation setting.",
    evidence=(Evidence(source="0000:44:00.0 LnkSta", text="16 GT/s, width x8, capable of x16"),),
    remedy=Remedy(text="Reseat the card or its riser; read the width again.", needs_reboot=True),
)
NOTE = Finding(
    id="host-path-expected",
    severity=Severity.INFO,
    subject="GPU0-GPU2",
    summary="These two meet only in the root complex; NCCL goes through host memory",
    cause="They hang on different root buses.",
)
FABRIC_UNKNOWN = Unknown(
    subject="iommu group type",
    reason="/sys/kernel/iommu_groups/30/type could not be read: permission denied",
    hint="run nodeprep audit as root",
)
