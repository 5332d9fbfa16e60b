"""Options and variables that the user adds, checked against the release and our own rules; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from nodeprep.errors import UsageError
from nodeprep.model.serving import KnobValue
from nodeprep.serving import flags, text
from nodeprep.serving.decision import Decision, option, variable
from nodeprep.serving.situation import Situation

# Options that a key of [serving] sets, with that key; None: given on the command line by the files
# themselves.
_OWN_KEYS: dict[str, str | None] = {
    "model": "model",
    "host": "host_address",
    "port": "port",
    "tensor-parallel-size": "tensor_parallel",
    "gpu-memory-utilization": "gpu_memory_utilization",
    "max-model-len": "max_model_len",
    "max-num-seqs": "max_num_seqs",
    "max-num-batched-tokens": "max_num_batched_tokens",
    "kv-cache-dtype": "kv_cache_dtype",
    "calculate-kv-scales": "calculate_kv_scales",
    "enable-prefix-caching": "enable_prefix_caching",
    "enforce-eager": "enforce_eager",
    "block-size": "block_size",
    "dtype": "dtype",
    "api-key": "api_key_file",
    "hf-token": "hf_token_file",
    "config": None,
    "enable-chunked-prefill": None,
}
_SECRET = re.compile(r"TOKEN$|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|PRIVATE_?KEY", re.I)
_OWN_VARIABLES: dict[str, str] = {
    "PYTORCH_CUDA_ALLOC_CONF": "use serving.expandable_segments",
    "PYTORCH_ALLOC_CONF": "use serving.expandable_segments",
    "CUDA_VISIBLE_DEVICES": "the group is chosen by tensor_parallel and the topology",
    "NVIDIA_VISIBLE_DEVICES": "the group is chosen by tensor_parallel and the topology",
    "HOME": "use serving.cache_dir",
    "HF_HOME": "use serving.cache_dir",
}


def extra_options(s: Situation, decided: Collection[str]) -> Iterator[Decision]:
    """The user's options as decisions.  Raises UsageError for what the release would refuse."""
    for name, value in s.extra_args.items():
        if name == "disable-custom-all-reduce":
            _check_all_reduce(s, value)
        if name in _OWN_KEYS:
            key = _OWN_KEYS[name]
            raise UsageError(
                f"extra_args: {name} is not set there",
                hint=f"use serving.{key}" if key else "nodeprep sets it itself",
            )
        if name in decided:
            continue
        spec = flags.flag(name, s.version)
        if spec is None:
            raise UsageError(
                f"extra_args: vLLM {s.version} has no --{name}: {flags.absence(name, s.version)}",
                hint="remove it",
            )
        _check(spec, value)
        yield option(name, value, "asked for in extra_args", "policy")


def _check(spec: flags.FlagSpec, value: KnobValue) -> None:
    problem = flags.check_value(spec, value)
    if problem is None and value is False and spec.kind == "boolean":
        problem = "this release reads its false from the command line only, not from the file"
    if problem is not None:
        raise UsageError(f"extra_args: --{spec.name}: {problem}", hint="correct or remove it")
    text.option_value(value, spec.name)


def _check_all_reduce(s: Situation, value: KnobValue) -> None:
    if value is False and s.custom_all_reduce.disable:
        raise UsageError(
            "extra_args: custom all-reduce cannot be kept on: " + s.custom_all_reduce.reason,
            hint="remove disable-custom-all-reduce from extra_args",
        )


def extra_variables(s: Situation, decided: dict[str, KnobValue]) -> Iterator[Decision]:
    """The user's variables as decisions.  Raises UsageError for secrets and for contradictions."""
    for name, value in s.policy.extra_env.items():
        text.variable_name(name)
        if _SECRET.search(name):
            raise UsageError(
                f"extra_env: {name} looks like a secret, which may not stand in a rendered file",
                hint="put it into the file that serving.api_key_file names",
            )
        if name in _OWN_VARIABLES:
            raise UsageError(f"extra_env: {name} is not set there", hint=_OWN_VARIABLES[name])
        if name in decided:
            if decided[name] != value:
                raise UsageError(
                    f"extra_env: {name}={text.shown(value)} contradicts {decided[name]!r}, which "
                    "this node needs",
                    hint="remove it from extra_env",
                )
            continue
        if name.startswith("VLLM_") and flags.env_known(name, s.version) is False:
            raise UsageError(
                f"extra_env: vLLM {s.version} does not read {name}", hint="remove it from extra_env"
            )
        yield variable(name, text.env_value(value, name), "asked for in extra_env", "policy")
