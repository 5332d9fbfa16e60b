"""The plan to free GPU paths of redirection, what was done, and what was saved before."""

from __future__ import annotations

from nodeprep.model.base import Document, Record
from nodeprep.model.pci import Bdf


class AcsWrite(Record, frozen=True, tag_field="kind", tag="write"):
    """One masked change of one ACS Control word."""

    bdf: Bdf
    before: str
    """Control word read, `001d`."""
    after: str
    """Control word planned, `0011`."""
    pairs: tuple[str, ...]
    """GPU pairs it frees, `GPU0-GPU1`."""
    reason: str
    port: str = ""
    """What the port is: `downstream port 1000:c010`."""
    weakens_groups: tuple[int, ...] = ()
    """IOMMU groups whose isolation no longer holds in hardware afterwards."""

    @property
    def mask(self) -> int:
        """The bits this write changes."""
        return int(self.before, 16) ^ int(self.after, 16)


class Refusal(Record, frozen=True, tag_field="kind", tag="refusal"):
    """Why nothing may be changed."""

    subject: str
    reason: str
    hint: str = ""


class PortChoice(Record, frozen=True):
    """Why one port is in the plan or left out of it."""

    bdf: Bdf
    included: bool
    reason: str


class AcsPlan(Record, frozen=True):
    actions: tuple[AcsWrite | Refusal, ...] = ()
    choices: tuple[PortChoice, ...] = ()
    kernel_parameter: str = ""
    """The same change as a kernel parameter; empty when there is nothing to change."""
    forced_reason: str | None = None
    notes: tuple[str, ...] = ()
    """What to know of the kernel parameter before it is used."""
    warnings: tuple[str, ...] = ()
    """What was asked for or allowed beyond the default: all bits, a guest."""
    switches: tuple[Bdf, ...] = ()
    """The common bridges below which freed traffic turns; the guards look at all that is there."""
    allow_in_guest: bool = False
    allow_in_use: bool = False

    @property
    def writes(self) -> tuple[AcsWrite, ...]:
        return tuple(action for action in self.actions if isinstance(action, AcsWrite))

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(action for action in self.actions if isinstance(action, Refusal))


class AppliedWrite(Record, frozen=True):
    write: AcsWrite
    read_back: str | None
    """Control word read after the write; None when it could not be read."""
    ok: bool
    rolled_back: bool = False


class PortCheck(Record, frozen=True):
    """One port against the word it should hold."""

    bdf: Bdf
    expected: str
    found: str | None
    """None: the port is gone, is another one, or does not tell."""
    rearmed: bool
    """A redirect bit that was cleared is on again."""

    @property
    def ok(self) -> bool:
        return self.found == self.expected


class AcsVerification(Record, frozen=True):
    """The re-read control words against a plan, or against what was written in this boot."""

    ports: tuple[PortCheck, ...] = ()

    @property
    def verified(self) -> bool | None:
        """Whether every port holds its word; None: there was nothing to verify."""
        return all(port.ok for port in self.ports) if self.ports else None

    @property
    def rearmed(self) -> tuple[Bdf, ...]:
        return tuple(port.bdf for port in self.ports if port.rearmed)


class BootParameter(Record, frozen=True):
    """The kernel parameter: what is written for the next boot, and what this one made of it."""

    state: str
    """`absent`; `pending-reboot`: written, and this boot has not got it; `in-effect`: it has, and
    no port of it redirects; `no-effect`: it has, and some port still does; `foreign`: this boot
    has one that is not ours."""
    parameter: str = ""
    ports: tuple[PortCheck, ...] = ()
    """The ports it names against a word without redirect bits."""


class SavedPort(Record, frozen=True, forbid_unknown_fields=True):
    """A port as it was before the first write of this boot."""

    bdf: Bdf
    path: tuple[Bdf, ...]
    """The chain from the root bus down to the port: its place in the tree."""
    vendor_device: str
    capabilities: str
    original: str
    """The first control word seen in this boot."""
    written: str
    """The last control word we planned to write."""
    saved_at: str
    rearmed: int = 0
    """How often it was found redirecting again after we had cleared it, in this boot."""
    rearmed_at: str | None = None


class AcsState(Document, frozen=True, forbid_unknown_fields=True):
    """acs-state.json: what `acs restore` needs."""

    kernel_release: str | None
    machine: str | None
    """Recorded machine this belongs to; None for the computer itself."""
    ports: tuple[SavedPort, ...]
    forced_reason: str | None = None
    origin: str = "live"
    """Whose registers: `live`, `fabricated` or `replay`."""
