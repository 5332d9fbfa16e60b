"""The documents of `plan`, apart from the others so that it starts without their types."""

from __future__ import annotations

from nodeprep.model.base import Document
from nodeprep.model.memory import MemoryPlan, SweepRow


class PlanReport(MemoryPlan, frozen=True, kw_only=True):
    """What `plan` prints: the memory plan itself, with the head of a document.

    The head is declared once more, since a struct has one line of ancestors.
    """

    schema: str
    tool_version: str
    boot_id: str | None
    collected_at: str


class SweepReport(Document, frozen=True):
    """What `plan --sweep` prints."""

    model: str
    gpu: str
    vllm_version: str
    axes: dict[str, tuple[str, ...]]
    rows: tuple[SweepRow, ...]
