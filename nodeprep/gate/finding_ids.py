"""The findings that a measurement makes; each has a page in docs/findings."""

from __future__ import annotations

GATE_IDS = (
    "acs-redirect-on-gpu-path",
    "busbw-below-expected",
    "busbw-drift",
    "collective-hang",
    "copy-bandwidth-outlier",
    "cross-socket-p2p-slow",
    "gpu-throttled",
    "iommu-translated-p2p",
    "p2p-chipset-not-supported",
    "p2p-disabled-by-setting",
    "p2p-false-grant",
    "p2p-gpu-not-supported",
    "p2p-not-supported",
    "p2p-path-suspect",
    "p2p-topology-not-supported",
    "pcie-link-errors",
    "pcie-width-narrow",
    "upstream-link-bottleneck",
)
