"""One ServingConfig becomes every file that runs it; pure but for `write`, which is in files.py."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeprep.errors import UsageError
from nodeprep.model.base import Record
from nodeprep.model.serving import Knob, KnobValue, ServingConfig
from nodeprep.resources import shipped
from nodeprep.serving import flags, text
from nodeprep.serving.files import write
from nodeprep.serving.values import ENGINES, values_of, values_private

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["INSTALL_DIR", "PROGRAM", "render", "render_all", "units_dir", "write"]

PROGRAM = "/usr/bin/nodeprep"
"""What the shipped units run."""

INSTALL_DIR = "/etc/nodeprep/rendered"
"""Where the unit looks for script, configuration and environment."""

_BENCH_FROM = "0.8.5"
_GATE_UNITS = ("nodeprep.service", "nodeprep-ready.target")

_TEMPLATES = {
    "vllm.yaml": ("vllm.yaml", "docker"),
    "vllm.env": ("vllm.env", "docker"),
    "docker-run.sh": ("run.sh", "docker"),
    "podman-run.sh": ("run.sh", "podman"),
    "compose.yaml": ("compose.yaml", "docker"),
    "check-gpus.sh": ("check-gpus.sh", "docker"),
    "vllm.service": ("container.service", "docker"),
    "vllm-podman.service": ("container.service", "podman"),
    "vllm-bare.service": ("bare.service", "docker"),
    "bench.sh": ("bench.sh", "docker"),
}
"""File -> its template, and the container engine that it is for."""


class YamlOption(Record, frozen=True):
    """One line of the configuration file, in the form every release reads."""

    key: str
    value: KnobValue
    reason: str
    source: str


def render(
    config: ServingConfig,
    *,
    install_dir: str = INSTALL_DIR,
    program: str = PROGRAM,
    config_file: Path | None = None,
) -> dict[str, str]:
    """File name -> text.  `install_dir`: where the files will lie, for the units; `program`: the
    nodeprep that the gate's unit runs, and `config_file` the configuration that it is given.

    The gate's own units stand beside vllm.service, so that the folder is complete.  Raises
    UsageError for a value that one of the formats cannot carry.
    """
    check(config)
    folder = text.path(install_dir, "install folder")
    values = {
        engine: values_of(config, folder, engine)
        | {"header": header(config), "options": yaml_options(config)}
        for engine in ENGINES
    }
    environment = _environment()
    files = {}
    for name, (template, engine) in _TEMPLATES.items():
        if name == "bench.sh" and not flags.at_least(config.vllm_version, _BENCH_FROM):
            continue
        written = environment.get_template(f"{template}.j2").render(values[engine])
        files[_numbered(name, config.suffix)] = written
    files[_numbered("vllm.json", config.suffix)] = manifest(config)
    for name in _GATE_UNITS:
        files[name] = _commented(config) + _gate_unit(name, folder, program, config_file)
    return files


def render_all(
    configs: Sequence[ServingConfig],
    *,
    install_dir: str = INSTALL_DIR,
    program: str = PROGRAM,
    config_file: Path | None = None,
) -> dict[str, str]:
    """The files of every server of the node, in one folder."""
    files: dict[str, str] = {}
    for config in configs:
        files |= render(config, install_dir=install_dir, program=program, config_file=config_file)
    return files


def _numbered(name: str, suffix: str) -> str:
    """`vllm-bare.service` of server 1 is `vllm-bare-1.service`."""
    stem, _, ending = name.rpartition(".")
    return f"{stem}{suffix}.{ending}"


def units_dir(out_dir: Path) -> str:
    """Where units look for files rendered into a folder: there, when its path is plain.

    Otherwise (relative, or with characters that a mount cannot carry) where they belong.
    """
    try:
        return text.path(str(out_dir), "folder")
    except UsageError:
        return INSTALL_DIR


def _gate_unit(name: str, folder: str, program: str, config_file: Path | None) -> str:
    """A unit that ships, running the nodeprep that rendered it, which renders there again and by
    the same configuration."""
    unit = (shipped("systemd") / name).read_text(encoding="utf-8")
    run, place = f"ExecStart={PROGRAM} bringup", ""
    if folder != INSTALL_DIR:
        place = f" -o {text.unit_word(folder)}"
        unit = unit.replace(
            "ReadWritePaths=-/etc/nodeprep\n",
            f"ReadWritePaths=-/etc/nodeprep {text.unit_word('-' + folder)}\n",
        )
        if not values_private(folder):
            unit = unit.replace("PrivateTmp=yes\n", "")
    if config_file is not None:
        if not values_private(str(config_file)):
            unit = unit.replace("PrivateTmp=yes\n", "")
        place += f" --config {text.unit_word(text.path(str(config_file), 'configuration file'))}"
    return unit.replace(run, f"ExecStart={_program_word(program)} bringup{place}")


def _program_word(program: str) -> str:
    plain = text.path(program, "nodeprep program")
    return plain if re.fullmatch(r"[A-Za-z0-9._/+-]+", plain) else text.unit_word(plain)


def check(config: ServingConfig) -> None:
    """Raises UsageError for a configuration that cannot be written down safely."""
    text.model_name(config.model)
    text.image_name(config.image)
    text.path(config.cache_dir, "cache folder")
    text.path(config.vllm_program, "vllm program")
    for uuid in config.gpu_uuids:
        text.gpu_name(uuid)
    for file in filter(None, (config.api_key_file, config.hf_token_file)):
        text.path(file, "secret file")
    for knob in config.options:
        text.option_name(knob.name)
        text.option_value(knob.value, knob.name)
    for knob in config.env:
        text.variable_name(knob.name)
        text.env_value(str(knob.value), knob.name)
    if not 0 < config.port < 65536:
        raise UsageError(f"port {config.port} is not between 1 and 65535")
    if not text.is_loopback(config.host_address) and not config.api_key_file:
        raise UsageError(
            f"{config.host_address} is open to the network and the server would ask for no key",
            hint="set serving.api_key_file, or listen on 127.0.0.1",
        )


def header(config: ServingConfig) -> tuple[str, ...]:
    """The first lines of every file.  No date and no tool version: same input, same file."""
    lines = [
        f"Rendered by nodeprep for {config.node}: vLLM {config.vllm_version}, {config.model}.",
        "Changes made here are overwritten; set them in /etc/nodeprep/config.toml.",
    ]
    if config.simulated:
        lines.append(
            "simulated: from a recorded machine or a simulated gate, not measured on this node."
        )
    return tuple(lines)


def _commented(config: ServingConfig) -> str:
    return "".join(f"# {text.comment(line)}\n" for line in header(config))


def yaml_options(config: ServingConfig) -> tuple[YamlOption, ...]:
    """The options as keys of the configuration file."""
    return tuple(_yaml_option(knob, config.vllm_version) for knob in config.options)


def _yaml_option(knob: Knob, version: str) -> YamlOption:
    key, value = knob.name, knob.value
    if value is False:
        spec = flags.flag(knob.name, version)
        if spec is None or spec.kind != "toggle":
            raise UsageError(f"vLLM {version} cannot be told {knob.name} false in its file")
        key, value = f"no-{knob.name}", True
    return YamlOption(key=key, value=value, reason=knob.reason, source=knob.source)


def manifest(config: ServingConfig) -> str:
    """The configuration as one JSON object, in Python's spelling of the names."""
    values: dict[str, Any] = {"_rendered": list(header(config)), "model": config.model}
    values |= {knob.name.replace("-", "_"): knob.value for knob in config.options}
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Escaping differs by destination and is said by a filter at each place; HTML's would be wrong.
    environment = Environment(
        loader=FileSystemLoader(shipped("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701
    )
    environment.filters |= {
        "comment": text.comment,
        "yaml": text.yaml_scalar,
        "compose": text.compose_scalar,
        "sh": text.shell_word,
        "unit_word": text.unit_word,
        "unit_text": text.unit_text,
    }
    return environment
