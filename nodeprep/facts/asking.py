"""Questions whose missing answer is simply not known."""

from __future__ import annotations

from nodeprep.errors import HostError
from nodeprep.host.base import Host


def text_or_none(host: Host, path: str) -> str | None:
    """A small text file, stripped."""
    try:
        return host.read_text(path).strip()
    except HostError:
        return None


def names_or_none(host: Host, path: str) -> tuple[str, ...] | None:
    """What a directory holds."""
    try:
        return host.list_dir(path)
    except HostError:
        return None


def link_name_or_none(host: Host, path: str) -> str | None:
    """The last part of where a link points: sysfs names drivers and groups that way."""
    try:
        return host.read_link(path).rpartition("/")[2] or None
    except HostError:
        return None


def number_or_none(text: str | None, base: int = 10) -> int | None:
    """A whole number, or None for anything else; a longer one than 64 bits hold is no answer."""
    try:
        number = None if text is None else int(text, base)
    except ValueError:
        return None
    return number if number is not None and number.bit_length() <= 64 else None
