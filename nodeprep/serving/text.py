"""Text on its way into a file: what is refused, and how the rest is written; pure.

One rule for all destinations: a character that cannot be printed (line ends, controls, marks that
turn the reading direction, lone surrogates) is refused, never dropped.  What is left has exactly
one way to be written in each format.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from ipaddress import ip_address

from nodeprep.errors import UsageError
from nodeprep.model.serving import KnobValue

_LONGEST = 4096
_OPTION = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,510}")
_GPU = re.compile(r"[A-Za-z0-9-]{1,64}")
_BAD_IN_PATH = ':,"\\'
_BAD_IN_ENV = "'\"\\"


def shown(text: str) -> str:
    """A hostile text, short and harmless, for a message."""
    return ascii(text[:60]) + ("..." if len(text) > 60 else "")


def printable(text: str, what: str) -> str:
    """The text itself.  Raises UsageError when it is too long or has an unprintable character."""
    if len(text) > _LONGEST:
        raise UsageError(f"{what} has {len(text)} characters", hint=f"at most {_LONGEST}")
    if not text.isprintable():
        raise UsageError(
            f"{what} {shown(text)} holds a character that cannot be printed",
            hint="remove line ends, control characters and invisible marks",
        )
    return text


def argument(text: str, what: str) -> str:
    """A text that a command line takes as one value: not empty, no leading dash."""
    if not printable(text, what) or text != text.strip():
        raise UsageError(f"{what} {shown(text)} is empty or has blanks around it")
    if text.startswith("-"):
        raise UsageError(
            f"{what} {shown(text)} begins with a dash and would be read as an option",
            hint="a path can be written as /full/path",
        )
    return text


def path(text: str, what: str) -> str:
    """An absolute path that every form (mount option, unit, script) can carry."""
    parts = argument(text, what).split("/")
    if not text.startswith("/") or ".." in parts or not any(parts):
        raise UsageError(f"{what} {shown(text)} is not an absolute path", hint="write /full/path")
    if any(one in text for one in _BAD_IN_PATH):
        raise UsageError(
            f'{what} {shown(text)} holds one of : , " \\ which a container mount cannot carry',
            hint="rename it, or reach it through a symbolic link without them",
        )
    return text


def model_name(text: str) -> str:
    """A Hugging Face name, or the absolute path of a folder."""
    argument(text, "model")
    if text.startswith("/"):
        return path(text, "model path")
    if text.startswith(("./", "../", "~")):
        raise UsageError(
            f"model {shown(text)} is a relative path", hint="a service needs the absolute path"
        )
    return text


def option_name(text: str) -> str:
    return _matching(_OPTION, text, "option name")


def variable_name(text: str) -> str:
    return _matching(_VARIABLE, text, "variable name")


def image_name(text: str) -> str:
    return _matching(_IMAGE, text, "image")


def gpu_name(text: str) -> str:
    return _matching(_GPU, text, "GPU UUID")


def _matching(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise UsageError(f"{shown(text)} is not a valid {what}")
    return text


def address(text: str) -> str:
    """An IP address to listen on."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise UsageError(
            f"host address {shown(text)} is not an IP address", hint="use 127.0.0.1 or ::1"
        ) from None


def is_loopback(text: str) -> bool:
    return ip_address(address(text)).is_loopback


def env_value(text: str, name: str) -> str:
    """A value that systemd, docker and compose read alike from an environment file."""
    printable(text, f"variable {name}")
    if text != text.strip() or text.startswith(("#", ";")) or any(c in text for c in _BAD_IN_ENV):
        raise UsageError(
            f"variable {name} {shown(text)} holds a quote, a backslash, or a blank or comment mark "
            "at its edge, which systemd and docker read differently",
            hint="use a value without them",
        )
    return text


def option_value(value: KnobValue, name: str) -> KnobValue:
    """A value of `vllm serve`; text may not be taken for an option."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"option {name}: {value} is not a number")
    if isinstance(value, str) and value:
        return argument(value, f"option {name}")
    return value


def json_scalar(value: KnobValue) -> str:
    """JSON, readable: other letters than ASCII stand as they are."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{value} is not a number")
    return json.dumps(value, ensure_ascii=False)


def yaml_scalar(value: KnobValue) -> str:
    """A YAML scalar that every YAML 1.1 and 1.2 reader takes for the same value.

    Printable text needs no escape but JSON's own.  YAML 1.1 takes an exponent only after a point:
    it reads 1e-05 as text and 1.0e-05 as a number.
    """
    if isinstance(value, str):
        return json_scalar(printable(value, "value"))
    written = json_scalar(value)
    mantissa, mark, exponent = written.partition("e")
    if isinstance(value, float) and mark and "." not in mantissa:
        return f"{mantissa}.0e{exponent}"
    return written


def compose_scalar(value: KnobValue) -> str:
    """A YAML scalar in a compose file, where `$` begins a variable."""
    return yaml_scalar(value.replace("$", "$$") if isinstance(value, str) else value)


def shell_word(value: KnobValue) -> str:
    """One word of a POSIX shell; a comma is quoted too, which in an array looks like a slip."""
    text = printable(str(value), "word")
    quoted = shlex.quote(text)
    return f"'{text}'" if quoted == text and "," in text else quoted


def unit_word(value: KnobValue) -> str:
    """One argument of an Exec line of a unit: quoted, `%` and `$` doubled (systemd.service(5))."""
    text = printable(str(value), "word")
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def unit_text(value: str) -> str:
    """The rest of a line of a unit, where `%` begins a specifier and quotes mean nothing."""
    return printable(value, "text").replace("%", "%%")


def comment(value: str) -> str:
    """One line of a comment in any format; what cannot be printed is shown as `?`."""
    return "".join(one if one.isprintable() else "?" for one in value[:_LONGEST])
