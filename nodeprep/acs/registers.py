"""One port's ACS registers: read from configuration space, written masked, by setpci or by sysfs.

That setpci exits with 0 proves nothing: it ignores failed writes.  Only reading back counts.
"""

from __future__ import annotations

import re
from enum import Enum

from nodeprep.errors import HostError, ParseError, StateError
from nodeprep.host.base import Host
from nodeprep.model.acs import AcsState
from nodeprep.model.base import Record
from nodeprep.model.pci import Bdf, acs_word, parse_bdf
from nodeprep.model.readings import CommandResult
from nodeprep.parse.pci_config import parse_pci_config

DEVICES = "/sys/bus/pci/devices"
_ROOT_BUS = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_DEADLINE_S = 10.0
_SAID_MAX = 200


class Method(Enum):
    """What carries a write."""

    SETPCI = "setpci"
    SYSFS = "sysfs"
    """One pwrite to the config file of the function."""


class PortReading(Record, frozen=True):
    """A port as it is at this moment."""

    vendor_device: str
    path: tuple[Bdf, ...]
    """The chain from the root bus down to the port."""
    capabilities: int
    control: int
    control_offset: int
    """Where the control word lies in configuration space."""


def read_port(host: Host, bdf: Bdf) -> PortReading:
    """Who the port is, where it sits, and its ACS words. Raises HostError."""
    config = f"{DEVICES}/{bdf}/config"
    try:
        found = parse_pci_config(
            lambda offset, length: host.read_bytes(config, offset=offset, length=length)
        )
    except ParseError as error:
        raise HostError(
            f"its configuration space is damaged: {error.message}", hint=error.hint
        ) from None
    if found.vendor_id is None or found.device_id is None:
        raise HostError("it does not answer", hint="look for it with lspci -D")
    if found.acs is None or found.acs.offset is None:
        raise HostError("its ACS capability could not be read", hint="run as root")
    return PortReading(
        vendor_device=f"{found.vendor_id:04x}:{found.device_id:04x}",
        path=_path(host, bdf),
        capabilities=int(found.acs.capabilities),
        control=int(found.acs.control),
        control_offset=found.acs.offset + 6,
    )


def write_bits(
    host: Host,
    bdf: Bdf,
    *,
    value: int,
    mask: int,
    saved: AcsState,
    method: Method = Method.SETPCI,
) -> str:
    """Sets the bits of `mask` in one port's control word to those of `value`.

    saved: the state on disk; a port that is not in it is never written.  Gives what setpci
    complained about, in one short line.  Raises HostError when the write failed.
    """
    if all(port.bdf != bdf for port in saved.ports):
        raise StateError(f"{bdf} was not saved, so it is not written")
    if method is Method.SYSFS:
        return _write_config(host, bdf, value, mask)
    result = host.run(write_argv(bdf, value, mask), deadline_s=_DEADLINE_S)
    if _lacks_raw_access(result):
        result = host.run(write_argv(bdf, value, mask, raw=False), deadline_s=_DEADLINE_S)
    said = _one_line(result.stderr)
    if result.status != 0:
        raise HostError(f"setpci ended with status {result.status}: {said}")
    return said


def _write_config(host: Host, bdf: Bdf, value: int, mask: int) -> str:
    """Read, change, write the two bytes of the control word, as setpci does."""
    port = read_port(host, bdf)
    word = (port.control & ~mask) | (value & mask)
    config = f"{DEVICES}/{bdf}/config"
    host.write_bytes(config, word.to_bytes(2, "little"), offset=port.control_offset)
    return ""


def write_argv(bdf: Bdf, value: int, mask: int, *, raw: bool = True) -> tuple[str, ...]:
    """`setpci -r -v -s 0000:42:00.0 ECAP_ACS+6.w=0000:002c`.

    -r goes straight to this one function: without it setpci scans the bus first, and takes a
    missing function for an empty selection.
    """
    change = f"ECAP_ACS+6.w={acs_word(value & mask)}:{acs_word(mask)}"
    return ("setpci", *(("-r",) if raw else ()), "-v", "-s", bdf, change)


def _lacks_raw_access(result: CommandResult) -> bool:
    """setpci before pciutils 3.7.0 does not know -r, and has written nothing."""
    return result.status != 0 and "invalid option" in result.stderr


def _path(host: Host, bdf: Bdf) -> tuple[Bdf, ...]:
    """Where a function sits, from its sysfs link; behind Intel VMD a second root bus begins."""
    parts = host.read_link(f"{DEVICES}/{bdf}").split("/")
    roots = [index for index, part in enumerate(parts) if _ROOT_BUS.fullmatch(part)]
    try:
        path = tuple(parse_bdf(part) for part in parts[roots[-1] + 1 :]) if roots else ()
    except ParseError:
        path = ()
    if not path or path[-1] != bdf:
        raise HostError("its place in the PCI tree could not be read")
    return path


def _one_line(text: str) -> str:
    """Text of a program as one printable, bounded line."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else "?" for char in line)[:_SAID_MAX]
