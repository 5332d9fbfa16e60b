"""Ports that redirect again after nodeprep cleared them in this boot."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import View
from nodeprep.model.acs import SavedPort
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.units import count


@check("acs-rearmed")
def armed_again(view: View) -> Iterator[Finding]:
    """Counted by `acs apply` whenever it finds a cleared port redirecting."""
    saved = view.facts.acs_saved
    if saved is None or saved.boot_id != view.facts.boot_id:
        return
    above = {port.bdf for port in view.gpu_ports()}
    ports = [port for port in saved.ports if port.rearmed and (not view.only or port.bdf in above)]
    if not ports:
        return
    most = max(port.rearmed for port in ports)
    often = most >= view.settings.acs.rearm_alert
    yield Finding(
        id="acs-rearmed",
        severity=Severity.WARNING if often else Severity.INFO,
        subject=", ".join(port.bdf for port in ports),
        summary=f"{count(len(ports), 'port')} cleared in this boot redirected again, one of them "
        f"{count(most, 'time')}",
        cause="something sets ACS again: the kernel after error recovery (AER, DPC), resume, slot "
        "or bus reset and hot plug, or another program",
        evidence=tuple(_evidence(port) for port in ports),
        remedy=Remedy(
            text="look for link errors and resets at these times; the kernel parameter of the plan "
            "holds through all of them",
            commands=("dmesg --level err,warn", "nodeprep acs persist --method kernel"),
            needs_reboot=True,
        ),
    )


def _evidence(port: SavedPort) -> Evidence:
    return Evidence(
        source=f"{port.bdf} ACSCtl",
        text=f"written {port.written}, armed again {port.rearmed}x, last {port.rearmed_at}",
    )
