"""What the templates print: one ServingConfig as the words of each form; pure."""

from __future__ import annotations

from typing import Any

from nodeprep.model.base import Record
from nodeprep.model.serving import ServingConfig
from nodeprep.serving import text

CONTAINER = "nodeprep-vllm"
_CONFIG_TARGET = "/etc/nodeprep/vllm.yaml"
_CACHE_TARGET = "/cache"
_TOKEN_TARGET = "/run/secrets/hf-token"  # noqa: S105 - a path
_TMPFS = "/tmp:rw,exec,nosuid,nodev,size=16g"  # noqa: S108 - of the container
_STOP_TIMEOUT_S = 120
_START_PERIOD_S = 1800
_HOMES = ("/home/", "/root/")
_TEMPORARY = ("/tmp/", "/var/tmp/")  # noqa: S108 - named, not written to
ENGINES = ("docker", "podman")


def values_of(config: ServingConfig, install_dir: str, engine: str) -> dict[str, Any]:
    """Everything the templates print but the options; they decide nothing.

    `engine`: docker or podman, for the forms that differ by it.
    """
    address = text.address(config.host_address)
    published = f"[{address}]" if ":" in address else address
    volumes = _volumes(config)
    serve = ["serve", config.model, "--config"]
    suffix = config.suffix
    return {
        "left_out": config.left_out,
        "variables": config.env,
        "model": config.model,
        "image": config.image,
        "container": f"{CONTAINER}{suffix}",
        "suffix": suffix,
        "engine": engine,
        "container_command": [*serve, _CONFIG_TARGET, *_listen("0.0.0.0", config.port)],  # noqa: S104
        "bare_command": [
            config.vllm_program,
            *serve,
            f"{install_dir}/vllm{suffix}.yaml",
            *_listen(address, config.port),
        ],
        "script": f"{install_dir}/{engine}-run{suffix}.sh",
        "script_name": f"{engine}-run{suffix}.sh",
        "check_script": f"{install_dir}/check-gpus{suffix}.sh",
        "config_name": f"vllm{suffix}.yaml",
        "env_name": f"vllm{suffix}.env",
        "env_path": f"{install_dir}/vllm{suffix}.env",
        "private_tmp": values_private(install_dir),
        "in_home": any(
            f"{one}/".startswith(_HOMES) for one in (install_dir, config.vllm_program)
        ),
        "publish": f"{published}:{config.port}:{config.port}",
        "host_address": address,
        "port": config.port,
        "gpus": _gpus(config),
        "visible": () if config.all_gpus else config.gpu_indices,
        "cache_dir": config.cache_dir,
        "device_ids": _device_ids(config),
        "cdi_devices": [f"nvidia.com/gpu={one}" for one in _device_ids(config) or ("all",)],
        "gpus_by_uuid": bool(config.gpu_uuids),
        "gpu_count": config.tensor_parallel,
        "gpus_reason": _gpus_reason(config),
        "shm_bytes": config.shm_bytes,
        "tmpfs": _TMPFS,
        "mounts": [_mount(volume) for volume in volumes],
        "volumes": [
            *volumes,
            _Volume(source=f"./vllm{suffix}.yaml", target=_CONFIG_TARGET, read_only=True),
        ],
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


def values_private(folder: str) -> bool:
    """Whether a unit may have a /tmp of its own: not when its files lie in the common one."""
    return not f"{folder}/".startswith(_TEMPORARY)


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
