"""What a container's image says of the server in it: release, entry point, accelerator; pure."""

from __future__ import annotations

import re

from nodeprep.lint.releases import release_in
from nodeprep.lint.server import Server
from nodeprep.model.launch import Container
from nodeprep.serving import flags

_OFFICIAL = "vllm/vllm-openai"
_NEWEST_TAGS = ("", "latest", "nightly")
_SERVE_FROM = (0, 11, 1)

_IMAGE_WORDS = (
    ("rocm", "AMD"), ("xpu", "Intel"), ("gaudi", "Intel"), ("hpu", "Intel"), ("habana", "Intel"),
    ("ipex", "Intel"), ("cpu", "CPU"), ("tpu", "TPU"), ("neuron", "Neuron"), ("ascend", "Ascend"),
    ("npu", "Ascend"),
)  # fmt: skip
_DEVICES = (
    ("/dev/kfd", "AMD"), ("/dev/dri", "AMD or Intel"), ("/dev/davinci", "Ascend"),
    ("/dev/accel", "TPU"), ("/dev/neuron", "Neuron"), ("amd.com/gpu", "AMD"),
    ("intel.com/gpu", "Intel"),
)  # fmt: skip
_VARIABLES = (
    ("VLLM_CPU_", "CPU"), ("HIP_VISIBLE_DEVICES", "AMD"), ("ROCR_VISIBLE_DEVICES", "AMD"),
    ("ZE_AFFINITY_MASK", "Intel"), ("ONEAPI_DEVICE_SELECTOR", "Intel"),
    ("HABANA_VISIBLE_DEVICES", "Intel"), ("ASCEND_", "Ascend"),
)  # fmt: skip
_WORD = r"(?<![a-z0-9]){}(?![a-z])"


def tag_version(image: str | None) -> str | None:
    """The release that a tag names, whether the flag table knows it or not."""
    name = (image or "").partition("@")[0]
    return release_in(name.rpartition("/")[2].partition(":")[2])


def is_official(image: str | None) -> bool:
    """Whether it is the project's own image for NVIDIA GPUs, from whatever registry."""
    name = (image or "").partition("@")[0]
    plain = name[: name.rindex(":")] if ":" in name.rpartition("/")[2] else name
    return plain == _OFFICIAL or plain.endswith(f"/{_OFFICIAL}")


def entry_of(image: str | None) -> str | None:
    """What the official image starts: `module` up to 0.11.0, `serve` from 0.11.1 on.

    None: not known (another image, a digest, a tag that says no release).  Read from
    docker/Dockerfile of 0.6.6 to 0.16.0 (source distributions).
    """
    if not is_official(image):
        return None
    version = tag_version(image)
    if version is not None:
        return "serve" if flags.release_of(version) >= _SERVE_FROM else "module"
    tag = (image or "").rpartition("/")[2].partition(":")[2]
    return "serve" if tag.partition("-")[0] in _NEWEST_TAGS and "@" not in (image or "") else None


def accelerator(server: Server) -> str | None:
    """For what other than NVIDIA GPUs the server is, as far as anything says so; None otherwise."""
    box = server.container
    if str(server.value("device") or "").lower() in ("cpu", "xpu", "hpu", "tpu", "neuron"):
        return str(server.value("device")).upper()
    return _by_variable(server) if box is None else _by_container(box) or _by_variable(server)


def _by_container(box: Container) -> str | None:
    devices = " ".join(box.options.get("device", ()))
    if "nvidia" in devices or box.has("gpus") or box.first("runtime") == "nvidia":
        return None
    image = (box.image or "").lower()
    for word, what in _IMAGE_WORDS:
        if re.search(_WORD.format(word), image):
            return what
    return next((what for device, what in _DEVICES if device in devices), None)


def _by_variable(server: Server) -> str | None:
    box = server.container
    if box is not None and (box.has("gpus") or box.first("runtime") == "nvidia"):
        return None
    names = (*server.env, *(one.name for one in server.launch.env))
    return next(
        (what for begin, what in _VARIABLES for one in names if one.startswith(begin)), None
    )
