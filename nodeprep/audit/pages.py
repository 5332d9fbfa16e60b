"""The page of each finding: what it means, its cause, its remedy, what not to do."""

from __future__ import annotations

from difflib import get_close_matches

from nodeprep.errors import UsageError
from nodeprep.resources import shipped


def page_ids() -> tuple[str, ...]:
    """Ids that have a page."""
    return tuple(sorted(path.stem for path in shipped("docs/findings").glob("*.md")))


def page(finding_id: str) -> str:
    """The page of one finding. Raises UsageError with the nearest id."""
    ids = page_ids()
    if finding_id not in ids:
        near = get_close_matches(finding_id, ids, n=1)
        hint = f"did you mean {near[0]}?" if near else "see the ids in: nodeprep audit"
        raise UsageError(f"no finding {finding_id[:60]!r}", hint=hint)
    return (shipped("docs/findings") / f"{finding_id}.md").read_text(encoding="utf-8")
