"""The flags of `vllm serve`, release by release: what exists, what it takes, what replaced it.

The table is data/flags.json, made by scripts/vllm-flags.  A release that is not in it takes what
its two neighbours agree on; one newer than the table takes the newest row.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from nodeprep.errors import UsageError
from nodeprep.model.base import Record
from nodeprep.model.serving import KnobValue

_TABLE = Path(__file__).resolve().parent / "data" / "flags.json"
_RELEASE = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[.\-_+]?[a-z0-9.+\-_]*)", re.I)
_HUMAN_INT = re.compile(r"\d+(?:\.\d+)?[kmgt]?", re.I)

Release = tuple[int, int, int]


class FlagSpec(Record, frozen=True):
    """One flag as one release has it."""

    name: str
    """Without leading dashes: `max-model-len`."""
    kind: str
    """`switch` (present or not), `toggle` (has a negative), `boolean` (takes =True or =False),
    `int`, `human-int` (4k, 4K), `human-int-or-auto`, `float`, `text`, `json`, or `scalar`: a value
    that the parser hands on unchecked."""
    first: str
    last: str
    """The range of releases in which the flag has this very form."""
    choices: tuple[str, ...] = ()
    default: str | None = None
    """As the parser prints it; None: none, or the engine decides."""
    negative: str | None = None
    """The spelling that switches a toggle off."""
    aliases: tuple[str, ...] = ()
    nullable: bool = False
    """The parser takes the text None for "not given"."""


class FlagHistory(Record, frozen=True):
    """When a flag lived, and what took its place."""

    name: str
    first: str
    last: str
    removed_after: str | None
    """None: the newest release still has it."""
    successor: str | None


class _Row(msgspec.Struct, frozen=True):
    first: str
    last: str
    kind: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    negative: str | None = None
    aliases: tuple[str, ...] = ()
    nullable: bool = False


class _Table(msgspec.Struct, frozen=True):
    about: str
    source: tuple[str, ...]
    releases: tuple[str, ...]
    env_releases: tuple[str, ...]
    flags: dict[str, tuple[_Row, ...]]
    env: dict[str, tuple[tuple[str, str], ...]]
    successors: dict[str, str]


_ABBREVIATES_FROM = 4


@cache
def _table() -> _Table:
    return msgspec.json.decode(_TABLE.read_bytes(), type=_Table)


@cache
def _names() -> dict[str, str]:
    """Every spelling (own name, negative, alias) -> the flag's name."""
    spellings: dict[str, str] = {}
    for name, rows in _table().flags.items():
        for row in rows:
            others = [*row.aliases, *([row.negative] if row.negative else [])]
            if row.kind == "toggle":
                others.append(f"no-{name}")  # 0.33.0 hides this spelling and still accepts it
            for spelling in others:
                spellings.setdefault(spelling, name)
    return spellings | {name: name for name in _table().flags}


@lru_cache(maxsize=1024)
def release_of(version: str) -> Release:
    """The release a version follows: `v0.11.0.post2+cu128` is (0, 11, 0).  Raises UsageError."""
    match = _RELEASE.fullmatch(version.strip())
    if match is None:
        raise UsageError(
            f"{version[:40]!r} is not a vLLM version", hint=f"known: {', '.join(versions())}"
        )
    return int(match[1]), int(match[2]), int(match[3] or 0)


def at_least(version: str, first: str) -> bool:
    return release_of(version) >= release_of(first)


def versions() -> tuple[str, ...]:
    """The releases of the table, oldest first."""
    return _table().releases


def newest() -> str:
    return versions()[-1]


def is_known(version: str) -> bool:
    """Whether the very release is in the table."""
    return release_of(version) in {release_of(one) for one in versions()}


def neighbours(version: str, releases: tuple[str, ...] | None = None) -> tuple[str, str]:
    """The known releases at or around a version: equal when it is known or newer than all.

    Raises UsageError for a version older than the table.
    """
    known = versions() if releases is None else releases
    wanted = release_of(version)
    below = [one for one in known if release_of(one) <= wanted]
    above = [one for one in known if release_of(one) >= wanted]
    if not below:
        raise UsageError(
            f"vLLM {version} is older than the oldest release known here, {known[0]}",
            hint=f"known: {', '.join(known)}",
        )
    return below[-1], above[0] if above else below[-1]


