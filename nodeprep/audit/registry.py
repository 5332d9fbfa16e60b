"""The list of checks: a check is one function that looks at a View and yields findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from nodeprep.audit.view import View
from nodeprep.model.finding import Finding

Check = Callable[[View], Iterable[Finding]]

_SUBJECTS = ("acs", "rearmed", "p2p", "levels", "links", "iommu", "platform", "gpus", "memory",
             "memory_skew")  # fmt: skip
_CHECKS: list[tuple[tuple[str, ...], Check]] = []


def check(*ids: str) -> Callable[[Check], Check]:
    """Registers a check under the finding ids it may yield."""

    def register(function: Check) -> Check:
        _CHECKS.append((ids, function))
        return function

    return register


def all_checks() -> tuple[tuple[tuple[str, ...], Check], ...]:
    """Every check with its ids; the modules are loaded at the first call."""
    for subject in _SUBJECTS:
        import_module(f"nodeprep.audit.checks.{subject}")
    return tuple(_CHECKS)
