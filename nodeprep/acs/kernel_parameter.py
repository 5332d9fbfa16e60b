"""The same change as a kernel parameter: made before the kernel forms IOMMU groups, at every boot.

Form and meaning: Linux Documentation/admin-guide/kernel-parameters.txt (pci=), drivers/pci/pci.c
(pci_dev_str_match_path, __pci_config_acs, pci_enable_acs).

- `disable_acs_redir=DEV;DEV` since 4.19.  Before 6.11 it takes RR, CR and EC out of what the kernel
  set; since then the other bits fall back to the firmware's value.
- `config_acs=FLAGS@DEV;FLAGS@DEV` since 6.11 (commit 47c8846a49ba).  Flags are read from the right:
  bit 0 is Source Validation.  `x` is the firmware's value, not the kernel's default.
- 6.11 until 6.12.23, 6.13.11 and 6.14.2 (commit 9cf8a952d57b): several devices are not parsed, and
  redirect bits that the firmware set survive both parameters.

`pci=` splits at commas before either sees its list, so devices are separated by `;`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from nodeprep.model.base import Record
from nodeprep.model.pci import REDIRECT, AcsFlag, Bdf
from nodeprep.model.tree import PciTree

_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,5}))?(.*)", re.DOTALL)
_FIXED_IN = {12: 23, 13: 11, 14: 2}
"""Stable releases 6.x.y that carry commit 9cf8a952d57b; 6.11 ended without it, 6.15 began with."""


class KernelParameter(Record, frozen=True):
    text: str
    """`pci=...`, one word without quotes; empty when this kernel has none that works."""
    notes: tuple[str, ...] = ()


class _Support(Enum):
    NONE = "none"
    REDIRECT_ONLY = "disable_acs_redir"
    BROKEN = "broken"
    UNSURE = "unsure"
    """A distribution's kernel in the broken range: it may or may not carry the fix."""
    CONFIG = "config_acs"
    UNKNOWN = "unknown"


def kernel_parameter(
    words: Mapping[Bdf, int],
    tree: PciTree,
    kernel_release: str | None,
    cmdline: str | None = None,
) -> KernelParameter:
    """The parameter that gives these ports these control words at boot, as this kernel reads it."""
    if not words:
        return KernelParameter(text="")
    support = _support(kernel_release)
    if support is _Support.NONE:
        return KernelParameter(text="", notes=(f"Linux {kernel_release} has no such parameter",))
    if support is _Support.BROKEN:
        return KernelParameter(text="", notes=(_broken(kernel_release),))
    notes = [_ALWAYS]
    if support is _Support.UNSURE:
        notes.insert(0, f"{_broken(kernel_release)}, unless the distribution carries the fix")
    if cmdline and re.search(r"\b(?:disable_acs_redir|config_acs)=", cmdline):
        notes.append(
            "the command line has such a parameter already: the last one wins, so join them"
        )
    if support in (_Support.REDIRECT_ONLY, _Support.UNKNOWN):
        devices = ";".join(path_form(tree.path(bdf)) for bdf in words)
        return KernelParameter(text=f"pci=disable_acs_redir={devices}", notes=tuple(notes))
    items = ";".join(f"{flags(word)}@{path_form(tree.path(bdf))}" for bdf, word in words.items())
    return KernelParameter(text=f"pci=config_acs={items}", notes=tuple(notes))


_ALWAYS = (
    "IOMMU groups are formed after it, so a GPU shares the group of its port; two GPUs below one "
    "switch may still be shown in two groups, which is no isolation (Linux 6.1 and 6.12); after "
    "the reboot compare the ACS words (nodeprep acs verify): a device that is not matched is not "
    "reported"
)


def path_form(path: Sequence[Bdf]) -> str:
    """The path of a device that survives renumbered buses: `0000:40:01.1/00.0/02.0`."""
    return "/".join([path[0], *(bdf.rpartition(":")[2] for bdf in path[1:])])


def flags(after: int) -> str:
    """Flags of config_acs for a control word, bit 6 first: `x0100x1` for 0011.

    A bit that is on is asked for; a redirect bit that is off is forced off; of the rest the
    firmware decides, except that an empty word (all bits) is forced off as a whole.
    """
    if after == 0:
        return "0" * len(AcsFlag)
    return "".join(_flag(bit, after) for bit in sorted(AcsFlag, reverse=True))


def _flag(bit: AcsFlag, after: int) -> str:
    if after & bit:
        return "1"
    return "0" if bit & REDIRECT else "x"


def _support(kernel_release: str | None) -> _Support:
    match = _RELEASE.match(kernel_release or "")
    if match is None:
        return _Support.UNKNOWN
    version = (int(match[1]), int(match[2]))
    if version < (4, 19):
        return _Support.NONE
    if version < (6, 11):
        return _Support.REDIRECT_ONLY
    if version > (6, 14):
        return _Support.CONFIG
    fixed, patch = _FIXED_IN.get(version[1]), int(match[3] or 0)
    if fixed is not None and patch >= fixed:
        return _Support.CONFIG
    # Ubuntu and others keep x.y.0 and count their own builds behind it.
    return _Support.UNSURE if patch == 0 and match[4].startswith("-") else _Support.BROKEN


def _broken(kernel_release: str | None) -> str:
    return (
        f"Linux {kernel_release} misreads config_acs= and disable_acs_redir=; fixed in 6.12.23, "
        "6.13.11, 6.14.2 and 6.15"
    )