def canonical(name: str) -> str:
    """A flag's own name for any spelling: `--max_model_len`, `-tp`, `no-enable-prefix-caching`."""
    plain = name.lstrip("-").replace("_", "-")
    return _names().get(plain, plain)


def is_negative(name: str, version: str) -> bool:
    """Whether a spelling switches its flag off."""
    plain = name.lstrip("-").replace("_", "-")
    spec = flag(plain, version)
    return spec is not None and plain != spec.name and plain in (spec.negative, f"no-{spec.name}")


def meant(name: str, value: KnobValue, version: str) -> tuple[str, KnobValue | None]:
    """An option under its flag's own name: `no-x: true` is `x: false`.

    None for a negative that is not true: a file that says `no-x: false` says nothing.
    """
    if not is_negative(name, version):
        return canonical(name), value
    return canonical(name), False if value is True else None


def flag(name: str, version: str) -> FlagSpec | None:
    """The flag as that release has it; None when it does not have it.

    Between two known releases the flag must be in both, and choices are those of both.
    """
    low, high = neighbours(version)
    own = canonical(name)
    before, after = _at(own, low), _at(own, high)
    if before is None or after is None:
        return None
    choices = before.choices
    if low != high:
        choices = tuple(one for one in before.choices if not after.choices or one in after.choices)
    return FlagSpec(
        name=own,
        kind=before.kind,
        first=before.first,
        last=before.last,
        choices=choices or after.choices,
        default=before.default,
        negative=before.negative,
        aliases=before.aliases,
        nullable=before.nullable and after.nullable,
    )


def _at(name: str, release: str) -> _Row | None:
    place = versions().index(release)
    for row in _table().flags.get(name, ()):
        if versions().index(row.first) <= place <= versions().index(row.last):
            return row
    return None


def history(name: str) -> FlagHistory | None:
    """When a flag lived; None for a name no release has had."""
    own = canonical(name)
    rows = _table().flags.get(own)
    if not rows:
        return None
    last = rows[-1].last
    return FlagHistory(
        name=own,
        first=rows[0].first,
        last=last,
        removed_after=None if last == newest() else last,
        successor=_table().successors.get(own),
    )


def absence(name: str, version: str) -> str:
    """Why a release does not have a flag, and what to use: one sentence for a person."""
    lived = history(name)
    if lived is None:
        near = nearest(name, version) or nearest(name, None, 1)
        return "no release has it" + (f"; did you mean {', '.join(near)}?" if near else "")
    if release_of(version) < release_of(lived.first):
        return f"it came with {lived.first}"
    if lived.removed_after is None or release_of(version) <= release_of(lived.removed_after):
        return f"it is not in every release between {' and '.join(neighbours(version))}"
    instead = f"; {lived.successor} took its place" if lived.successor else ""
    return f"it was removed after {lived.removed_after}{instead}"


def nearest(name: str, version: str | None, count: int = 3) -> tuple[str, ...]:
    """Flags of that release (None: of any) with a similar name, best first."""
    plain = name.lstrip("-").replace("_", "-")[:80]
    known = [one for one in _table().flags if version is None or flag(one, version) is not None]
    return tuple(get_close_matches(plain, known, n=count))


def in_one_neighbour(name: str, version: str) -> tuple[str, str] | None:
    """The known release that has the flag and the one that has not, where the version lies between
    two that differ; None: it can be told."""
    low, high = neighbours(version)
    own = canonical(name)
    before, after = _at(own, low), _at(own, high)
    if (before is None) == (after is None):
        return None
    return (low, high) if after is None else (high, low)


def abbreviated(name: str, version: str) -> str | None:
    """The one flag of that release that begins so, as argparse reads it; None: no flag, several."""
    if len(name.lstrip("-")) < _ABBREVIATES_FROM:
        return None
    found = beginning_with(name, version)
    return found[0] if len(found) == 1 else None


