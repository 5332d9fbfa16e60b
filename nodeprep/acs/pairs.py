"""Which GPU pairs are to reach each other without a detour."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodeprep.errors import UsageError
from nodeprep.model.base import Record
from nodeprep.model.groups import group_pairs
from nodeprep.settings import Settings

GROUP = "group"
ALL = "all"
NIC = "nic"
NONE = "none"

_PAIR = re.compile(r"(?:GPU)?(\d{1,4})-(?:GPU)?(\d{1,4})", re.IGNORECASE)
_MAX_TEXT = 4096


class PairChoice(Record, frozen=True):
    """`group`, `all` or a list of pairs, and `nic`, as policy or a person wrote it."""

    mode: str = GROUP
    """`none`: no GPU pair at all."""
    listed: tuple[tuple[int, int], ...] = ()
    """Pairs named one by one; the lower index first."""
    group_size: int | None = None
    """Tensor-parallel size; None: all GPUs of the node are one group."""
    nics: bool = False
    """Each GPU with each network adapter below a common bridge, too."""

    @property
    def explicit(self) -> bool:
        """Somebody named these very pairs: directly attached ones are then wanted too."""
        return bool(self.listed)

    def wanted(self, gpu_count: int) -> tuple[tuple[int, int], ...]:
        """The pairs among GPUs 0..gpu_count-1, each once, in order.

        Tensor-parallel groups are consecutive GPUs: vLLM gives rank r of replica k the GPU
        k * size + r.  GPUs left over at the end form no group.  Raises UsageError for a GPU that
        is not there.
        """
        if self.explicit:
            missing = sorted({gpu for pair in self.listed for gpu in pair if gpu >= gpu_count})
            if missing:
                raise UsageError(
                    f"there is no GPU{missing[0]}: this node has {gpu_count}",
                    hint="indices are those of nvidia-smi, from 0",
                )
            return self.listed
        if self.mode == NONE:
            return ()
        return group_pairs(gpu_count, None if self.mode == ALL else self.group_size)


def parse_pairs(text: str, *, group_size: int | None = None) -> PairChoice:
    """A choice from `group`, `all` or a list, `0-1,0-2`; and `nic`. Raises UsageError."""
    parts = [part.strip() for part in text[:_MAX_TEXT].lower().split(",")]
    nics = NIC in parts
    parts = [part for part in parts if part != NIC]
    if parts in ([GROUP], [ALL], []):
        mode = parts[0] if parts else NONE
        return PairChoice(mode=mode, group_size=group_size, nics=nics)
    return PairChoice(mode="list", listed=_listed(parts), nics=nics)


def pair_choice(settings: Settings, text: str | None = None) -> PairChoice:
    """The pairs asked for on the command line, else by the configuration. Raises UsageError."""
    size = settings.serving.tensor_parallel
    return parse_pairs(text or settings.acs.pairs, group_size=size)


def _listed(parts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    listed = set()
    for part in parts:
        match = _PAIR.fullmatch(part)
        if match is None or int(match[1]) == int(match[2]):
            raise UsageError(
                f"not a choice of pairs: {part[:40]!r}",
                hint="write group, all, or a list of different GPUs such as 0-1,0-2; and nic for "
                "GPUs and network adapters",
            )
        low, high = sorted((int(match[1]), int(match[2])))
        listed.add((low, high))
    return tuple(sorted(listed))


def pair_label(a: int, b: int) -> str:
    """`GPU0-GPU1`."""
    return f"GPU{a}-GPU{b}"
