"""The documentation against the code: ids, settings, statuses, commands, links."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import click
import msgspec
import pytest

from nodeprep.audit.pages import page, page_ids
from nodeprep.audit.registry import all_checks
from nodeprep.cli import _COMMANDS, group
from nodeprep.errors import EXIT_MEANINGS, Exit, UsageError
from nodeprep.gate.finding_ids import GATE_IDS
from nodeprep.lint.said import IDS as LINT_IDS
from nodeprep.settings import Settings, parse_settings
from tests.conftest import CHECKOUT

DOCS = CHECKOUT / "docs"
WIDTH = 100
SECTIONS = [
    "What you see",
    "Why it happens",
    "What to do",
    "What not to do",
    "How to confirm",
    "Sources",
]
DOCUMENTS = sorted(DOCS.rglob("*.md"))
MAN_PAGE = DOCS / "man" / "nodeprep.8.md"
CONFIGURATION = DOCS / "configuration.md"
HOW_TO = DOCS / "adding-a-check.md"
PLACES = re.compile(r"/work\b|/home/\w|/tmp/|\.pyenv|site-packages")
"""What only a path of somebody's own computer holds."""


def one_line(text: str) -> str:
    """Text without its line breaks."""
    return " ".join(text.split())


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# Findings


def declared_ids() -> set[str]:
    return {one for ids, _ in all_checks() for one in ids} | {"healthy", *LINT_IDS, *GATE_IDS}


def test_every_id_has_a_page_and_every_page_an_id() -> None:
    assert declared_ids() == set(page_ids())


def test_every_id_written_in_the_code_has_a_page() -> None:
    """Whatever a decorator declares: a finding is made with `id="..."`."""
    audit = CHECKOUT / "nodeprep" / "audit"
    written = {
        one
        for path in audit.rglob("*.py")
        for one in re.findall(r'\bid="([a-z0-9-]+)"', path.read_text())
    }
    assert len(written) > 20
    assert written <= set(page_ids())


@pytest.mark.parametrize("finding_id", page_ids())
def test_a_page_reads_well_as_plain_text(finding_id: str) -> None:
    text = page(finding_id)
    lines = text.splitlines()
    assert lines[0] == f"# {finding_id}"
    assert lines[1] == ""
    assert re.fullmatch(r"[A-Z].*[.:]", one_line(text.split("\n\n")[1]))
    assert re.search(r"^Severity: (critical|warning|info)\b", text, re.MULTILINE)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert text.isascii()
    assert text.endswith("\n")
    assert "\t" not in text
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 55


@pytest.mark.parametrize("finding_id", page_ids())
def test_no_section_of_a_page_is_empty(finding_id: str) -> None:
    sections = re.split(r"^## .*$", page(finding_id), flags=re.MULTILINE)[1:]
    assert all(len(section.split()) >= 5 for section in sections)


def test_pages_name_only_ids_that_exist() -> None:
    """A page sends its reader to other pages by id."""
    families = re.compile(
        r"(?<![\w-])(?:acs|p2p|iommu|pcie|gpu|bar1|numa|vm|vfio|mig|level|host|driver|upstream)(?:-[a-z0-9]+){2,}"
    )
    for finding_id in page_ids():
        named = set(families.findall(page(finding_id)))
        assert named <= set(page_ids()), finding_id


def test_an_unknown_id_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        page("acs-redirect-on-gpu-paths")
    assert "acs-redirect-on-gpu-path" in refused.value.hint


def test_the_pages_ship_in_the_wheel() -> None:
    project = msgspec.toml.decode((CHECKOUT / "pyproject.toml").read_bytes())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included.get("docs/findings") == "nodeprep/_data/docs/findings"


# Settings


def tables() -> dict[str, Any]:
    """Name of a table of the file -> its type."""
    found = {}
    for field in msgspec.structs.fields(Settings):
        inner = [one for one in get_args(field.type) if isinstance(one, type)]
        found[field.name] = inner[0] if inner else field.type
    return found


