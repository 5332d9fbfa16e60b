"""A model of the ACS Control registers of a recorded machine, with setpci's manners.

What it models was seen on hardware and in QEMU: bits that the capability lacks cannot be set;
setpci exits 0 whether or not a write took effect; a missing capability ends it with 1; a missing
device only warns; under lockdown and without root nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from nodeprep.errors import Denied, HostError, ParseError, StateError
from nodeprep.model.pci import AcsCapability, Bdf, acs_word, parse_bdf
from nodeprep.model.readings import CommandResult
from nodeprep.model.snapshot import Snapshot
from nodeprep.parse.pci_config import parse_pci_config
from nodeprep.state import read_in, write_atomic

_OPERATION = re.compile(
    r"ECAP_ACS\+(?:0x)?6\.w(?:=(?P<value>[0-9a-f]{1,4})(?::(?P<mask>[0-9a-f]{1,4}))?)?",
    re.IGNORECASE,
)
_MAX_FILE_BYTES = 4 << 20
_LOCKDOWN = "/sys/kernel/security/lockdown"


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that lets a second command see what the first one wrote."""

    boot_id: str | None
    words: dict[Bdf, Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{4}$")]]


class Registers:
    """Configuration space as recorded, with the written control words on top."""

    def __init__(
        self,
        recorded: Callable[[Bdf, int, int], bytes],
        snapshot: Snapshot,
        file: Path | None,
    ) -> None:
        self._recorded = recorded
        self._snapshot = snapshot
        self._file = file
        self._words = self._load()

    def read(self, bdf: Bdf, offset: int, length: int) -> bytes:
        """Configuration space bytes; a written ACS Control word shows in them."""
        content = bytearray(self._recorded(bdf, offset, length))
        word = self._words.get(bdf)
        if word is None:
            return bytes(content)
        capability = self._acs(bdf)
        if capability is not None and capability.offset is not None:
            register = capability.offset + 6
            for index, byte in enumerate(int(word, 16).to_bytes(2, "little")):
                if offset <= register + index < offset + len(content):
                    content[register + index - offset] = byte
        return bytes(content)

    def control_word(self, bdf: Bdf) -> str | None:
        """The control word a read would find now; None without the capability."""
        if bdf in self._words:
            return self._words[bdf]
        capability = self._acs(bdf)
        return None if capability is None else acs_word(capability.control)

    def setpci(self, argv: tuple[str, ...]) -> CommandResult:
        """`setpci [-r] [-v] -s BDF ECAP_ACS+6.w[=VALUE[:MASK]]` on the model."""
        flags, selector, operation = _read_arguments(argv)
        try:
            bdf = parse_bdf(selector)
            match = _OPERATION.fullmatch(operation)
        except ParseError:
            match = None
        if match is None:
            return _result(argv, 1, stderr="setpci: the register model does not know this form\n")
        if f"/sys/bus/pci/devices/{bdf}/config" not in self._snapshot.files:
            warning = "setpci: Warning: No devices selected for operation group 1.\n"
            return _result(argv, 0, stderr=warning)
        capability = self._acs(bdf)
        word = self.control_word(bdf)
        if capability is None or word is None:
            return _result(argv, 1, stderr=_no_capability(bdf))
        verbose = f"{bdf} (ecap 000d @{capability.offset or 0:03x}) " if "-v" in flags else ""
        place = f"@{(capability.offset or 0) + 6:03x}" if verbose else ""
        if match["value"] is None:
            shown = f"{verbose}{place} = {word}\n" if verbose else f"{word}\n"
            return _result(argv, 0, stdout=shown)
        mask = int(match["mask"] or "ffff", 16)
        new = (int(word, 16) & ~mask) | (int(match["value"], 16) & mask)
        error = self._write(bdf, new & int(capability.capabilities))
        shown = f"{verbose}{place} {word}->({match['value']}:{mask:04x})->{new:04x}\n"
        return _result(argv, 0, stdout=shown if verbose else "", stderr=error)

    def write(self, bdf: Bdf, offset: int, data: bytes) -> None:
        """The same through the config file: there the kernel's refusal is an error."""
        place = f"/sys/bus/pci/devices/{bdf}/config"
        capability = self._acs(bdf)
        if capability is None or offset != (capability.offset or 0) + 6 or len(data) != 2:
            raise HostError(f"the register model writes ACS control words only, not {place}")
        word = int.from_bytes(data, "little") & int(capability.capabilities)
        if said := self._write(bdf, word):
            raise Denied(f"{place}: {said.strip().rpartition(': ')[2]}", hint="run as root")

    def _write(self, bdf: Bdf, word: int) -> str:
        """Keeps a word, and what setpci would say on stderr: its exit status says nothing."""
        if not self._snapshot.is_root:
            return f"pcilib: Cannot open /sys/bus/pci/devices/{bdf}/config\n"
        lockdown = self._snapshot.files.get(_LOCKDOWN)
        if lockdown is not None and lockdown.text and "[none]" not in lockdown.text:
            return "pcilib: sysfs_write: write failed: Operation not permitted\n"
        self._words[bdf] = acs_word(word)
        if self._file is not None:
            kept = _Written(boot_id=self._snapshot.boot_id, words=self._words)
            write_atomic(self._file, msgspec.json.encode(kept), mode=0o600)
        return ""

    def _acs(self, bdf: Bdf) -> AcsCapability | None:
        try:
            return parse_pci_config(lambda offset, length: self._recorded(bdf, offset, length)).acs
        except (HostError, ParseError):
            return None

    def _load(self) -> dict[Bdf, str]:
        """The words written by earlier commands on this machine, in this boot of it."""
        if self._file is None:
            return {}
        content = read_in(self._file.parent, self._file.name, _MAX_FILE_BYTES)
        if content is None:
            return {}
        try:
            kept = msgspec.json.decode(content, type=_Written)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StateError(
                f"{self._file} is damaged: {error}", hint=f"remove it: rm {self._file}"
            ) from None
        return dict(kept.words) if kept.boot_id == self._snapshot.boot_id else {}


def _read_arguments(argv: tuple[str, ...]) -> tuple[set[str], str, str]:
    flags = {word for word in argv[1:] if word in ("-v", "-r")}
    rest = [word for word in argv[1:] if word not in flags]
    if len(rest) == 3 and rest[0] == "-s":
        return flags, rest[1], rest[2]
    return flags, "", ""


def _no_capability(bdf: Bdf) -> str:
    return (
        f"setpci: {bdf}: Instance #0 of Extended capability 000d not found - "
        "there are no capabilities with that id.\n"
    )


def _result(
    argv: tuple[str, ...], status: int, *, stdout: str = "", stderr: str = ""
) -> CommandResult:
    return CommandResult(argv=argv, status=status, stdout=stdout, stderr=stderr, simulated=True)
