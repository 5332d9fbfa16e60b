"""Which release of vLLM each server is judged by, and where that was found; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from nodeprep.errors import UsageError
from nodeprep.lint.naming import names
from nodeprep.model.base import Record
from nodeprep.model.launch import Form, Launch, LaunchText
from nodeprep.serving import flags

_TAG = re.compile(r"[^:/@]*?v?(0\.\d{1,4}\.\d{1,4}(?:\.post\d{1,3}|rc\d{1,3})?)(?![\d.])")
_NEWEST = ("", "latest", "stable")
"""Tags that stand for the newest release."""

Texts = Sequence[tuple[str, LaunchText]]


class Release(Record, frozen=True):
    """A release, as it was named."""

    version: str
    source: str
    why_not: str | None = None
    """Why nothing is known of it here; None: it can be judged."""


def newest() -> Release:
    return Release(
        version=flags.newest(),
        source="the newest release known here; name another with --vllm-version",
    )


def asked_for(version: str) -> Release:
    """The release that the user names.  Raises UsageError for what is no version."""
    flags.release_of(version)
    return _named(version.strip().removeprefix("v"), "as asked")


def release_of(path: str, launch: Launch, texts: Texts) -> Release:
    """What its image says; else the files that it names, or that name it; else the newest."""
    own = tagged(path, launch)
    if own is not None:
        return own
    found = [
        one
        for other_path, text in texts
        for other in text.launches
        if _belong(path, launch, other_path, other)
        and (one := tagged(other_path, other)) is not None
    ]
    known = [one for one in found if one.why_not is None]
    if found:
        return (known or found)[0]
    text = next((text for name, text in texts if name == path), None)
    head = None if text is None else _head(path, text)
    return head or newest()


def tagged(path: str, launch: Launch) -> Release | None:
    """What the image says; None: no image, or one that a variable or a digest alone names."""
    image = launch.container.image if launch.container is not None else None
    name, _, digest = (image or "").partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if not name or "$" in name or (digest and not tag):
        return None
    if tag in _NEWEST:
        return newest()
    version, source = release_in(tag), f"the image's tag in {path}"
    return _unknown(tag[:80], source) if version is None else _named(version, source)


def release_in(tag: str) -> str | None:
    """The release in an image's tag: `v0.11.2-cu129` names 0.11.2."""
    match = _TAG.match(tag)
    return None if match is None else match[1]


def most_of(found: Sequence[Release], texts: Texts) -> Release:
    """The release that most servers have; for texts without a server what their heads say."""
    if not found:
        heads = (_head(path, text) for path, text in texts)
        return next((one for one in heads if one is not None), newest())
    return Counter(found).most_common(1)[0][0]


def _head(path: str, text: LaunchText) -> Release | None:
    if text.rendered_version is None:
        return None
    found = _named(text.rendered_version, f"the head of {path}")
    return found if found.why_not is None else None


def _named(version: str, source: str) -> Release:
    try:
        flags.release_of(version)
    except UsageError:
        return _unknown(version, source)
    try:
        flags.neighbours(version)
    except UsageError:
        why = f"vLLM {version} is older than the oldest release known here, {flags.versions()[0]}"
        return Release(version=version, source=source, why_not=why)
    return Release(version=version, source=source)


def _unknown(version: str, source: str) -> Release:
    return Release(version=version, source=source, why_not=f"{version} names no release known here")


def _belong(path: str, launch: Launch, other_path: str, other: Launch) -> bool:
    """Whether two are about one server: in one file, one names the other, or of one model."""
    if other is launch:
        return False
    if names(other, path, launch) or names(launch, other_path, other):
        return True
    parts = (Form.YAML, Form.JSON)
    if launch.form in parts and launch.model is not None and launch.model == other.model:
        return True
    return path == other_path
