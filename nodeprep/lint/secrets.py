"""What is a secret in a launch, and texts without it; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nodeprep.model.finding import Evidence, Finding, Remedy, Unknown
from nodeprep.model.launch import Given, Launch
from nodeprep.model.secret import BY_BEGINNING, BY_PLACE
from nodeprep.model.serving import KnobValue
from nodeprep.serving import flags

HIDDEN = "(not shown)"

_OPTIONS = ("api-key", "hf-token")
"""The options of vLLM that take a secret (entrypoints/common/startup.py of 0.33.0)."""
_OTHER_OPTION = re.compile(
    r"(?:^|-)(?:key|token|secret|pass(?:word|wd|phrase)?|auth|bearer|credential)s?$"
)
_VARIABLE = re.compile(
    r"TOKENS?$|SECRET|PASSW|PASSPHRASE|KEYS?$|CREDENTIAL|BEARER|(?:^|_)(?:AUTH|PASS|PW)$",
    re.IGNORECASE,
)
_BY_NAME = re.compile(
    r"((?<![a-z0-9])[a-z0-9_-]*(?:api[_-]?key|token|secret|passw(?:or)?d|passphrase|auth[_-]?key"
    r"|access[_-]?key|bearer|credential)[\"']?\s{0,4}[=:]\s{0,4}[\"']?)([^\s\"',;&}]{3,})",
    re.IGNORECASE,
)
"""`NAME=value` and `"name": "value"` wherever they stand, a mistake in the command included."""
_PLACEHOLDER = re.compile(
    r"<.*>|\{\{.*\}\}|\[[A-Z _-]*\]|.*(?:\*{3,}|\.{3,}|\u2026|<[\w -]+>)|\.{3}.*"
    r"|(?:[\w-]*[-_ ])?x{2,}|(?:[\w-]*[-_ ])?(?:your|my)[-_ ]?[\w -]*(?:key|token|secret|here)\w*"
    r"|change[-_ ]?me\w*|replace[-_ ]?\w*|insert[-_ ]?\w*|todo|fixme|placeholder|dummy",
    re.IGNORECASE,
)
_SHAPES = re.compile(f"{BY_BEGINNING}|{BY_PLACE}", re.IGNORECASE)
_PATHS = ("/", "./", "../", "~")
_EMPTY = ("", "none", "null", "true", "false")
_SURELY = 8
"""From this length on a value is hidden wherever it stands; a shorter one may be a common word."""
_SHORTEST = 4


def option_is_secret(name: str) -> bool:
    """Whether an option of that name carries a secret, known to vLLM or not.

    The name as it was written, whatever follows in the same word.
    """
    plain = first_word(name).lstrip("-").replace("_", "-").lower()
    if plain.startswith(_OPTIONS) or flags.canonical(plain) in _OPTIONS:
        return True
    if flags.abbreviated(plain, flags.newest()) in _OPTIONS:
        return True
    return flags.history(plain) is None and _OTHER_OPTION.search(plain) is not None


def variable_is_secret(name: str) -> bool:
    return _VARIABLE.search(name) is not None


def first_word(name: str) -> str:
    """The option's own name where a word holds a blank and more: `--api-key` of `--api-key x`."""
    return (name.split(None, 1) or [""])[0]


def is_placeholder(value: str) -> bool:
    """Whether a text only says where the secret goes: `<key>`, `hf_xxxx`, `your-key-here`."""
    return _PLACEHOLDER.fullmatch(value.strip()) is not None


def is_in_clear(value: KnobValue | None) -> bool:
    """Whether the secret itself stands there: no variable, placeholder, path or nothing."""
    if value is None or isinstance(value, bool):
        return False
    text = str(value).strip()
    return (
        text.lower() not in _EMPTY
        and not text.startswith(("$", *_PATHS))
        and not is_placeholder(text)
    )


def shown_value(given: Given) -> str:
    """The value of an option for a text, `null` and `true` as YAML has them."""
    value = given.value
    if option_is_secret(given.name) and not isinstance(value, bool) and value is not None:
        return HIDDEN
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def shown(given: Given) -> str:
    """An option as evidence: as it was written, without the value of a secret."""
    if option_is_secret(given.name):
        bare = given.value is True and first_word(given.name) == given.name
        return first_word(given.name) if bare else f"{first_word(given.name)} {HIDDEN}"
    return given.name if given.value is True else f"{given.name} {shown_value(given)}"[:200]


def shown_variable(name: str, value: str) -> str:
    return HIDDEN if variable_is_secret(name) else value[:120]


class Hider:
    """Takes the secrets of all texts out of whatever is said about any of them."""

    def __init__(self, launches: Iterable[Launch]) -> None:
        words = {word for launch in launches for word in _secret_words(launch)}
        longest_first = sorted(words, key=lambda word: (-len(word), word))
        self._words = (
            re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")
            if longest_first
            else None
        )

    def text(self, text: str) -> str:
        if self._words is not None:
            text = self._words.sub(HIDDEN, text)
        text = _BY_NAME.sub(_without_value, text)
        return _SHAPES.sub(HIDDEN, text)

    def finding(self, finding: Finding) -> Finding:
        remedy = finding.remedy
        return replace(
            finding,
            subject=self.text(finding.subject),
            summary=self.text(finding.summary),
            cause=self.text(finding.cause),
            evidence=tuple(
                Evidence(source=one.source, text=self.text(one.text)) for one in finding.evidence
            ),
            remedy=remedy and Remedy(text=self.text(remedy.text), commands=remedy.commands),
        )

    def unknown(self, unknown: Unknown) -> Unknown:
        return replace(
            unknown,
            subject=self.text(unknown.subject),
            reason=self.text(unknown.reason),
            hint=self.text(unknown.hint),
        )


def _without_value(match: re.Match[str]) -> str:
    open_value = match[2].startswith(("$", "(not", "<")) or is_placeholder(match[2])
    return match[0] if open_value else f"{match[1]}{HIDDEN}"


def _secret_words(launch: Launch) -> Iterator[str]:
    """Every value, and every word of a value, that is to be hidden wherever it stands."""
    values = [
        text for given in launch.options if option_is_secret(given.name) for text in _values(given)
    ]
    values += [one.value or "" for one in launch.env if variable_is_secret(one.name)]
    for value in values:
        for word in (value, *value.split()):
            if is_in_clear(word) and _is_distinct(word):
                yield word


def _values(given: Given) -> Iterator[str]:
    """What stands for the value: behind the name in its own word, and behind that word."""
    behind = given.name[len(first_word(given.name)) :].strip()
    after = "" if given.value is None or isinstance(given.value, bool) else str(given.value)
    yield behind
    yield after
    if behind and after:
        yield f"{behind}={after}"


def _is_distinct(word: str) -> bool:
    mixed = any(one.isdigit() for one in word) and any(one.isalpha() for one in word)
    return len(word) >= _SURELY or (len(word) >= _SHORTEST and mixed)
