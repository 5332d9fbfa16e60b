"""The kernel command line, from /proc/cmdline, a boot log, or a line of GRUB's configuration.

Words are parted by blanks outside double quotes, as next_arg() of lib/cmdline.c does it; what
follows ` -- ` is init's.  `pci=` is split at commas before anything else looks at it
(pci_setup(), drivers/pci/pci.c): device lists need `;`, and what stands behind a comma becomes an
option of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodeprep.errors import ParseError
from nodeprep.model.cmdline import ConfigAcs, KernelCommandLine
from nodeprep.parse.text import clean_lines

_LONGEST = 16_384
"""COMMAND_LINE_SIZE is 2,048 on x86 and arm64, and 4,096 at most."""

_LOGGED = re.compile(r"^.{0,80}?\b(?:Kernel )?[Cc]ommand line: ?")
_GRUB = re.compile(r"\s*(?:export )?GRUB_CMDLINE_LINUX(?P<default>_DEFAULT)?=(?P<value>.*)")
_PROMPT = re.compile(r".{0,80}\bcat /proc/cmdline\s*$")
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')

# pci_setup() and pcibios_setup() of x86, Linux 6.12; a trailing `=` takes a value.
_EXACT = frozenset(
    [
        "nomsi",
        "noaer",
        "earlydump",
        "nodomains",
        "off",
        "bios",
        "nobios",
        "bfsort",
        "nobfsort",
        "biosirq",
        "conf1",
        "conf2",
        "nommconf",
        "check_enable_amd_mmconf",
        "noacpi",
        "noearly",
        "usepirqmask",
        "rom",
        "norom",
        "nobar",
        "assign-busses",
        "use_crs",
        "nocrs",
        "use_e820",
        "no_e820",
        "big_root_window",
        "routeirq",
        "skip_isa_align",
        "noioapicquirk",
        "ioapicreroute",
        "noioapicreroute",
    ]
)
_PREFIXES = (
    "noats", "noari", "notph", "realloc", "cbiosize=", "cbmemsize=", "resource_alignment=", "ecrc=",
    "hpiosize=", "hpmmiosize=", "hpmmioprefsize=", "hpmemsize=", "hpbussize=", "pcie_bus_tune_off",
    "pcie_bus_safe", "pcie_bus_perf", "pcie_bus_peer2peer", "pcie_scan_all", "disable_acs_redir=",
    "config_acs=", "irqmask=", "pirqaddr=", "lastbus=",
)  # fmt: skip

_REDIR = "disable_acs_redir="
_CONFIG = "config_acs="


def parse_cmdline(text: str) -> KernelCommandLine:
    """The words that bear on PCIe and the IOMMU. Raises ParseError on an empty text."""
    line = _one_line(clean_lines(text))
    if not line.strip():
        raise ParseError("no kernel command line in the text", hint="run: cat /proc/cmdline")
    words = list(_words(line))
    options = tuple(
        option for value in _values(words, "pci") for option in value.split(",") if option
    )
    return KernelCommandLine(
        text=line.strip(),
        pci_options=options,
        unknown_pci_options=tuple(option for option in options if not _is_known(option)),
        disable_acs_redir=tuple(_devices(_last(options, _REDIR))),
        config_acs=tuple(_config_acs(_last(options, _CONFIG))),
        pcie_acs_override=_value(words, "pcie_acs_override"),
        iommu=_value(words, "iommu"),
        intel_iommu=_value(words, "intel_iommu"),
        amd_iommu=_value(words, "amd_iommu"),
        iommu_passthrough=_value(words, "iommu.passthrough"),
        iommu_strict=_value(words, "iommu.strict"),
    )


def _one_line(lines: list[str]) -> str:
    """The command line without what a paste puts around it; a wrapped one is joined."""
    for line in lines:
        logged = _LOGGED.match(line)
        if logged is not None:
            return line[logged.end() : logged.end() + _LONGEST]
    grub = [match for line in lines if (match := _GRUB.match(line)) is not None]
    if grub:
        # grub-mkconfig puts the words of _DEFAULT behind the others.
        grub.sort(key=lambda match: match["default"] is not None)
        return " ".join(_shell_unquoted(match["value"].strip()) for match in grub)[:_LONGEST]
    return " ".join(line for line in lines if line.strip() and not _PROMPT.match(line))[:_LONGEST]


def _shell_unquoted(value: str) -> str:
    """The value of a shell assignment; quotes inside are kept for the kernel."""
    if len(value) >= 2 and value[0] in "\"'":
        end = value.rfind(value[0])
        value = value[1:end] if end > 0 else value[1:]
    return value.replace('\\"', '"').replace("\\;", ";").replace("\\$", "$")


def _words(line: str) -> Iterator[tuple[str, str | None]]:
    """Name and value of each word, without the quotes around the word or the value."""
    for match in _WORD.finditer(line):
        word = match[0]
        if word == "--":
            return
        if word.startswith('"'):
            word = word[1:].removesuffix('"')
        name, equals, value = word.partition("=")
        if value.startswith('"'):
            value = value[1:].removesuffix('"')
        yield name.replace("-", "_"), value if equals else None


def _values(words: list[tuple[str, str | None]], name: str) -> list[str]:
    return [value for word, value in words if word == name and value is not None]


def _value(words: list[tuple[str, str | None]], name: str) -> str | None:
    values = _values(words, name)
    return values[-1] if values else None


def _last(options: tuple[str, ...], prefix: str) -> str:
    """The value of the last option with this prefix: the kernel keeps one string."""
    found = [option for option in options if option.startswith(prefix)]
    return found[-1].removeprefix(prefix) if found else ""


def _is_known(option: str) -> bool:
    return option in _EXACT or option.startswith(_PREFIXES)


def _devices(value: str) -> Iterator[str]:
    return (device for device in value.split(";") if device)


def _config_acs(value: str) -> Iterator[ConfigAcs]:
    """Flags go before the `@`; devices behind a `;` without flags belong to none and are kept."""
    for item in _devices(value):
        flags, at, device = item.partition("@")
        yield ConfigAcs(flags=flags, device=device) if at else ConfigAcs(flags="", device=item)
