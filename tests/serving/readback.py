"""Reads rendered files back, each as its real reader does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from nodeprep.model.serving import ServingConfig

STUB = """#!/usr/bin/env bash
printf '%s\\0' "$@" > "$STUB_OUT"
"""


def options_of(config: ServingConfig) -> dict[str, Any]:
    return {knob.name: knob.value for knob in config.options}


def env_of(config: ServingConfig) -> dict[str, str]:
    return {knob.name: str(knob.value) for knob in config.env}


def from_yaml(text: str) -> dict[str, Any]:
    """Options by the flags' own names; the form itself is checked on the way."""
    loaded = yaml.safe_load(text)
    options: dict[str, Any] = {}
    for key, value in loaded.items():
        assert "_" not in key
        assert key != "model"
        assert value is not None
        assert value is not False
        assert isinstance(value, (bool, int, float, str))
        negative = key.startswith("no-") and value is True
        options[key.removeprefix("no-") if negative else key] = not negative if negative else value
    return options


def from_json(text: str) -> tuple[str, dict[str, Any]]:
    loaded = json.loads(text)
    assert isinstance(loaded.pop("_rendered"), list)
    return loaded.pop("model"), {key.replace("_", "-"): value for key, value in loaded.items()}


def from_env(text: str) -> dict[str, str]:
    """Docker's reading; the text has nothing that systemd would read otherwise."""
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            assert value == value.strip()
            assert not set(value) & set("'\"\\")
            values[name] = value
    return values


def from_compose(text: str) -> dict[str, Any]:
    """The one service, with `$$` read as `$`."""
    service: dict[str, Any] = yaml.safe_load(text)["services"]["vllm"]
    return {key: _undollar(value) for key, value in service.items()}


def _undollar(value: Any) -> Any:
    if isinstance(value, str):
        assert "$" not in value.replace("$$", "")
        return value.replace("$$", "$")
    if isinstance(value, list):
        return [_undollar(one) for one in value]
    if isinstance(value, dict):
        return {key: _undollar(one) for key, one in value.items()}
    return value


def from_script(folder: Path, *arguments: str, engine: str = "docker") -> list[str]:
    """What the engine is given: the script run by bash with one that only writes it down."""
    bash = shutil.which("bash")
    assert bash is not None
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / engine).write_text(STUB)
    (tools / engine).chmod(0o755)
    out = folder / "argv"
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "STUB_OUT": str(out), "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [bash, str(folder / f"{engine}-run.sh"), *arguments], env=env, check=True, timeout=30
    )
    return out.read_bytes().decode().split("\0")[:-1]


def unit_words(line: str) -> list[str]:
    """The words of an Exec line as systemd.service(5) splits them, specifiers resolved."""
    words: list[str] = []
    word, quoted, position, inside = "", False, 0, False
    while position < len(line):
        char = line[position]
        if char == "\\":
            position += 1
            word += line[position]
        elif char == '"':
            quoted, inside = not quoted, True
        elif char == " " and not quoted:
            if inside:
                words.append(word)
            word, inside = "", False
        elif char in "%$":
            assert line[position + 1] == char, "a lone specifier or variable"
            position += 1
            word += char
        else:
            word += char
            inside = True
        position += 1
    assert not quoted
    return [*words, word] if inside else words


def unit_value(text: str, key: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(f"{key}=")]
    assert len(found) == 1, found
    return found[0].partition("=")[2]


def following(argv: list[str], option: str) -> list[str]:
    """Every value that stands after an option."""
    return [argv[index + 1] for index, word in enumerate(argv) if word == option]