def settings_keys() -> Iterator[tuple[str, msgspec.structs.FieldInfo]]:
    for table, kind in tables().items():
        for field in msgspec.structs.fields(kind):
            yield f"{table}.{field.name}", field


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


WORDS = {str: "string", bool: "true or false", int: "whole number", float: "number"}


def plain(kind: Any) -> Any:
    """A type without its bounds."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def type_words(kind: Any) -> str:
    """A type of settings.py as configuration.md calls it."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = [one for one in get_args(kind) if one is not type(None)]
    kind = plain(kind)
    if get_origin(kind) is tuple:
        return f"list of {WORDS[plain(get_args(kind)[0])]}s"
    if get_origin(kind) is dict:
        value = plain(get_args(kind)[1])
        return f"table of {WORDS[value]}s" if value in WORDS else "table of values"
    return WORDS[kind]


@pytest.mark.parametrize(("key", "field"), list(settings_keys()), ids=lambda one: str(one)[:40])
def test_every_setting_is_documented_with_type_and_default(
    key: str, field: msgspec.structs.FieldInfo
) -> None:
    entry = re.search(
        rf"^- `{re.escape(key)}`: (?P<type>[a-z ]+?),\s+"
        r"(?:default\s+(?P<default>none|`[^`]+`)|required)\.\s+\S",
        CONFIGURATION.read_text(),
        re.MULTILINE,
    )
    assert entry is not None, f"{key} has no entry in configuration.md"
    assert entry["type"] == type_words(field.type)
    default = default_of(field)
    if default is msgspec.NODEFAULT:
        assert entry["default"] is None
    elif default is None:
        assert entry["default"] == "none"
    else:
        written = msgspec.toml.decode(f"value = {one_line(entry['default'].strip('`'))}")["value"]
        assert written == (list(default) if isinstance(default, tuple) else default)


