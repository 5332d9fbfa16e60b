"""Options and variables of the user: taken when the release and our rules allow, else refused."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.errors import UsageError
from tests.serving import cases
from tests.serving.cases import tuned, value, variable


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        ({"max-model-len": 1}, "not set there"),
        ({"api-key": "k"}, "not set there"),
        ({"no-such-flag": 1}, "no release has it"),
        ({"calculate-kv-scale": True}, "calculate-kv-scales"),
        ({"swap-space": 4}, "removed after 0.17.1"),
        ({"block_size": "x"}, "not set there"),
        ({"served-model-name": "-x"}, "begins with a dash"),
        ({"served-model-name": "a\nb"}, "cannot be printed"),
        ({"compilation-config": "{"}, "JSON"),
        ({"a b": 1}, "not a valid option name"),
        ({"no-enable-lora": False}, "takes only true"),
        ({"enable-lora": True, "no-enable-lora": True}, "said twice"),
    ],
)
def test_extra_options_are_checked(extra: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        tuned(cases.l40s_switch(), "0.33.0", extra_args=extra)


def test_extra_options_are_rendered_under_their_own_name() -> None:
    extra = {"served_model_name": "llama", "no-enable-log-requests": True}
    config = tuned(cases.l40s_switch(), "0.33.0", extra_args=extra)
    assert value(config, "served-model-name") == "llama"
    assert value(config, "enable-log-requests") is False


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        ({"HF_TOKEN": "hf_x"}, "secret"),
        ({"VLLM_API_KEY": "x"}, "secret"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "not set there"),
        ({"NCCL_IB_DISABLE": "0"}, "contradicts"),
        ({"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, "does not read"),
        ({"A B": "x"}, "variable name"),
        ({"A": "x'y"}, "quote"),
        ({"A": "x\ny"}, "printed"),
    ],
)
def test_extra_variables_are_checked(extra: dict[str, str], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        tuned(cases.l40s_switch(), "0.33.0", extra_env=extra)


def test_extra_variables_that_agree_are_fine() -> None:
    extra = {"NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
    config = tuned(cases.l40s_switch(), "0.33.0", extra_env=extra)
    assert variable(config, "NCCL_DEBUG") == "WARN"
    assert [knob.name for knob in config.env].count("NCCL_IB_DISABLE") == 1
