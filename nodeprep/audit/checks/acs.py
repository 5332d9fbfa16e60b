"""ACS redirection on the way between GPUs, read from the registers and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.audit.registry import check
from nodeprep.audit.view import PairPath, View, given_away, pair_names
from nodeprep.model.finding import Evidence, Finding, Remedy, Severity
from nodeprep.model.pci import AcsStatus, PciFunction, acs_names, acs_word
from nodeprep.parse.cmdline import parse_cmdline
from nodeprep.units import count

_BY_USE = {
    "granted": (Severity.CRITICAL, "is granted by the driver"),
    "outside": (Severity.INFO, "is granted, but no tensor-parallel group joins them"),
    "refused": (Severity.INFO, "is not granted, so it costs nothing"),
    "unknown": (Severity.INFO, "is not known to be granted"),
}
"""Root ports above GPUs without a common switch: what a redirect there means, by the pair's use."""
_HARM = "setting 0000 on every device also drops isolation that nothing here needs dropped"


@check("acs-redirect-on-gpu-path")
def redirect_below_common_bridge(view: View) -> Iterator[Finding]:
    """Redirecting ports below the bridge that two GPUs share: their traffic climbs past it."""
    for top, paths in _by_top(view, attached_directly=False).items():
        ports = _redirecting(paths)
        if ports:
            yield _finding(
                view,
                ports,
                [path for path in paths if path.route.redirecting],
                Severity.CRITICAL,
                where=f"{count(len(ports), 'port')} below {top}",
                harm="their traffic climbs to the root complex instead of crossing the switch",
            )


@check("acs-redirect-on-gpu-path")
def redirect_on_root_ports(view: View) -> Iterator[Finding]:
    """GPUs that meet in the root complex anyway: it matters where P2P between them is granted."""
    direct = [path for path in _pcie_paths(view) if path.route.directly_attached]
    for use, (severity, told) in _BY_USE.items():
        paths = [path for path in direct if path.route.redirecting and _use(view, path) == use]
        ports = _redirecting(paths)
        if ports:
            yield _finding(
                view,
                ports,
                paths,
                severity,
                where=f"{count(len(ports), 'port')} above them",
                harm=f"no common switch joins them, and P2P between them {told}",
            )


@check("evidence-incomplete")
def acs_unknown(view: View) -> Iterator[Finding]:
    """Ports whose ACS state could not be read: unknown, never clean."""
    dark = [
        port
        for port in view.gpu_ports()
        if port.acs_status is AcsStatus.UNKNOWN and _on_pcie_path(view, port)
    ]
    if not dark:
        return
    commands = [f"setpci -v -s {port.bdf} ECAP_ACS+6.w" for port in dark[:4]]
    yield Finding(
        id="evidence-incomplete",
        severity=Severity.WARNING,
        subject=", ".join(port.bdf for port in dark[:8]),
        summary=f"the ACS state of {count(len(dark), 'port')} above GPUs is unknown",
        cause="the extended configuration space could not be read",
        evidence=tuple(
            Evidence(source=f"{port.bdf} config", text=f"readable part: {port.config_access.value}")
            for port in dark[:8]
        ),
        remedy=Remedy(
            text="read the registers as root", commands=("sudo nodeprep audit", *commands)
        ),
    )


@check("evidence-incomplete")
def way_unknown(view: View) -> Iterator[Finding]:
    """A GPU whose way up to the root complex cannot be told: its ports are unknown, never clean."""
    lost = [gpu for gpu in view.facts.gpus if view.tree.broken(gpu.bdf)]
    if lost and view.facts.functions:
        yield Finding(
            id="evidence-incomplete",
            severity=Severity.WARNING,
            subject=", ".join(f"GPU{gpu.index} {gpu.bdf}" for gpu in lost),
            summary=f"the ports above {len(lost)} GPUs are not all known",
            cause="a bridge above them is not listed, or does not tell its bus number",
            evidence=tuple(
                Evidence(source=f"{gpu.bdf} place in sysfs", text="not known up to a root bus")
                for gpu in lost[:8]
            ),
            remedy=Remedy(
                text="list the bus again as root; a GPU may have fallen off it",
                commands=("sudo nodeprep audit", "lspci -D -tv"),
            ),
        )


