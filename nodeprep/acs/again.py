"""Writing again what came back: whether it may be done, for the re-apply unit and for `watch`."""

from __future__ import annotations

from nodeprep.errors import StateError, UsageError
from nodeprep.model.acs import AcsState
from nodeprep.model.facts import NodeFacts
from nodeprep.settings import AcsPolicy
from nodeprep.state import StateStore

_POLICIES = ("idle", "always", "never")


def hands_off(policy: AcsPolicy, facts: NodeFacts, store: StateStore) -> str | None:
    """Why nothing is written again, whatever the registers say; None: it may be.

    Somebody who restored the originals in this boot wanted them: nothing is cleared again until
    `acs apply` is called by hand, or until the next boot.  Raises UsageError for a policy that
    does not exist.
    """
    if policy.reapply not in _POLICIES:
        raise UsageError(
            f"acs.reapply = {policy.reapply[:40]!r} is no policy",
            hint="write idle, always or never",
        )
    if policy.reapply == "never":
        return "acs.reapply is never: what came back is only reported"
    if _restored_in_this_boot(facts, store):
        return "the originals were restored in this boot: nothing is written again until it ends"
    return None


def may_write_in_use(policy: AcsPolicy) -> bool:
    """Whether re-applying goes on while processes use the GPUs."""
    return policy.reapply == "always"


def saved_in_this_boot(facts: NodeFacts, store: StateStore) -> AcsState | None:
    """What was saved before the first write of this boot; None as well where it cannot be read."""
    try:
        saved = store.load_acs()
    except StateError:
        return None
    return saved if saved is not None and saved.boot_id == facts.boot_id else None


def _restored_in_this_boot(facts: NodeFacts, store: StateStore) -> bool:
    if saved_in_this_boot(facts, store) is not None:
        return False
    retired = store.load_retired_acs()
    return retired is not None and facts.boot_id is not None and retired.boot_id == facts.boot_id
