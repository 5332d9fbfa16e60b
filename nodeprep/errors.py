"""The error family and the exit statuses: one place, documented once.

Every error says what happened and what to do next.  A traceback means a bug.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of every command but `status --format nagios`."""

    OK = 0
    """Done; nothing at or over --fail-on."""
    ERROR = 1
    """Could not do it: tool missing, unreadable output, timeout."""
    USAGE = 2
    """Bad arguments."""
    FINDINGS = 3
    """Something at or over --fail-on."""
    REFUSED = 4
    """Unsafe to change; nothing was changed."""
    GATE_FAILED = 5
    """Bandwidth, transport or data check failed."""
    UNVERIFIED = 6
    """Changed but not as planned (rolled back), or a measurement proved nothing."""
    NEEDS_ROOT = 77
    """Needs root."""


EXIT_MEANINGS: dict[Exit, str] = {
    Exit.OK: "done; nothing at or over --fail-on",
    Exit.ERROR: "could not do it: tool missing, unreadable output, timeout",
    Exit.USAGE: "bad arguments",
    Exit.FINDINGS: "something at or over --fail-on (default critical)",
    Exit.REFUSED: "unsafe to change; nothing was changed",
    Exit.GATE_FAILED: "bandwidth, transport or data check failed",
    Exit.UNVERIFIED: "changed, but the re-read state is not the planned one (rolled back), "
    "or a measurement proved nothing",
    Exit.NEEDS_ROOT: "needs root",
}


class NodeprepError(Exception):
    """Something could not be done; `hint` is the next step for the reader."""

    status = Exit.ERROR

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(NodeprepError):
    """The arguments, the configuration file or a name given by the user are wrong."""

    status = Exit.USAGE


class ParseError(NodeprepError):
    """A text or a byte string is not what its kind promises."""


class HostError(NodeprepError):
    """The machine did not give what was asked: the base of the four below."""


class NotFound(HostError):
    """No such file, directory or program."""


class Denied(HostError):
    """The kernel or the file system refused (usually: not root)."""


class NotRecorded(HostError):
    """A replayed machine holds no answer for this question."""


class TimedOut(HostError):
    """A program outlived its deadline and was killed."""


class NeedsRoot(NodeprepError):
    """The action needs root; nothing was changed."""

    status = Exit.NEEDS_ROOT


class Refused(NodeprepError):
    """Unsafe to change; nothing was changed."""

    status = Exit.REFUSED


class Unverified(NodeprepError):
    """The state read back is not the planned one; what was written was rolled back."""

    status = Exit.UNVERIFIED


class StateError(NodeprepError):
    """A file of ours is missing, damaged, foreign or unsafe to trust."""