def beginning_with(text: str, version: str) -> tuple[str, ...]:
    """Flags of that release whose name begins with a text: what argparse takes as abbreviation."""
    plain = text.lstrip("-").replace("_", "-")
    return tuple(
        one for one in _table().flags if one.startswith(plain) and flag(one, version) is not None
    )


@cache
def spellings() -> dict[str, bool]:
    """Every spelling of every flag -> whether a value follows it on a command line in some release.

    A flag that takes only true or false counts as one without a value.
    """
    table = _table().flags
    bare = ("switch", "toggle", "boolean")
    takes = {name: any(row.kind not in bare for row in rows) for name, rows in table.items()}
    return {spelling: takes[name] for spelling, name in _names().items()}


def env_nearest(name: str) -> tuple[str, ...]:
    """VLLM_ variables of any release that a name may be a slip of, best first.

    Every word between the underscores is the same, or differs by a slip of a long word: a short
    one (TP, DP) means another thing.
    """
    near = get_close_matches(name[:80], _table().env, n=6, cutoff=0.8)
    return tuple(one for one in near if _is_slip(name, one))[:2]


def _is_slip(name: str, known: str) -> bool:
    ours, theirs = name.split("_"), known.split("_")
    if "".join(ours) == "".join(theirs):
        return True
    return len(ours) == len(theirs) and all(
        a == b or (min(len(a), len(b)) > 3 and _distance(a, b) <= (1 if len(b) < 6 else 2))
        for a, b in zip(ours, theirs, strict=True)
    )


def _distance(a: str, b: str) -> int:
    """Letters to add, drop or change to get from one word to the other (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]


def env_lived(name: str) -> tuple[str, str] | None:
    """First and last release that was read and has the variable."""
    spans = _table().env.get(name)
    return (spans[0][0], spans[-1][1]) if spans else None


def env_known(name: str, version: str) -> bool | None:
    """Whether a release's envs.py defines a VLLM_ variable.

    None: not known.  Only some releases were read; between a release that has the variable and one
    that has not, nobody looked.
    """
    table = _table()
    try:
        low, high = neighbours(version, table.env_releases)
    except UsageError:
        return None
    spans = table.env.get(name, ())
    seen = [any(_between(one, first, last) for first, last in spans) for one in (low, high)]
    return seen[0] if seen[0] == seen[1] else None


def _between(version: str, first: str, last: str) -> bool:
    return release_of(first) <= release_of(version) <= release_of(last)


def check_value(spec: FlagSpec, value: KnobValue) -> str | None:
    """What is wrong with a value for a flag, in one sentence; None when nothing is."""
    problem = _kind_problem(spec, value)
    if problem is not None:
        return problem
    if spec.choices and not isinstance(value, bool) and str(value) not in spec.choices:
        return f"{value!r} is none of {', '.join(spec.choices)}"
    return None


def _kind_problem(spec: FlagSpec, value: KnobValue) -> str | None:
    if spec.kind == "switch":
        return None if value is True else "it is a switch: true, or left out"
    if spec.kind in ("toggle", "boolean"):
        return None if isinstance(value, bool) else "it takes true or false"
    if isinstance(value, bool):
        return "it takes a value, not true or false"
    if spec.kind == "int":
        return None if isinstance(value, int) else "it takes a whole number"
    if spec.kind == "float":
        return None if isinstance(value, (int, float)) else "it takes a number"
    if spec.kind.startswith("human-int"):
        return None if _is_human_int(spec.kind, value) else "it takes a whole number, 4k or 4K"
    if spec.kind == "json":
        return None if isinstance(value, str) and _is_json(value) else "it takes JSON text"
    return None


def _is_human_int(kind: str, value: KnobValue) -> bool:
    if isinstance(value, int):
        return value > 0 or (value == -1 and kind.endswith("auto"))
    if isinstance(value, str):
        return bool(_HUMAN_INT.fullmatch(value)) or (value == "auto" and kind.endswith("auto"))
    return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
