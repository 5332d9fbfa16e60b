"""One ServingConfig becomes every file that runs it; pure but for `write`, which is in files.py."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from nodeprep.errors import UsageError
from nodeprep.model.base import Record
from nodeprep.model.serving import Knob, KnobValue, ServingConfig
from nodeprep.resources import shipped
from nodeprep.serving import flags, text
from nodeprep.serving.files import write

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["INSTALL_DIR", "render", "write"]

INSTALL_DIR = "/etc/nodeprep/rendered"
"""Where the unit looks for script, configuration and environment."""

CONTAINER = "nodeprep-vllm"
_CONFIG_TARGET = "/etc/nodeprep/vllm.yaml"
_CACHE_TARGET = "/cache"
_TOKEN_TARGET = "/run/secrets/hf-token"  # noqa: S105 - a path
_TMPFS = "/tmp:rw,exec,nosuid,nodev,size=16g"  # noqa: S108 - of the container
_STOP_TIMEOUT_S = 120
_START_PERIOD_S = 1800
_BENCH_FROM = "0.8.5"
_GATE_UNITS = ("nodeprep.service", "nodeprep-ready.target")

_TEMPLATES = (
    "vllm.yaml",
    "vllm.env",
    "docker-run.sh",
    "compose.yaml",
    "vllm.service",
    "vllm-bare.service",
)


class YamlOption(Record, frozen=True):
    """One line of the configuration file, in the form every release reads."""

    key: str
    value: KnobValue
    reason: str
    source: str


def render(config: ServingConfig, *, install_dir: str = INSTALL_DIR) -> dict[str, str]:
    """File name -> text.  `install_dir`: where the files will lie, for the units.

    The gate's own units stand beside vllm.service, so that the folder is complete.  Raises
    UsageError for a value that one of the formats cannot carry.
    """
    check(config)
    values = _values(config, text.path(install_dir, "install folder"))
    environment = _environment()
    names = [
        *_TEMPLATES,
        *(["bench.sh"] if flags.at_least(config.vllm_version, _BENCH_FROM) else []),
    ]
    files = {name: environment.get_template(f"{name}.j2").render(values) for name in names}
    files["vllm.json"] = manifest(config)
    for name in _GATE_UNITS:
        files[name] = _commented(config) + (shipped("systemd") / name).read_text(encoding="utf-8")
    return files


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


def _values(config: ServingConfig, install_dir: str) -> dict[str, Any]:
    """Everything the templates print; they decide nothing."""
    address = text.address(config.host_address)
    published = f"[{address}]" if ":" in address else address
    volumes = _volumes(config)
    serve = ["serve", config.model, "--config"]
    return {
        "header": header(config),
        "options": yaml_options(config),
        "left_out": config.left_out,
        "variables": config.env,
        "model": config.model,
        "image": config.image,
        "container": CONTAINER,
        "container_command": [*serve, _CONFIG_TARGET, *_listen("0.0.0.0", config.port)],  # noqa: S104
        "bare_command": [
            config.vllm_program, *serve, f"{install_dir}/vllm.yaml", *_listen(address, config.port),
        ],
        "script": f"{install_dir}/docker-run.sh",
        "env_path": f"{install_dir}/vllm.env",
        "publish": f"{published}:{config.port}:{config.port}",
        "host_address": address,
        "port": config.port,
        "gpus": _gpus(config),
        "visible": () if config.all_gpus else config.gpu_indices,
        "cache_dir": config.cache_dir,
        "device_ids": _device_ids(config),
        "gpus_reason": _gpus_reason(config),
        "shm_bytes": config.shm_bytes,
        "tmpfs": _TMPFS,
        "mounts": [_mount(volume) for volume in volumes],
        "volumes": [*volumes, _Volume(source="./vllm.yaml", target=_CONFIG_TARGET, read_only=True)],
        "cache_target": _CACHE_TARGET,
        "config_target": _CONFIG_TARGET,
        "token_target": _TOKEN_TARGET,
        "api_key_file": config.api_key_file,
        "hf_token_file": config.hf_token_file,
        "health_command": _health(config.port),
        "start_period_s": _START_PERIOD_S,
        "stop_timeout_s": _STOP_TIMEOUT_S,
        "numa_node": config.numa_nodes[0] if len(config.numa_nodes) == 1 else None,
    }  # fmt: skip


class _Volume(Record, frozen=True):
    source: str
    target: str
    read_only: bool


def _volumes(config: ServingConfig) -> list[_Volume]:
    volumes = [_Volume(source=config.cache_dir, target=_CACHE_TARGET, read_only=False)]
    if config.model.startswith("/"):
        volumes.append(_Volume(source=config.model, target=config.model, read_only=True))
    if config.hf_token_file:
        volumes.append(_Volume(source=config.hf_token_file, target=_TOKEN_TARGET, read_only=True))
    return volumes


def _mount(volume: _Volume) -> str:
    words = f"type=bind,source={volume.source},target={volume.target}"
    return f"{words},readonly" if volume.read_only else words


def _listen(address: str, port: int) -> tuple[str, ...]:
    return "--host", address, "--port", str(port)


def _device_ids(config: ServingConfig) -> tuple[str, ...]:
    """How the group's GPUs are named: by UUID, by index, or (empty) all of the node."""
    if config.gpu_uuids:
        return config.gpu_uuids
    return () if config.all_gpus else tuple(str(index) for index in config.gpu_indices)


def _gpus(config: ServingConfig) -> str:
    """The value of `docker run --gpus`, which is CSV: a list needs quotes of its own."""
    devices = _device_ids(config)
    return f'"device={",".join(devices)}"' if devices else "all"


def _gpus_reason(config: ServingConfig) -> str:
    if config.gpu_uuids:
        return "The group that was measured, by UUID: an index may move, a UUID does not."
    if config.all_gpus or not config.gpu_indices:
        return "All GPUs of the node."
    return "The group by index: the UUIDs of the GPUs are not known."


def _health(port: int) -> str:
    return (
        "python3 -c 'import urllib.request as u; "
        f'u.urlopen("http://127.0.0.1:{port}/health", timeout=8)\''
    )


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
