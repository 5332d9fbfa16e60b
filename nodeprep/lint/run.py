"""All rules over all files: one list of findings, worst first; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from nodeprep.lint import (
    rules_config,
    rules_container,
    rules_engine,
    rules_entry,
    rules_env,
    rules_exposure,
    rules_flags,
    rules_gpus,
    rules_memory,
    rules_pairs,
    rules_secrets,
    rules_text,
)
from nodeprep.lint.naming import CONFIGS, VARIABLES, files_named
from nodeprep.lint.ranges import is_unresolved
from nodeprep.lint.releases import Release, Texts, asked_for, most_of, newest, release_of
from nodeprep.lint.rules_memory import ShapeOf
from nodeprep.lint.secrets import Hider
from nodeprep.lint.server import Node, Option, Server, environment, options_of
from nodeprep.lint.variables import with_variables
from nodeprep.model.base import Record
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.launch import Form, Launch, LaunchText

_PARTS = (Form.YAML, Form.JSON, Form.ENV_FILE)
_FILE_OPTIONS = {Form.UNIT: "EnvironmentFile=", Form.COMPOSE: "env_file"}

Rule = Callable[[Server], Iterator[Finding | Unknown]]

_OF_THE_RELEASE: tuple[Rule, ...] = (
    *rules_flags.RULES, *rules_config.RULES, *rules_engine.RULES, *rules_env.RULES,
    *rules_secrets.RULES, *rules_entry.RULES, *rules_exposure.RULES,
)  # fmt: skip
_OF_ANY_RELEASE: tuple[Rule, ...] = (
    rules_engine.allocator, rules_engine.trust, rules_env.defaults, *rules_secrets.RULES,
    rules_entry.image, rules_entry.demo, *rules_exposure.RULES,
)  # fmt: skip
"""Those that say the same of every release, and so may be asked of one that is not known."""


class Linted(Record, frozen=True):
    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]
    version: str
    """The release that most of it was checked against."""
    version_source: str
    servers: tuple[str, ...]


def lint(
    texts: Sequence[tuple[str, LaunchText]],
    *,
    shape_of: ShapeOf,
    version: str | None = None,
    node: Node | None = None,
) -> Linted:
    """What is wrong with the files, given as (path, what was read from it).

    `version`: the release to check against; None: the one that an image tag or a file of
    nodeprep's own names, the newest known otherwise.  Where the table says nothing of a release,
    only what is true of every release is checked.  Raises UsageError for a version that is none.
    """
    asked = None if version is None else asked_for(version)
    found = [
        (path, launch, asked or release_of(path, launch, texts))
        for path, text in texts
        for launch in text.launches
    ]
    servers = [
        _server(path, launch, release, node or Node(), texts) for path, launch, release in found
    ]
    said: list[Finding | Unknown] = []
    for server, (_, _, release) in zip(servers, found, strict=True):
        said += _about(server, release, shape_of)
    said += rules_pairs.pairs([one for one in servers if one.launch.model])
    said += rules_exposure.files(servers)
    whole = asked or most_of([release for _, _, release in found], texts)
    for path, text in texts:
        own = [release for name, _, release in found if name == path]
        said += _about_text(path, text, asked or _release_of_text(own, found, whole))
    hider = Hider(launch for _, text in texts for launch in text.launches)
    findings = [hider.finding(one) for one in said if isinstance(one, Finding)]
    unknown = [hider.unknown(one) for one in said if isinstance(one, Unknown)]
    return Linted(
        findings=tuple(sorted(_once(findings), key=lambda one: one.severity.rank)),
        unknown=tuple(dict.fromkeys(unknown)),
        version=whole.version,
        version_source=whole.source,
        servers=tuple(one.name for one in servers),
    )


def _about(server: Server, release: Release, shape_of: ShapeOf) -> Iterator[Finding | Unknown]:
    yield from _not_given(server)
    yield from rules_flags.unresolved(server)
    if release.why_not is not None and server.complete:
        yield Unknown(
            subject=f"vLLM {release.version} ({server.place(server.launch.line)})",
            reason=f"{release.why_not}: what depends on the release was not checked",
            hint="name the nearest one: --vllm-version",
        )
    for rule in _OF_THE_RELEASE if server.release_known else _OF_ANY_RELEASE:
        yield from rule(server)
    box = server.container
    if box is not None:
        for check in rules_container.RULES:
            yield from check(server, box)
    yield from rules_gpus.gpus(server)
    yield from rules_memory.quantization(server, shape_of)
    if server.release_known:
        yield from rules_memory.memory(server, shape_of)


def _about_text(path: str, text: LaunchText, release: Release) -> Iterator[Finding | Unknown]:
    if release.why_not is None:
        yield from rules_text.metrics(path, text, release.version)
        yield from rules_text.notes(path, text, release.version)
        return
    notes = tuple(one for one in text.notes if one.kind != "bench")
    yield from rules_text.notes(path, replace(text, notes=notes), newest().version)


def _release_of_text(
    own: Sequence[Release], found: Sequence[tuple[str, Launch, Release]], whole: Release
) -> Release:
    """What a text is judged by: its own servers, else the release that all servers have."""
    if own:
        return most_of(own, ())
    return whole if len({release.version for _, _, release in found}) < 2 else newest()


def _not_given(server: Server) -> Iterator[Unknown]:
    """Files that the server reads and words that it gets, which are not known here."""
    launch, box = server.launch, server.container
    hint = "give the file too"
    if server.config_missing:
        yield Unknown(
            subject=f"--config {str(launch.config_file)[:80]} ({server.place(launch.line)})",
            reason="the file was not given: the settings in it are not known",
            hint=hint,
        )
    for name in server.missing_files:
        option = _FILE_OPTIONS.get(launch.form, "--env-file")
        line = launch.line if box is None else box.line_of("env-file", name)
        may = "it may be missing; if it is there, " if name.startswith("-") else ""
        yield Unknown(
            subject=f"{option} {name.removeprefix('-')[:80]} ({server.place(line)})",
            reason=f"the file was not given: {may}its variables are not known, the API key among "
            "them",
            hint=hint,
        )
    for word, line in launch.open_words:
        yield _open_options(server, word, line)


def _open_options(server: Server, word: str, line: int | None) -> Unknown:
    return Unknown(
        subject=f"further options ({server.place(line)})",
        reason=f"{word[:80]} is filled in when the command runs, and not given in the files read: "
        "it may hold any option",
        hint="write the options out",
    )


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """The same thing at the same place is said once."""
    return list({(one.id, one.subject, one.summary): one for one in findings}.values())


def _server(path: str, launch: Launch, release: Release, node: Node, texts: Texts) -> Server:
    """A launch with what the files it names add, where they were given too."""
    known = release.why_not is None
    version = release.version if known else None
    env: dict[str, str] = {}
    missing: list[str] = []
    for name in launch.env_files:
        files = files_named(name, texts, VARIABLES, exact=True)
        missing += [] if files else [name]
        for file in files:
            env |= environment(file)
    env |= environment(launch)
    launch = with_variables(launch, env)
    options: dict[str, Option] = {}
    configs = files_named(launch.config_file, texts, CONFIGS)
    for file in configs:
        options |= options_of(file, version)
    if launch.model is None and configs:
        launch = replace(launch, model=configs[-1].model)
    config_missing = (
        launch.config_file is not None and not configs and not is_unresolved(launch.config_file)
    )
    return Server(
        path=path,
        launch=launch,
        version=release.version,
        options=options | options_of(launch, version),
        env=env,
        node=node,
        complete=_is_complete(launch, texts) and not (launch.config_file and not configs),
        key_may_be_elsewhere=bool(missing) or config_missing,
        rendered=any(one.rendered_version is not None for name, one in texts if name == path),
        release_known=known,
        config_missing=config_missing,
        missing_files=tuple(missing),
    )


def _is_complete(launch: Launch, texts: Texts) -> bool:
    """Whether the text alone starts a server: not a file that another text reads, nor a part."""
    if launch.form is Form.ENV_FILE:
        return False
    if launch.form not in _PARTS:
        return True
    return launch.model is not None and not any(
        other.config_file for _, text in texts for other in text.launches
    )
