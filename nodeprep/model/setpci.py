"""What `setpci` answers when it is asked for a register."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record
from nodeprep.model.pci import Bdf


class SetpciTrouble(Enum):
    """Why there is no value."""

    NO_CAPABILITY = "no-capability"
    """The function has no such capability; setpci ended there, whatever else it was asked."""
    NO_DEVICE = "no-device"
    """No function matched the selector; setpci ends with status 0 all the same."""
    DENIED = "denied"
    """Not root, or kernel lockdown."""
    ALL_ONES = "all-ones"
    """ffff was read: the function is gone, or the reader is not root."""
    NO_ANSWER = "no-answer"
    """An address with nothing behind it, as a shell loop prints it when setpci failed."""
    OTHER = "other"


class SetpciRecord(Record, frozen=True):
    """One register of one function, read or written, or the trouble instead."""

    bdf: Bdf | None = None
    """None: the output names no address."""
    register: str | None = None
    """As asked for (`ECAP_ACS+6.w`) when the text shows it."""
    capability: str | None = None
    """`ecap 000d` of the -v form."""
    capability_offset: int | None = None
    offset: int | None = None
    """Byte offset of the register in configuration space, `@116`."""
    width_bits: int | None = None
    """8, 16 or 32."""
    value: int | None = None
    """The value read, or the value written last."""
    before: int | None = None
    """Only of a masked write: the value it found."""
    mask: int | None = None
    """Only of a masked write: the bits it may change."""
    is_write: bool = False
    """A write, or with -D the write that was not made: the output does not tell which."""
    trouble: SetpciTrouble | None = None
    message: str | None = None
    """The line of trouble as printed; untrusted text."""
