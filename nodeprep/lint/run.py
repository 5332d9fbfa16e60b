"""All rules over all files: one list of findings, worst first; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from nodeprep.lint.image import is_usable, tagged_release
from nodeprep.lint.rules_memory import ShapeOf
from nodeprep.lint.secrets import Hider
from nodeprep.lint.server import Node, Option, Server, environment, options_of
from nodeprep.model.base import Record
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.launch import Form, Launch, LaunchText
from nodeprep.serving import flags

_PARTS = (Form.YAML, Form.JSON, Form.ENV_FILE)


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
    nodeprep's own names, the newest known otherwise.  Raises UsageError for a version that is none
    or older than the table.
    """
    found_version, source = _version(texts, version)
    flags.neighbours(found_version)
    servers = [
        _server(path, launch, _own_version(launch, version, found_version), node or Node(), texts)
        for path, text in texts
        for launch in text.launches
    ]
    said = [one for server in servers for one in _about(server, shape_of)]
    said += rules_pairs.pairs([one for one in servers if one.launch.model])
    said += rules_exposure.files(servers)
    for path, text in texts:
        said += rules_text.metrics(path, text, found_version)
        said += rules_text.notes(path, text, found_version)
    hider = Hider(launch for _, text in texts for launch in text.launches)
    findings = [hider.finding(one) for one in said if isinstance(one, Finding)]
    unknown = [hider.unknown(one) for one in said if isinstance(one, Unknown)]
    return Linted(
        findings=tuple(sorted(_once(findings), key=lambda one: one.severity.rank)),
        unknown=tuple(dict.fromkeys(unknown)),
        version=found_version,
        version_source=source,
        servers=tuple(one.name for one in servers),
    )


def _about(server: Server, shape_of: ShapeOf) -> Iterator[Finding | Unknown]:
    yield from rules_flags.unresolved(server)
    for rule in (
        *rules_flags.RULES,
        *rules_config.RULES,
        *rules_engine.RULES,
        *rules_env.RULES,
        *rules_secrets.RULES,
        *rules_entry.RULES,
        *rules_exposure.RULES,
    ):
        yield from rule(server)
    box = server.container
    if box is not None:
        for check in rules_container.RULES:
            yield from check(server, box)
    yield from rules_gpus.gpus(server)
    yield from rules_memory.quantization(server, shape_of)
    yield from rules_memory.memory(server, shape_of)


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """The same thing at the same place is said once."""
    return list({(one.id, one.subject, one.summary): one for one in findings}.values())


def _version(texts: Sequence[tuple[str, LaunchText]], asked: str | None) -> tuple[str, str]:
    if asked is not None:
        flags.release_of(asked)
        return asked.strip().removeprefix("v"), "as asked"
    for path, text in texts:
        for launch in text.launches:
            tag = _tagged(launch)
            if tag is not None:
                return tag, f"the image's tag in {path}"
    for path, text in texts:
        if text.rendered_version is not None and is_usable(text.rendered_version):
            return text.rendered_version, f"the head of {path}"
    return flags.newest(), "the newest release known here; name another with --vllm-version"


def _own_version(launch: Launch, asked: str | None, otherwise: str) -> str:
    return otherwise if asked is not None else _tagged(launch) or otherwise


def _tagged(launch: Launch) -> str | None:
    return tagged_release(launch.container.image if launch.container is not None else None)


def _server(
    path: str,
    launch: Launch,
    version: str,
    node: Node,
    texts: Sequence[tuple[str, LaunchText]],
) -> Server:
    """A launch with what the files it names add, where they were given too."""
    options: dict[str, Option] = {}
    env: dict[str, str] = {}
    for file in _named(launch.config_file, texts, (Form.YAML, Form.JSON)):
        options |= options_of(file, version)
    missing = False
    for name in launch.env_files:
        files = _named(name, texts, (Form.ENV_FILE,), exact=True)
        missing |= not files
        for file in files:
            env |= environment(file)
    config_missing = launch.config_file is not None and not options
    return Server(
        path=path,
        launch=launch,
        version=version,
        options=options | options_of(launch, version),
        env=env | environment(launch),
        node=node,
        complete=_is_complete(launch, texts) and not config_missing,
        key_may_be_elsewhere=missing,
        rendered=any(one.rendered_version is not None for name, one in texts if name == path),
    )


def _is_complete(launch: Launch, texts: Sequence[tuple[str, LaunchText]]) -> bool:
    """Whether the text alone starts a server: not a file that another text reads, nor a part."""
    if launch.form is Form.ENV_FILE:
        return False
    if launch.form not in _PARTS:
        return True
    return launch.model is not None and not any(
        other.config_file for _, text in texts for other in text.launches
    )


def _named(
    file: str | None,
    texts: Sequence[tuple[str, LaunchText]],
    forms: tuple[Form, ...],
    *,
    exact: bool = False,
) -> list[Launch]:
    """The launches of a file that another one names.

    Found by its last component, since it may be named as a container or another node sees it;
    `exact`: the folder must fit too, where it is known.
    """
    if file is None:
        return []
    return [
        launch
        for path, text in texts
        if _last(path) == _last(file) and (not exact or _same_folder(path, file))
        for launch in text.launches
        if launch.form in forms
    ]


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _same_folder(path: str, named: str) -> bool:
    folder, wanted = _last(path.rpartition("/")[0]), _last(named.rpartition("/")[0])
    return "$" in named or not wanted or not folder or folder == wanted
