"""Persistence by the kernel: the parameter in a GRUB drop-in, and whether this boot has it."""

from __future__ import annotations

from pathlib import Path

from nodeprep.acs.etc import put, remove
from nodeprep.acs.forms import grub_drop_in
from nodeprep.errors import NodeprepError, ParseError, Refused
from nodeprep.host.base import Host
from nodeprep.model.acs import AcsPlan, BootParameter, PortCheck
from nodeprep.model.cmdline import KernelCommandLine
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import REDIRECT, Bdf, acs_word, parse_bdf
from nodeprep.model.serving import RenderedFile
from nodeprep.model.tree import PciTree
from nodeprep.parse.cmdline import parse_cmdline

DROP_IN = "etc/default/grub.d/nodeprep-acs.cfg"
_DEADLINE_S = 300.0


def install(host: Host, facts: NodeFacts, plan: AcsPlan, root: Path) -> tuple[RenderedFile, ...]:
    """Writes the drop-in and has GRUB read it, where that runs. Raises Refused or NodeprepError.

    With the parameter in effect nothing redirects, so the plan has none: the drop-in stays.
    """
    if not plan.kernel_parameter:
        if read(facts, root).state in ("in-effect", "pending-reboot"):
            return (RenderedFile(path=str(root / DROP_IN), changed=False),)
        why = "; ".join(plan.notes) or "no GPU path redirects"
        raise Refused(f"there is no kernel parameter to write: {why}")
    _check_grub(host, root, plan)
    file = put(root, DROP_IN, grub_drop_in(plan))
    if file.changed:
        _update_grub(host, root)
    return (file,)


def uninstall(host: Host, root: Path) -> tuple[RenderedFile, ...]:
    """Takes the drop-in away; the next boot has no parameter."""
    file = remove(root, DROP_IN)
    if file.changed:
        _update_grub(host, root)
    return (file,)


def read(facts: NodeFacts, root: Path) -> BootParameter:
    """What is written, what this boot was given, and what the registers hold.

    A device that the kernel did not match is not reported by it: only the registers tell.
    """
    written = _written(root)
    booted = _parsed(facts.platform.cmdline or "")
    wanted = _devices(written) if written is not None else ()
    given = _devices(booted) if booted is not None else ()
    if written is None:
        state = "absent" if not given else "foreign"
        return BootParameter(state=state, parameter="", ports=_ports(facts, given))
    parameter = next((f"pci={one}" for one in written.pci_options), "")
    if not set(written.pci_options) <= set(booted.pci_options if booted else ()):
        return BootParameter(state="pending-reboot", parameter=parameter)
    ports = _ports(facts, wanted)
    held = bool(ports) and all(port.ok for port in ports)
    return BootParameter(
        state="in-effect" if held else "no-effect", parameter=parameter, ports=ports
    )


def _written(root: Path) -> KernelCommandLine | None:
    try:
        return _parsed((root / DROP_IN).read_text())
    except (OSError, UnicodeDecodeError):
        return None


def _parsed(text: str) -> KernelCommandLine | None:
    """Comment lines of a drop-in are none of the kernel's words."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    try:
        return parse_cmdline("\n".join(lines))
    except ParseError:
        return None


def _devices(words: KernelCommandLine) -> tuple[str, ...]:
    return (*words.disable_acs_redir, *(one.device for one in words.config_acs))


def _ports(facts: NodeFacts, devices: tuple[str, ...]) -> tuple[PortCheck, ...]:
    tree = facts.tree
    return tuple(_port(tree, device) for device in devices)


def _port(tree: PciTree, device: str) -> PortCheck:
    """A device by its path, `0000:40:01.1/00.0/02.0`, against the word without redirect bits."""
    bdf = resolve(tree, device)
    function = None if bdf is None else tree.functions[bdf]
    if bdf is None or function is None or function.acs is None:
        return PortCheck(bdf=bdf or Bdf(device), expected="", found=None, rearmed=False)
    control = int(function.acs.control)
    return PortCheck(
        bdf=bdf,
        expected=acs_word(control & ~int(REDIRECT)),
        found=acs_word(control),
        rearmed=False,
    )


def resolve(tree: PciTree, device: str) -> Bdf | None:
    """The function behind the kernel's path form; None: there is none in this tree."""
    first, *steps = device.split("/")
    try:
        here = parse_bdf(first)
    except ParseError:
        return None
    for step in steps:
        below = (one.bdf for one in tree.below(here) if one.parent == here)
        found = [bdf for bdf in below if bdf.rpartition(":")[2] == step.lower().zfill(4)]
        if len(found) != 1:
            return None
        here = found[0]
    return here if here in tree.functions else None


def _check_grub(host: Host, root: Path, plan: AcsPlan) -> None:
    """A drop-in that nothing reads would promise what it does not keep."""
    if (root / DROP_IN).parent.is_dir() or (root == Path("/") and host.has_program("update-grub")):
        return
    raise Refused(
        f"{root / DROP_IN} would be read by nobody: there is no {(root / DROP_IN).parent}",
        hint=f"with grubby: grubby --update-kernel=ALL --args='{plan.kernel_parameter}'; else "
        "add it to the boot loader's kernel command line, quoted",
    )


def _update_grub(host: Host, root: Path) -> None:
    if root != Path("/") or not host.has_program("update-grub"):
        return
    result = host.run(("update-grub",), deadline_s=_DEADLINE_S)
    if result.status != 0:
        said = " ".join(result.stderr.split())[-200:]
        raise NodeprepError(
            f"update-grub ended with {result.status}: {said}",
            hint=f"{root / DROP_IN} is written, but the boot menu does not have it yet",
        )
