"""What lspci calls the functions on the way to the GPUs; for people, never for decisions."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.host.base import Host
from nodeprep.model.pci import Bdf

_DEADLINE_S = 20.0


def collect_names(host: Host) -> Mapping[Bdf, str]:
    """Function -> vendor and device name. Raises HostError without lspci."""
    from nodeprep.parse.lspci import parse_lspci

    result = host.run(("lspci", "-D", "-nn"), deadline_s=_DEADLINE_S)
    report = parse_lspci(result.stdout)
    return {one.bdf: one.name for one in report.functions if one.name}