@check("acs-cmdline-noop")
def cmdline_without_effect(view: View) -> Iterator[Finding]:
    """Kernel options that do not do what they are given for."""
    cmdline = view.facts.platform.cmdline
    if not cmdline:
        return
    words = parse_cmdline(cmdline)
    useless = [f"pci={word}" for word in words.unknown_pci_options]
    if words.pcie_acs_override is not None:
        useless.append(f"pcie_acs_override={words.pcie_acs_override}")
    if useless:
        yield Finding(
            id="acs-cmdline-noop",
            severity=Severity.WARNING,
            subject=" ".join(useless),
            summary="a kernel option given for ACS has no effect on any redirect bit",
            cause="mainline knows no such option (pci=noacs; the rest of a device list written "
            "with commas instead of semicolons), or it is pcie_acs_override, an out-of-tree patch "
            "that only pretends isolation when IOMMU groups are made",
            evidence=(Evidence(source="/proc/cmdline", text=cmdline),),
            remedy=Remedy(
                text="use pci=disable_acs_redir= with the ports of the plan, and compare the "
                "registers after the reboot",
                commands=("nodeprep acs plan --format grub",),
                needs_reboot=True,
            ),
        )


def _use(view: View, path: PairPath) -> str:
    granted = path.pair.p2p_granted
    if granted is None:
        return "unknown"
    if not granted:
        return "refused"
    return "granted" if view.wanted(path) else "outside"


def _pcie_paths(view: View) -> list[PairPath]:
    return [path for path in view.paths if not path.over_nvlink]


def _on_pcie_path(view: View, port: PciFunction) -> bool:
    return any(port in path.route.ports for path in _pcie_paths(view))


def _by_top(view: View, *, attached_directly: bool) -> dict[str, list[PairPath]]:
    """Pairs by the port on the root bus below which they meet."""
    tops: dict[str, list[PairPath]] = {}
    for path in _pcie_paths(view):
        if path.route.directly_attached is attached_directly:
            top = (path.route.a, *view.tree.chain(path.route.a.bdf))[-1]
            tops.setdefault(f"{top.kind} {top.bdf}", []).append(path)
    return tops


def _redirecting(paths: list[PairPath]) -> list[PciFunction]:
    ports = {port.bdf: port for path in paths for port in path.route.redirecting}
    return [ports[bdf] for bdf in sorted(ports)]


def _finding(
    view: View,
    ports: list[PciFunction],
    paths: list[PairPath],
    severity: Severity,
    *,
    where: str,
    harm: str,
) -> Finding:
    return Finding(
        id="acs-redirect-on-gpu-path",
        severity=severity,
        subject=", ".join(port.bdf for port in ports),
        summary=f"ACS redirects {pair_names(paths)} at {where}: {harm}",
        cause="firmware default, or the kernel: with an IOMMU driver active it sets these bits at "
        "boot, after error recovery and after resume",
        evidence=tuple(_evidence(port) for port in ports),
        remedy=_remedy(view, severity),
    )


def _evidence(port: PciFunction) -> Evidence:
    assert port.acs is not None
    return Evidence(
        source=f"{port.bdf} {port.kind} ACSCtl",
        text=f"{acs_word(port.acs.control)}: {'+ '.join(acs_names(port.acs.redirects))}+",
    )


def _remedy(view: View, severity: Severity) -> Remedy:
    if view.guest:
        return Remedy(text="diagnose on the hypervisor: a guest does not own these ports")
    if severity is Severity.INFO:
        return Remedy(text="nothing to do while P2P between these GPUs is not used")
    return _refused(view) or Remedy(
        text="clear the redirect bits (mask 002c) of exactly these ports each boot, and read back; "
        "look at the writes first with nodeprep acs plan",
        commands=("sudo nodeprep acs apply", "nodeprep acs verify"),
        risk=f"IOMMU groups below these ports no longer isolate; {_HARM}",
    )


def _refused(view: View) -> Remedy | None:
    """What comes before the repair where it is certain that nodeprep will refuse it."""
    held = view.held_for_guests()
    if held:
        names = ", ".join(one.bdf for one in held[:4])
        more = f" and {len(held) - 4} more" if len(held) > 4 else ""
        return Remedy(
            text=f"not yet: nodeprep refuses to write while {names}{more} can belong to a guest "
            f"({_holder(held[0])}). Stop the guest and release it (driverctl unset-override "
            f"{held[0].bdf}), then apply; or leave ACS as it is and set NCCL_P2P_DISABLE=1",
            commands=("nodeprep acs plan",),
            risk="freeing ports beside a function of a guest breaks its isolation",
        )
    mode = view.facts.platform.lockdown
    if mode in ("integrity", "confidentiality"):
        return Remedy(
            text=f"not at run time: kernel lockdown ({mode}) lets nobody write these registers, "
            "and nodeprep refuses. Switch ACS off in the firmware setup, or boot with the kernel "
            "parameter of the plan",
            commands=("nodeprep acs plan --format grub",),
            needs_reboot=True,
        )
    return None


def _holder(function: PciFunction) -> str:
    if given_away(function.driver):
        return f"bound to {function.driver}"
    return f"driver_override {function.driver_override}"