def test_configuration_documents_no_setting_that_does_not_exist() -> None:
    documented = re.findall(r"^- `([a-z_]+\.[a-z_]+)`: ", CONFIGURATION.read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(key for key, _ in settings_keys())


def test_the_example_parses_and_shows_every_key() -> None:
    (example,) = blocks(CONFIGURATION.read_text(), "toml")
    parse_settings(example, "the example of configuration.md")
    content = msgspec.toml.decode(example)
    shown = set()
    for table, given in content.items():
        for one in given if isinstance(given, list) else [given]:
            shown |= {f"{table}.{name}" for name in one}
    assert shown == {key for key, _ in settings_keys()}


# Exit statuses


@pytest.mark.parametrize("status", list(Exit), ids=lambda one: one.name)
@pytest.mark.parametrize("path", [DOCS / "exit-statuses.md", MAN_PAGE, CHECKOUT / "README.md"],
                         ids=lambda one: one.name)  # fmt: skip
def test_every_exit_status_is_documented(path: Path, status: Exit) -> None:
    name = status.name.lower().replace("_", "-")
    told = f"(?:{name}|{re.escape(EXIT_MEANINGS[status])})"
    entry = re.compile(rf"^[|*\s-]*{status.value}[|(\s]+{told}[\s,):]", re.MULTILINE)
    text = path.read_text().replace("`", "")
    assert entry.search(text), f"no line begins with {status.value} and its name or meaning"


@pytest.mark.parametrize("path", [DOCS / "exit-statuses.md", MAN_PAGE], ids=lambda one: one.name)
def test_exit_statuses_mean_what_the_code_says(path: Path) -> None:
    text = one_line(path.read_text().replace("`", ""))
    assert [one for one in EXIT_MEANINGS.values() if one not in text] == []


# Commands


def commands(name: str) -> Iterator[tuple[str, click.Command]]:
    """A command by its name, and those below it: `acs`, `acs plan`..."""
    command = group.get_command(click.Context(group), name)
    assert command is not None
    yield name, command
    if isinstance(command, click.Group):
        for below, one in command.commands.items():
            yield f"{name} {below}", one


def options(command: click.Command) -> set[str]:
    return {"-h", "--help"} | {
        word
        for one in command.params
        if isinstance(one, click.Option) and not one.hidden
        for word in one.opts
    }


@pytest.mark.parametrize("name", _COMMANDS)
def test_the_man_page_has_every_command_and_option(name: str) -> None:
    text = MAN_PAGE.read_text()
    for full_name, command in commands(name):
        if not isinstance(command, click.Group):
            assert re.search(rf"^\*\*{full_name}\*\*.*\n:   \S", text, re.MULTILINE), full_name
        missing = [one for one in options(command) if f"`{one}`" not in text]
        assert not missing, f"{full_name}: {missing}"


def parse_line(line: str) -> None:
    """Reads a line as the command line does, without running it. Raises click.UsageError."""
    name, *rest = line.split()
    assert name in _COMMANDS, f"there is no command {name}"
    known = dict(commands(name))
    if isinstance(known[name], click.Group):
        name, rest = f"{name} {rest[0]}", rest[1:]
    known[name].make_context(name, list(rest))


def shown_lines() -> list[tuple[str, str]]:
    """Every line of a code block that calls nodeprep, with the document it stands in."""
    return [
        (path.name, line)
        for path in DOCUMENTS
        for line in re.findall(r"^ {4,}(?:sudo )?nodeprep ([^\n#|&;]+)", path.read_text(), re.M)
    ]


@pytest.mark.parametrize(("document", "line"), sorted(set(shown_lines())))
def test_a_command_shown_in_a_document_can_be_typed(document: str, line: str) -> None:
    parse_line(line)


def remedies() -> list[str]:
    """The calls of nodeprep that findings advise."""
    checks = CHECKOUT / "nodeprep" / "audit" / "checks"
    return sorted(
        {
            line
            for path in checks.glob("*.py")
            for line in re.findall(r'"(?:sudo )?nodeprep ([^"]+)"', path.read_text())
        }
    )


@pytest.mark.parametrize("line", remedies())
def test_a_command_that_a_finding_advises_can_be_typed(line: str) -> None:
    parse_line(line)


@pytest.mark.skipif(shutil.which("pandoc") is None, reason="pandoc is not installed")
def test_pandoc_makes_the_man_page() -> None:
    argv = ["pandoc", "--standalone", "--fail-if-warnings", "--to", "man", str(MAN_PAGE)]
    made = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    assert made.stdout.count(".SH ") >= 10
    assert '.TH "NODEPREP" "8"' in made.stdout
    assert r"\[en]" not in made.stdout, "two dashes outside a code span became one long dash"


# All documents


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda one: str(one.relative_to(DOCS)))
def test_no_document_names_a_path_of_somebodys_computer(path: Path) -> None:
    text = path.read_text()
    assert PLACES.findall(text) == []
    assert str(CHECKOUT) not in text


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda one: str(one.relative_to(DOCS)))
def test_internal_links_resolve(path: Path) -> None:
    for target in re.findall(r"\[[^\]]+\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked.read_text()), target


def test_files_named_in_the_how_to_exist() -> None:
    named = re.findall(r"\b(?:nodeprep|tests|scripts)/[\w/.-]*\w", HOW_TO.read_text())
    assert len(named) > 15
    assert [name for name in named if "NAME" not in name and not (CHECKOUT / name).exists()] == []


def test_the_check_of_the_how_to_works() -> None:
    """In a process of its own: a check registers itself for good."""
    check, test = blocks(HOW_TO.read_text(), "python")
    program = (
        "import sys\n"
        f"source = {check!r} + '\\n' + {test!r}\n"
        "scope = {}\n"
        "exec(compile('from __future__ import annotations\\n' + source, 'how-to', 'exec'), scope)\n"
        "cases = scope['test_swap'].pytestmark[0].args[1]\n"
        "assert len(cases) == 3\n"
        "for case in cases:\n"
        "    scope['test_swap'](*case)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
