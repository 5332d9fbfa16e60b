"""Flags a release does not have, values it does not take, settings that never arrive; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.ranges import is_unresolved, json_problem
from nodeprep.lint.rules_config import nested
from nodeprep.lint.said import CRITICAL, INFO, WARNING, say
from nodeprep.lint.secrets import first_word, option_is_secret, shown, shown_value
from nodeprep.lint.server import Option, Server, base_name, out_of_range
from nodeprep.model.finding import Finding, Severity, Unknown
from nodeprep.model.launch import Form, Given
from nodeprep.model.serving import KnobValue
from nodeprep.serving import flags

_ARGV = "the release's own argument parser decides before anything is loaded"
_SCALES_GONE = (0, 28, 0)
_DEPRECATED = {"calculate-kv-scales": ((0, 19, 0), "a checkpoint that carries KV scales")}
_ON_IN_V1 = ("enable-chunked-prefill", "enable-prefix-caching")
"""On by themselves for generating models in engine V1."""
_NOT_FLAGS = ("model", "config", "help")


def known_flags(server: Server) -> Iterator[Finding | Unknown]:
    """Unknown, removed, renamed, not yet there."""
    for given in server.launch.options:
        name = base_name(given)
        if first_word(given.name) != given.name:
            yield _one_word(server, given)
            continue
        if name in _NOT_FLAGS or flags.flag(name, server.version) is not None:
            continue
        if _filled_in_later(server, given.name):
            continue
        lived = flags.history(name)
        if lived is None:
            yield from _never_lived(server, given, name)
            continue
        around = flags.in_one_neighbour(name, server.version)
        if around is not None:
            yield Unknown(
                subject=f"--{given.plain} ({server.place(given.line)})",
                reason=f"vLLM {around[0]} has it and {around[1]} has not: whether "
                f"{server.version}, which lies between them, has it is not known here",
                hint="vllm serve --help of that release tells",
            )
            continue
        yield say(
            server, "vllm-flag-not-in-release", CRITICAL, f"--{given.plain}",
            f"vLLM {server.version} has no --{name}: {flags.absence(name, server.version)}",
            cause=f"the flag lived from {lived.first} to {lived.last}; {_ARGV}",
            do=_instead(name, server.version), line=given.line, text=shown(given),
        )  # fmt: skip


def _one_word(server: Server, given: Given) -> Finding:
    """`--dtype auto` as one item of a list: argparse takes a word with a blank for no option."""
    name = first_word(given.plain)
    told = ", and its complaint writes the value into the log"
    return say(
        server, "vllm-flag-unknown", CRITICAL, f"--{name}",
        f"--{name} and its value are one word with a blank in it: the parser sees no "
        "option there",
        cause="a word that holds a blank is no option for argparse (_parse_optional)"
        + (told if option_is_secret(given.name) else ""),
        do=f"make two items of it, or write --{name}=VALUE", line=given.line,
        text=f"--{shown(given).lstrip('-')}",
    )  # fmt: skip


def _instead(name: str, version: str) -> str:
    if name == "calculate-kv-scales":
        return "remove it: scales come from the checkpoint"
    lived = flags.history(name)
    if lived is not None and lived.successor and flags.flag(lived.successor, version):
        return f"use --{lived.successor}"
    return "remove it, or run a release that has it"


def _never_lived(server: Server, given: Given, name: str) -> Iterator[Finding]:
    full = flags.abbreviated(name, server.version)
    if full is not None:
        yield say(
            server, "vllm-flag-unknown", WARNING, f"--{given.plain}",
            f"--{name} is no flag, only an abbreviation of --{full}",
            cause="the parser accepts a beginning that fits one flag; a later release that adds "
            "another flag with it refuses to start",
            do=f"write --{full}", line=given.line, text=shown(given),
        )  # fmt: skip
        return
    near = flags.nearest(name, server.version)
    yield say(
        server, "vllm-flag-unknown", CRITICAL, f"--{given.plain}",
        f"vLLM {server.version} has no --{name}, nor has any other release known here"
        + (f"; did you mean {', '.join('--' + one for one in near)}?" if near else ""),
        cause=_ARGV, do=f"write --{near[0]}, or remove it" if near else "remove it",
        line=given.line, text=shown(given),
    )  # fmt: skip


def values(server: Server) -> Iterator[Finding]:
    """Values out of choices or of another kind; negatives that the release cannot spell."""
    for given in server.launch.options:
        spec = flags.flag(base_name(given), server.version)
        if spec is None or given.twice or given.nested or given.value is None:
            continue
        if _filled_in_later(server, given.value):
            continue
        if "." in given.plain or base_name(given) != given.plain:
            yield from _dotted(server, given)
            continue
        if flags.is_negative(given.plain, server.version):
            yield from _negative(server, given, spec)
            continue
        problem = _problem(server, given, spec)
        if problem is not None:
            bare = given.value is True and not given.spelled and not server.is_file
            what = f"--{spec.name}" if bare else f"--{spec.name} {shown_value(given)[:80]}"
            why = "it takes a value, and none follows" if bare else problem
            yield say(
                server, "vllm-value-invalid", CRITICAL, f"--{spec.name}",
                f"{what}: {why} in vLLM {server.version}",
                cause=_ARGV, do="correct the value", line=given.line, text=shown(given),
            )  # fmt: skip


def _negative(server: Server, given: Given, spec: flags.FlagSpec) -> Iterator[Finding]:
    if spec.kind != "toggle":
        how = f"--{spec.name}=False" if spec.kind == "boolean" else "leave it out"
        yield say(
            server, "vllm-value-invalid", CRITICAL, f"--{given.plain}",
            f"vLLM {server.version} has no negative of --{spec.name}",
            cause="its parser made negatives of other flags only", do=how, line=given.line,
            text=shown(given),
        )  # fmt: skip
    elif server.is_file and given.value is not True:
        yield _lost(server, given, WARNING, "a negative that is not true says nothing")


def _dotted(server: Server, given: Given) -> Iterator[Finding]:
    """`--compilation-config.level 3`: refused up to 0.8.5, read by 0.11.2 and later."""
    if "." in given.plain and server.release < (0, 9, 0):
        yield say(
            server, "vllm-flag-unknown", CRITICAL, f"--{given.plain}",
            f"vLLM {server.version} cannot set one part of --{base_name(given)}",
            cause=_ARGV, do="give the whole as one JSON text", line=given.line, text=shown(given),
        )  # fmt: skip


def _problem(server: Server, given: Given, spec: flags.FlagSpec) -> str | None:
    if server.is_file and given.value is False:
        return None
    value: KnobValue = given.value if given.value is not None else ""
    if spec.kind in ("text", "scalar") and isinstance(value, (int, float)):
        wrong = flags.check_value(spec, value) if isinstance(value, bool) else None
        return wrong or out_of_range(spec.name, value)
    if spec.kind in ("switch", "toggle") and given.spelled:
        off = f"; --no-{spec.name} switches it off" if spec.kind == "toggle" else ""
        return f"it takes no value on a command line{off}"
    if spec.kind == "json" and isinstance(value, (int, str)) and str(value).isdigit():
        return None  # -O3
    return (
        flags.check_value(spec, value)
        or json_problem(spec, value)
        or out_of_range(spec.name, value)
    )


def _filled_in_later(server: Server, text: KnobValue | None) -> bool:
    return not server.is_file and is_unresolved(text)


def unresolved(server: Server) -> Iterator[Unknown]:
    """Options whose value, or whose very name, only the shell or compose fills in."""
    for given in server.launch.options:
        name = base_name(given)
        if given.twice or option_is_secret(name) or first_word(given.name) != given.name:
            continue
        if _filled_in_later(server, given.name) or _filled_in_later(server, given.value):
            yield _unknown(server, given.line, f"--{name}", shown_value(given))
    for name, text in (("--config", server.launch.config_file), ("model", server.launch.model)):
        if _filled_in_later(server, text):
            yield _unknown(server, server.launch.line, name, str(text))


def _unknown(server: Server, line: int | None, name: str, text: str) -> Unknown:
    return Unknown(
        subject=f"{name} ({server.place(line)})",
        reason=f"{text[:80]} is filled in when the command runs, and not given in the files read",
        hint="give the file that sets it too, or write the value",
    )


def dropped(server: Server) -> Iterator[Finding]:
    """What stands in the file and never arrives."""
    for given in server.launch.options:
        spec = flags.flag(base_name(given), server.version)
        if given.twice:
            yield _lost(server, given, WARNING, "the same name stands again further down")
        elif not server.is_file or spec is None:
            continue
        elif given.nested:
            yield from nested(server, given, spec)
        elif given.value is None:
            yield _null(server, given, spec)
        elif given.value is False and not flags.is_negative(given.plain, server.version):
            yield _false(server, given, spec)


def _null(server: Server, given: Given, spec: flags.FlagSpec) -> Finding:
    """`key: null` arrives as the word None, which some options read as not given."""
    cause = (
        "every value of the file becomes a word of the command line (load_config_file), and the "
        "parser of an optional value takes None for nothing (engine/arg_utils.py optional_type)"
    )
    if spec.nullable:
        return say(
            server, "vllm-setting-without-effect", INFO, given.name,
            f"{given.name} is null, which this option reads as not given", cause=cause,
            do="remove the line", line=given.line, text=shown(given),
        )  # fmt: skip
    return say(
        server, "vllm-value-invalid", CRITICAL, given.name,
        f"{given.name} is null, which is handed on as the text None", cause=cause,
        do="remove the line", line=given.line, text=shown(given),
    )  # fmt: skip


def _false(server: Server, given: Given, spec: flags.FlagSpec) -> Finding:
    """`key: false` is dropped by `vllm serve`: harmless only where false is the default."""
    harmless = spec.default == "False" or spec.kind == "switch"
    if harmless:
        return _lost(
            server, given, INFO, "false is the default here, so nothing is lost but the line"
        )
    how = (
        f"no-{spec.name}: true"
        if spec.kind == "toggle"
        else f"--{spec.name}=False on the command line"
    )
    severity = INFO if server.launch.form is Form.JSON else WARNING
    return _lost(server, given, severity, f"the default stays; to switch it off write {how}")


def _lost(server: Server, given: Given, severity: Severity, why: str) -> Finding:
    return say(
        server, "vllm-setting-dropped", severity,
        given.name, f"{given.name}: {shown_value(given)} does not reach the engine: {why}",
        cause="`vllm serve --config` turns `key: true` into a flag and drops `key: false` "
        "silently, in every release; python -m vllm.entrypoints.openai.api_server honours it",
        do="say what you mean in the form that arrives, or remove the line",
        line=given.line, text=shown(given),
    )  # fmt: skip


def deprecated(server: Server) -> Iterator[Finding]:
    for name, (first, instead) in _DEPRECATED.items():
        if name in server.options and first <= server.release < _SCALES_GONE:
            yield say(
                server, "vllm-flag-not-in-release", WARNING, f"--{name}",
                f"--{name} is deprecated in {server.version} and gone from 0.28.0",
                cause="the release says so", do=f"use {instead}", line=server.line(name),
            )  # fmt: skip


def defaults(server: Server) -> Iterator[Finding]:
    """What only repeats the release's default, in one note."""
    same = [
        option.name
        for option in server.options.values()
        if option.spec is not None and _is_default(server, option)
    ]
    if same:
        yield say(
            server, "vllm-setting-without-effect", INFO, "defaults",
            f"these say the default of vLLM {server.version}: {', '.join(same)}",
            cause="a setting that says the default hides those that matter",
            do="remove them, or keep them as a pin against another default",
            text=", ".join(same),
        )  # fmt: skip


def _is_default(server: Server, option: Option) -> bool:
    if option.name in _ON_IN_V1:
        return option.value is True and server.release >= (0, 11, 0)
    return option.spec is not None and option.spec.default == str(option.value)


RULES = (defaults, known_flags, values, dropped, deprecated)
