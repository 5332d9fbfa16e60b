"""A counter file of PCI Express Advanced Error Reporting in sysfs.

RxErr 0
BadTLP 2
...
TOTAL_ERR_COR 2

Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats: the last line is the total.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"\s*(\S{1,60})\s+(\d{1,19})\s*")


def parse_aer(text: str) -> dict[str, int]:
    """Name of an error -> how often it came; lines of another form are left out."""
    return {
        match[1]: int(match[2])
        for line in text.splitlines()[:100]
        if (match := _LINE.fullmatch(line))
    }


def parse_aer_total(text: str) -> int | None:
    """All errors of the file; None: the text is none."""
    counts = parse_aer(text)
    total = next((count for name, count in counts.items() if name.startswith("TOTAL_ERR")), None)
    return sum(counts.values()) if total is None and counts else total
