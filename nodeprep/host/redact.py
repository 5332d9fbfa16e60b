"""What a stranger must not learn from a snapshot: one stand-in for each value, the same everywhere.

Stand-ins keep the shape of what they replace (a UUID stays a UUID, an address an address of the
documentation ranges), so that every parser reads a redacted snapshot like the original.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from nodeprep.model.secret import BY_BEGINNING, BY_PLACE
from nodeprep.model.snapshot import RecordedFile, Snapshot

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_HEX_BYTE = r"[0-9a-f]{2}"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV6 = (
    r"(?<![\w:.])(?=(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:.]))(?=[0-9a-f:]*[0-9a-f]{3})"
    r"(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"
    r"|(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}|(?:[0-9a-f]{1,4}:){1,7}:|::[0-9a-f:]{1,39})"
)

Make = Callable[[int], str]
_RULES: tuple[tuple[str, re.Pattern[str], Make], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE), make)
    for name, pattern, make in (
        (
            "secret",
            BY_BEGINNING,
            lambda n: f"redacted-token-{n}",
        ),
        (
            "key",
            BY_PLACE,
            lambda n: f"redacted-secret-{n}",
        ),
        ("uuid", rf"\b{_UUID}\b", lambda n: f"00000000-0000-4000-8000-{n:012x}"),
        (
            "serial",
            rf"(?<=Device Serial Number )(?:{_HEX_BYTE}-){{7}}{_HEX_BYTE}",
            lambda n: "-".join(re.findall("..", f"{n:016x}")),
        ),
        ("serial", r"(?<=\[SN\] Serial number: )\S.*", lambda n: f"redacted-serial-{n}"),
        (
            "serial",
            r"(?:(?<=Serial Number)|(?<=SerialNumber)|(?<=Part Number)|(?<=GPU UUID)|(?<=GPU PDI)"
            r"|(?<=GUID))[ \t]{0,60}[:=][ \t]{0,60}(?!N/A|redacted)\S+",
            lambda n: f": redacted-serial-{n}",
        ),
        (
            "mac",
            rf"(?<![\w:.-]){_HEX_BYTE}(?:(?::{_HEX_BYTE}){{5}}|(?:-{_HEX_BYTE}){{5}})(?![\w:-])",
            lambda n: f"02:00:00:00:{n >> 8 & 0xFF:02x}:{n & 0xFF:02x}",
        ),
        ("ipv6", _IPV6, lambda n: f"2001:db8::{n:x}"),
        (
            "ipv4",
            rf"(?<![\w.-]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w-]|\.\d)",
            lambda n: f"192.0.2.{n % 256}",
        ),
        ("user", r"(?<=/home/)[^/\s\"':]+|(?<=/Users/)[^/\s\"':]+", lambda n: f"user{n}"),
        (
            "mail",
            r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b",
            lambda n: f"user{n}@example.org",
        ),
    )
)
_PEM = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).{0,20000}?"
    r"(-----END [A-Z ]{0,40}PRIVATE KEY-----|$)",
    re.DOTALL,
)
_OPTION = re.compile(
    r"(?P<name>--[\w-]{0,40}(?:key|token|secret|passw(?:or)?d)[ \t]{1,4}[\"']?)"
    r"(?P<value>[^\s\"'-][^\s\"']{0,400})",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"(?P<name>\b[\w.-]{0,40}(?:key|token|secret|passw(?:or)?d|passphrase|credentials?)s?[\"']?"
    r"[ \t]{0,8}[=:][ \t]{0,8}[\"']?)(?P<value>[^\s\"'&,;]{1,400})",
    re.IGNORECASE,
)
"""A name that speaks of a secret, its sign of assignment, and the value."""
_NO_SECRET = frozenset(("none", "true", "false", "null", "n/a", "0", "1", "enabled", "disabled"))
_HARMLESS = re.compile(
    r"0\.0\.0\.0|127\.\d+\.\d+\.\d+|255(?:\.255){3}|192\.0\.2\.\d+|::1?|2001:db8::.*"
    r"|00000000-0000-[04]000-[08]000-.*"
)


_NAMES = ("/proc/sys/kernel/hostname", "/etc/hostname")


class Redactor:
    """Remembers every value it replaced, so that equal values stay equal."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """names: words to hide wherever they stand alone: host names, user names."""
        self._stand_ins: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        words = sorted({name for name in names if len(name) > 2}, key=len, reverse=True)
        self._names = (
            re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])", re.IGNORECASE)
            if words
            else None
        )

    def text(self, text: str) -> str:
        """The text with every private value replaced."""
        text = _PEM.sub(r"\1 redacted-key \2", text)
        text = _OPTION.sub(self._assigned, text)
        text = _ASSIGNED.sub(self._assigned, text)
        for kind, pattern, make in _RULES:
            text = pattern.sub(partial(self._stand_in, kind, make), text)
        if self._names is not None:
            text = self._names.sub(partial(self._stand_in, "name", "host{}".format), text)
        return text

    def any(self, value: Any) -> Any:
        """The same for everything in a value made of JSON's types, names of members included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (list, tuple)):
            return [self.any(item) for item in value]
        if isinstance(value, dict):
            return {self.any(key): self.any(item) for key, item in value.items()}
        return value

    def _assigned(self, match: re.Match[str]) -> str:
        """`API_KEY = "..."` with the value replaced and everything around it kept."""
        value = match["value"].lower()
        if value in _NO_SECRET or value.startswith("redacted-") or value.isdecimal():
            return match[0]
        return match["name"] + self._for("key", match["value"], "redacted-secret-{}".format)

    def _stand_in(self, kind: str, make: Make, match: re.Match[str]) -> str:
        return self._for(kind, match[0], make)

    def _for(self, kind: str, value: str, make: Make) -> str:
        if _HARMLESS.fullmatch(value.lower()):
            return value
        key = (kind, value.lower())
        if key not in self._stand_ins:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._stand_ins[key] = make(self._counts[kind])
        return self._stand_ins[key]


def redact(snapshot: Snapshot) -> Snapshot:
    """The snapshot without serials, UUIDs, host names, MACs, IPs, user names and tokens."""
    redactor = Redactor(_host_names(snapshot))
    hidden = redactor.any(msgspec.to_builtins(snapshot))
    converted = msgspec.convert(hidden, type=Snapshot)
    # A name too short to be hidden wherever it stands is still hidden where it is told.
    nameless = {path: RecordedFile(text="host") for path in _NAMES if path in converted.files}
    return replace(converted, redacted=True, files=converted.files | nameless)


def _host_names(snapshot: Snapshot) -> Iterable[str]:
    """The node's own name, whole and without its domain."""
    for path in _NAMES:
        file = snapshot.files.get(path)
        if file is not None and file.text:
            name = file.text.strip()
            yield name
            yield name.partition(".")[0]
