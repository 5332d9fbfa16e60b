"""What our configuration does otherwise than one that somebody runs already, and why; pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from nodeprep.model.serving import Difference, GivenConfig, Knob, KnobValue, ServingConfig
from nodeprep.serving import flags
from nodeprep.units import show_bytes

_NOT_OURS = "not asked of nodeprep, and no rule needs it"

_SPLIT = "max_split_size_mb"
_NO_EFFECT = f"{_SPLIT} has no effect beside expandable segments; "

_CONTAINER_REASONS = {
    "image": "another release or image was asked for",
    "ipc": "the engine needs its own shared memory, not the host's",
    "shm-size": "private IPC sized for the ranks; with --ipc=host the size is ignored",
    "publish": "published on this address only; every interface means everybody",
    "gpus": "GPUs by UUID: the group that was measured, whatever else the node gets",
}


def with_differences(config: ServingConfig, given: GivenConfig) -> ServingConfig:
    found = (
        *_options(config, given),
        *_variables(config, given),
        *_container(config, given),
    )
    return msgspec.structs.replace(config, differences=found)


def _options(config: ServingConfig, given: GivenConfig) -> Iterator[Difference]:
    theirs = _normal(given, config.vllm_version)
    model = theirs.pop("model", None)
    if model is not None and model != config.model:
        yield Difference(name="model", theirs=model, ours=config.model, reason="another model")
    ours = {knob.name: knob for knob in config.options}
    for name, value in theirs.items():
        knob = ours.get(name)
        if knob is None:
            yield from _missing(name, value, config)
        elif knob.value != value:
            yield _changed(name, value, knob)
    for name, knob in ours.items():
        if name not in theirs:
            yield _changed(name, None, knob)


def _normal(given: GivenConfig, version: str) -> dict[str, KnobValue]:
    """Their options under the flags' own names; `no-x: true` is `x: false`."""
    options: dict[str, KnobValue] = {}
    for name, value in given.options.items():
        own, said = flags.meant(name, value, version)
        if said is not None:
            options[own] = said
    return options


def _missing(name: str, value: KnobValue, config: ServingConfig) -> Iterator[Difference]:
    """An option of theirs that we do not render, unless leaving it out says the same."""
    spec = flags.flag(name, config.vllm_version)
    if spec is None:
        reason = f"vLLM {config.vllm_version}: {flags.absence(name, config.vllm_version)}"
        yield Difference(name=name, theirs=value, ours=None, reason=reason)
        return
    knob = next((one for one in config.left_out if one.name == name), None)
    reason = knob.reason if knob is not None else _NOT_OURS
    if spec.default is not None and spec.default == str(value):
        reason = f"the default of this release; {reason}" if knob is not None else "the default"
    yield Difference(name=name, theirs=value, ours=None, reason=reason)


def _changed(name: str, theirs: KnobValue | None, knob: Knob, *, also: str = "") -> Difference:
    return Difference(name=name, theirs=theirs, ours=knob.value, reason=also + knob.reason)


def _variables(config: ServingConfig, given: GivenConfig) -> Iterator[Difference]:
    left = {knob.name: knob.reason for knob in config.left_out}
    ours = {knob.name: knob for knob in config.env}
    for name, value in given.env.items():
        knob = ours.get(name)
        if knob is None:
            reason = left.get(name, _NOT_OURS)
            yield Difference(name=name, theirs=value, ours=None, reason=reason)
        elif knob.value != value:
            yield _changed(name, value, knob, also=_NO_EFFECT if _SPLIT in value else "")
    for name, knob in ours.items():
        if name not in given.env:
            yield _changed(name, None, knob)


def _container(config: ServingConfig, given: GivenConfig) -> Iterator[Difference]:
    ours = {
        "image": config.image,
        "ipc": "private",
        "shm-size": show_bytes(config.shm_bytes),
        "publish": f"{config.host_address}:{config.port}:{config.port}",
        "gpus": ",".join(config.gpu_uuids) or ("all" if config.all_gpus else "by index"),
    }
    for name, theirs in given.container.items():
        mine = ours.get(name)
        if mine != theirs:
            reason = _CONTAINER_REASONS.get(name, _NOT_OURS)
            yield Difference(name=name, theirs=theirs, ours=mine, reason=reason)
