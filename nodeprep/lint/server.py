"""One server as the rules see it: release, options under their own names, variables; pure."""

from __future__ import annotations

import math

from nodeprep.lint.ranges import is_unresolved, range_problem
from nodeprep.model.base import Record
from nodeprep.model.launch import Container, Form, Given, Launch
from nodeprep.model.serving import KnobValue
from nodeprep.serving import flags
from nodeprep.serving.architecture import Capability

_FILES = (Form.YAML, Form.JSON)
_ARGUMENTS = ("$@", "$*", "${@", "${*")


def place_of(path: str, line: int | None) -> str:
    """Where in a file, as findings name it: `path:line`, or `path`."""
    return f"{path}:{line}" if line else path


class Node(Record, frozen=True):
    """The GPUs the server is meant for; every part may be unknown."""

    gpu: str | None = None
    count: int | None = None
    memory_gib: float | None = None
    capability: Capability | None = None
    nvlink: bool | None = None
    """Whether all pairs are joined by NVLink."""


class Option(Record, frozen=True):
    """One option under its flag's own name, with the value that the engine would get."""

    given: Given
    name: str
    value: KnobValue | None
    spec: flags.FlagSpec | None
    from_file: bool = False
    """It stands in a file that vLLM itself reads."""


class Server(Record, frozen=True):
    path: str
    launch: Launch
    version: str
    """As it was named; where `release_known` is false it may be no release at all."""
    options: dict[str, Option]
    env: dict[str, str]
    node: Node = Node()
    complete: bool = True
    """False for a file that is only one part of what starts the server."""
    rendered: bool = False
    """nodeprep wrote the file, which leaves out the P2P test only behind a passed gate."""
    key_may_be_elsewhere: bool = False
    """It reads files that were not given here, which may hold the key."""
    config_missing: bool = False
    """The file of its --config was not given here."""
    missing_files: tuple[str, ...] = ()
    """Its files of variables that were not given here; `-` before one that may be missing."""
    release_known: bool = True
    """False: the flag table says nothing of `version`, only rules of every release may be asked."""

    @property
    def release(self) -> flags.Release:
        return flags.release_of(self.version)

    @property
    def is_file(self) -> bool:
        return self.launch.form in _FILES

    @property
    def container(self) -> Container | None:
        return self.launch.container

    @property
    def name(self) -> str:
        """For the reader: the form and where it begins."""
        return f"{self.launch.form.value} in {self.place(self.launch.line)}"

    def place(self, line: int | None) -> str:
        return place_of(self.path, line)

    def value(self, name: str) -> KnobValue | None:
        option = self.options.get(name)
        return None if option is None else option.value

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number, `4k` and `4K` included; None: not given and no default."""
        value = self.value(name)
        if isinstance(value, str):
            return human_int(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value) if math.isfinite(value) else default
        return default

    def unresolved(self, *names: str) -> tuple[str, ...]:
        """Those options whose value is a variable that the text does not give.

        A variable that may stand for any options is among them, where one of `names` is not given.
        """
        found = [
            name for name in names or tuple(self.options) if self.is_open(self.options.get(name))
        ]
        if any(name not in self.options for name in names):
            # A script that is called without arguments hands none on.
            found += [word for word, _ in self.launch.open_words if not word.startswith(_ARGUMENTS)]
        return tuple(found)

    def is_open(self, option: Option | None) -> bool:
        """vLLM fills in nothing in its own file; a shell, systemd or compose does."""
        return option is not None and not self.is_file_of(option) and is_unresolved(option.value)

    def is_file_of(self, option: Option) -> bool:
        return self.is_file or option.from_file

    @property
    def tensor_parallel(self) -> int:
        return self.number("tensor-parallel-size", 1) or 1

    def line(self, name: str) -> int | None:
        option = self.options.get(name)
        return self.launch.line if option is None else option.given.line


def human_int(text: str) -> int | None:
    """`4k` is 4,000, `4K` is 4,096 (vLLM's own reading)."""
    units = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return int(float(number) * unit)
    except (ValueError, OverflowError):
        return None


def options_of(launch: Launch, version: str | None) -> dict[str, Option]:
    """What the engine makes of the options; those it drops or refuses are left out.

    `version`: None for a release of which nothing is known; names are then those of any release.
    """
    found: dict[str, Option] = {}
    for given in launch.options:
        if given.twice or given.nested or given.value is None or is_unresolved(given.name):
            continue
        name, value = _meant(given, version)
        if value is not None and not _dropped(launch, given) and not out_of_range(name, value):
            spec = None if version is None else flags.flag(name, version)
            found[name] = Option(
                given=given, name=name, value=value, spec=spec, from_file=launch.form in _FILES
            )
    return found


def _meant(given: Given, version: str | None) -> tuple[str, KnobValue | None]:
    name, value = base_name(given), given.value
    if version is not None:
        if flags.history(name) is None:
            name = flags.abbreviated(name, version) or name
        return flags.meant(name, value if value is not None else True, version)
    own = flags.canonical(name)
    if name.startswith("no-") and name == f"no-{own}":
        return own, False if value is True else None
    return own, value


def out_of_range(name: str, value: KnobValue) -> str | None:
    """Why the engine refuses a number, in one sentence; None: it does not."""
    return range_problem(name, value, human_int(value) if isinstance(value, str) else None)


def base_name(given: Given) -> str:
    """The flag of `--compilation-config.level`, and of `-O3`."""
    plain = given.plain.partition(".")[0]
    return "compilation-config" if plain[:1] == "O" and plain[1:].isdigit() else plain


def _dropped(launch: Launch, given: Given) -> bool:
    """`key: false` in a file never reaches the parser of `vllm serve`."""
    return launch.form in _FILES and given.value is False and launch.entry != "module"


def environment(launch: Launch) -> dict[str, str]:
    return {one.name: one.value for one in launch.env if one.value is not None}
