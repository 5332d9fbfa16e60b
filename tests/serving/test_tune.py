"""Rules: what is rendered on which node and release, and what can never stand together."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.errors import UsageError
from nodeprep.model.facts import IommuGroup, NodeFacts
from nodeprep.model.gate import GateResult, GateVerdict
from nodeprep.model.memory import LinearAttentionShape, MlaShape, SlidingShape
from nodeprep.model.serving import Interconnect
from nodeprep.serving import flags
from nodeprep.serving.tune import tune
from tests import build
from tests.serving import cases
from tests.serving.cases import tuned, value, variable


def test_the_source_documents_knobs_come_out_where_they_are_right() -> None:
    config = tune(
        cases.l40s_switch(), cases.PASSED, cases.plan("0.7.2"), cases.SOURCE_POLICY,
        cases.shape(), p2p_verified=True, given=cases.SOURCE_MANIFEST,
    )  # fmt: skip
    ours = {knob.name.replace("-", "_"): knob.value for knob in config.options}
    theirs = dict(cases.SOURCE_MANIFEST.options)
    assert theirs.pop("model") == config.model
    changed = {name for name, given in theirs.items() if ours.get(name) != given}
    assert changed == {"disable_custom_all_reduce", "enforce_eager"}
    assert set(ours) <= set(theirs)
    reasons = {one.name: one.reason for one in config.differences}
    assert "default" in reasons["enforce-eager"]
    assert "max_split_size_mb" in reasons["PYTORCH_CUDA_ALLOC_CONF"]
    assert "policy" in reasons["NCCL_P2P_LEVEL"]
    assert {"ipc", "shm-size", "publish", "gpus"} <= set(reasons)
    assert "image" not in reasons
    assert all(one.theirs != one.ours and one.reason for one in config.differences)


def test_the_newest_release_drops_what_it_no_longer_has() -> None:
    policy = cases.policy(vllm_version="0.33.0", calculate_kv_scales=True)
    config = tune(cases.l40s_switch(), cases.PASSED, cases.plan("0.33.0"), policy, cases.shape(),
                  p2p_verified=True, given=cases.SOURCE_MANIFEST)  # fmt: skip
    reasons = {one.name: one.reason for one in config.differences}
    assert value(config, "calculate-kv-scales") is None
    assert "0.27.1" in reasons["calculate-kv-scales"]
    assert value(config, "enable-chunked-prefill") is None
    assert variable(config, "VLLM_ATTENTION_BACKEND") is None


def test_every_knob_has_a_reason_and_a_source() -> None:
    config = tuned(cases.l40s_switch(), "0.7.2")
    for knob in (*config.options, *config.env, *config.left_out):
        assert knob.reason.strip()
        assert knob.source.strip()


@pytest.mark.parametrize(
    ("version", "backend", "by_flag"),
    [
        ("0.7.2", "FLASHINFER", False),
        ("0.8.5", "FLASHINFER", False),
        ("0.10.2", "FLASHINFER", False),
        ("0.11.0.post2", "FLASHINFER", False),
        ("0.11.2", None, False),
        ("0.33.0", None, False),
    ],
)
def test_fp8_kv_on_ada_has_a_backend(version: str, backend: str | None, by_flag: bool) -> None:
    config = tuned(cases.l40s_switch(), version)
    assert variable(config, "VLLM_ATTENTION_BACKEND") == backend
    assert value(config, "attention-backend") is None
    v0 = any("engine V0" in warning for warning in config.warnings)
    assert v0 is (version == "0.8.5")


@pytest.mark.parametrize(("version", "flag"), [("0.11.2", False), ("0.13.0", True)])
def test_fp8_kv_on_ampere_is_pinned_to_flashinfer(version: str, flag: bool) -> None:
    config = tuned(cases.a100_pair(), version, tp=2)
    assert value(config, "attention-backend") == ("FLASHINFER" if flag else None)
    assert variable(config, "VLLM_ATTENTION_BACKEND") == (None if flag else "FLASHINFER")
    assert any("saves memory" in warning for warning in config.warnings)


@pytest.mark.parametrize("version", ["0.8.5", "0.10.2", "0.33.0"])
def test_fp8_kv_on_hopper_needs_no_pin(version: str) -> None:
    config = tuned(cases.h100_sxm8(), version, tp=8)
    assert value(config, "attention-backend") is None
    assert variable(config, "VLLM_ATTENTION_BACKEND") is None


def test_fp8_kv_on_turing_is_refused() -> None:
    node = build.facts(build.switch_of(2), gpu_fields={"name": "Tesla T4"})
    with pytest.raises(UsageError, match="Turing"):
        tuned(node, "0.33.0", tp=2)


def test_latent_attention_has_no_rule_for_its_backend_and_says_so() -> None:
    mla = MlaShape(kv_lora_rank=512, rope_head_dim=64, nope_head_dim=128, v_head_dim=128)
    config = tune(cases.h100_sxm8(), cases.PASSED, cases.plan("0.7.2", tp=8),
                  cases.policy(vllm_version="0.7.2", tensor_parallel=8), cases.shape(mla=mla),
                  p2p_verified=True)  # fmt: skip
    assert variable(config, "VLLM_ATTENTION_BACKEND") is None
    assert any("latent" in one for one in config.warnings)


def test_nvfp4_kv_needs_blackwell() -> None:
    with pytest.raises(UsageError, match="Blackwell"):
        tuned(cases.l40s_switch(), "0.33.0", kv_cache_dtype="nvfp4")
    config = tuned(cases.b200_sxm8(), "0.33.0", tp=8, kv_cache_dtype="nvfp4")
    assert value(config, "kv-cache-dtype") == "nvfp4"


@pytest.mark.parametrize(
    ("version", "asked", "rendered"),
    [
        ("0.6.6", True, None), ("0.7.2", True, True), ("0.7.2", None, None), ("0.8.5", True, None),
        ("0.11.2", None, True), ("0.11.2", False, None), ("0.19.1", None, None),
        ("0.19.1", True, True), ("0.27.1", True, True), ("0.28.0", True, None),
    ],
)  # fmt: skip
def test_kv_scales_only_where_they_are_honoured(
    version: str, asked: bool | None, rendered: bool | None
) -> None:
    config = tuned(cases.l40s_switch(), version, calculate_kv_scales=asked)
    assert value(config, "calculate-kv-scales") is rendered


def test_kv_scales_are_left_out_for_hybrid_models() -> None:
    hybrid = LinearAttentionShape(
        layers=36, key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4
    )
    config = tune(cases.l40s_switch(), cases.PASSED, cases.plan("0.11.2"),
                  cases.policy(vllm_version="0.11.2", calculate_kv_scales=True),
                  cases.shape(linear=hybrid), p2p_verified=True)  # fmt: skip
    assert value(config, "calculate-kv-scales") is None


@pytest.mark.parametrize(
    ("version", "fields", "rendered"),
    [
        ("0.7.2", {}, True),
        ("0.7.2", {"sliding": SlidingShape(window=4096, layers=32)}, None),
        ("0.8.5", {"sliding": SlidingShape(window=4096, layers=32)}, True),
        ("0.8.5", {"pooling": True}, None),
    ],
)
def test_prefix_caching_only_where_the_engine_starts_with_it(
    version: str, fields: dict[str, Any], rendered: bool | None
) -> None:
    config = tune(cases.l40s_switch(), cases.PASSED, cases.plan(version),
                  cases.policy(vllm_version=version), cases.shape(**fields),
                  p2p_verified=True)  # fmt: skip
    assert value(config, "enable-prefix-caching") is rendered


def test_kv_scales_without_fp8_are_left_out() -> None:
    config = tuned(cases.l40s_switch(), "0.7.2", kv_cache_dtype="auto", calculate_kv_scales=True)
    assert value(config, "calculate-kv-scales") is None


@pytest.mark.parametrize("verdict", [GateVerdict.WRONG_DATA, GateVerdict.HUNG])
def test_a_measured_veto_sets_all_three_switches(verdict: GateVerdict) -> None:
    gate = GateResult(verdict=verdict, reason="")
    for node, tp in ((cases.l40s_switch(), 4), (cases.h100_sxm8(), 8)):
        config = tuned(node, "0.33.0", gate=gate, tp=tp)
        assert variable(config, "NCCL_P2P_DISABLE") == "1"
        assert variable(config, "VLLM_SKIP_P2P_CHECK") == "0"
        assert value(config, "disable-custom-all-reduce") is True


def test_redirection_without_a_passed_gate_is_a_veto() -> None:
    config = tuned(cases.l40s_switch(control=0x1D), "0.33.0", gate=None, verified=False)
    assert variable(config, "NCCL_P2P_DISABLE") == "1"
    knob = config.variable("NCCL_P2P_DISABLE")
    assert knob is not None
    assert "0000:42:00.0" in knob.reason


def test_redirection_that_a_gate_outlived_is_no_veto() -> None:
    config = tuned(cases.l40s_switch(control=0x1D), "0.33.0")
    assert variable(config, "NCCL_P2P_DISABLE") is None


def test_translation_without_a_passed_gate_is_a_veto() -> None:
    functions = build.switch_of(4, control=0x11)
    groups = {number: IommuGroup(number=number, type="DMA-FQ", members=group.members)
              for number, group in build.groups_of(functions).items()}  # fmt: skip
    node = build.facts(functions, iommu_groups=groups)
    assert variable(tuned(node, "0.33.0", verified=False), "NCCL_P2P_DISABLE") == "1"
    assert variable(tuned(node, "0.33.0", verified=True), "NCCL_P2P_DISABLE") is None


def test_redirection_beside_nvlink_is_no_veto() -> None:
    node = build.facts(cases.direct(8, 2, control=0x1D), nvlinks=18,
                       gpu_fields={"name": "NVIDIA H100 80GB HBM3"})  # fmt: skip
    config = tuned(node, "0.33.0", tp=8, verified=False, gate=None)
    assert variable(config, "NCCL_P2P_DISABLE") is None


@pytest.mark.parametrize("name", sorted(cases.NODES))
@pytest.mark.parametrize("verified", [True, False])
def test_unverified_peer_to_peer_is_tested_by_the_engine(name: str, verified: bool) -> None:
    node = cases.NODES[name]()
    config = tuned(node, "0.33.0", tp=len(node.gpus), verified=verified, gate=None,
                   kv_cache_dtype=None)  # fmt: skip
    expected = None if verified or len(node.gpus) == 1 else "0"
    assert variable(config, "VLLM_SKIP_P2P_CHECK") == expected


@pytest.mark.parametrize(
    ("node", "tp", "link", "active"),
    [
        (cases.l40s_switch(), 4, Interconnect.SWITCH, False),
        (cases.l40s_switch(), 2, Interconnect.SWITCH, True),
        (cases.l40s_host(), 4, Interconnect.HOST, False),
        (cases.l40s_host(), 2, Interconnect.HOST, False),
        (cases.h100_sxm8(), 8, Interconnect.NVLINK, True),
        (cases.a100_pair(), 2, Interconnect.NVLINK, True),
        (cases.single_4090(), 1, Interconnect.SINGLE, False),
    ],
)
def test_expandable_segments_never_meet_an_active_custom_all_reduce(
    node: NodeFacts, tp: int, link: Interconnect, active: bool
) -> None:
    for asked in (None, True, False):
        config = tuned(node, "0.33.0", tp=tp, kv_cache_dtype=None, expandable_segments=asked)
        assert config.interconnect is link
        runs = tp > 1 and value(config, "disable-custom-all-reduce") is None
        assert runs is active
        expandable = variable(config, "PYTORCH_CUDA_ALLOC_CONF") is not None
        assert expandable is (not active and asked is not False)


@pytest.mark.parametrize(
    "extra",
    [
        {"kv-transfer-config": '{"kv_connector": "x"}'},
        {"kv_transfer_config": '{"kv_connector": "x"}'},
        {"--kv-offloading-size": 8.0},
        {"enable-sleep-mode": True},
    ],
)
def test_expandable_segments_never_meet_a_connector_or_sleep_mode(extra: dict[str, Any]) -> None:
    config = tuned(cases.l40s_switch(), "0.33.0", extra_args=extra, expandable_segments=True)
    assert variable(config, "PYTORCH_CUDA_ALLOC_CONF") is None
    assert any("expandable segments" in warning for warning in config.warnings)


def test_custom_all_reduce_may_be_switched_off_by_hand() -> None:
    extra = {"disable-custom-all-reduce": True}
    config = tuned(cases.h100_sxm8(), "0.33.0", tp=8, extra_args=extra)
    assert value(config, "disable-custom-all-reduce") is True
    assert variable(config, "PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:True"
    for spelling in ({"disable-custom-all-reduce": False}, {"enable-custom-all-reduce": True}):
        with pytest.raises(UsageError, match="cannot be kept on"):
            tuned(cases.l40s_host(), "0.33.0", extra_args=spelling)


def test_sixteen_ranks_have_a_kernel_from_0_27_1() -> None:
    node = cases.nvlink("NVIDIA H100 80GB HBM3", 16, 18)
    old = tuned(node, "0.26.0", tp=16)
    new = tuned(node, "0.27.1", tp=16)
    assert value(old, "disable-custom-all-reduce") is True
    assert value(new, "disable-custom-all-reduce") is None


def test_tokens_of_a_step_are_never_fewer_than_sequences() -> None:
    with pytest.raises(UsageError, match="below max_num_seqs"):
        tuned(cases.l40s_switch(), "0.7.2", max_num_seqs=512, max_num_batched_tokens=256)
    config = tuned(cases.l40s_switch(), "0.7.2", max_num_seqs=None, max_num_batched_tokens=256,
                   plan_fields={"max_num_seqs": 1024, "max_num_batched_tokens": 256})  # fmt: skip
    assert value(config, "max-num-seqs") == 256
    assert any("lowered" in warning for warning in config.warnings)


def test_a_policy_that_is_not_the_plans_is_said() -> None:
    config = tuned(cases.l40s_switch(), "0.7.2", max_model_len=16384, gpu_memory_utilization=0.9)
    assert value(config, "max-model-len") == 16384
    assert sum("memory plan was made for" in one for one in config.warnings) == 2


@pytest.mark.parametrize(
    ("version", "size", "fine"),
    [("0.7.2", 32, True), ("0.7.2", 64, False), ("0.33.0", 64, True), ("0.33.0", 24, False),
     ("0.7.2", 8, True), ("0.33.0", 8, False)],
)  # fmt: skip
def test_block_sizes_that_the_backend_takes(version: str, size: int, fine: bool) -> None:
    if fine:
        assert value(tuned(cases.l40s_switch(), version, block_size=size), "block-size") == size
    else:
        with pytest.raises(UsageError, match=f"block_size {size}"):
            tuned(cases.l40s_switch(), version, block_size=size)


def test_a_model_that_does_not_fit_is_refused_with_its_limit() -> None:
    plan = cases.plan("0.33.0", gpu="NVIDIA GeForce RTX 4090", tp=1, fits=False,
                      limit="weights of 67.7 GiB exceed 21.2 GiB")  # fmt: skip
    policy = cases.policy(tensor_parallel=1)
    with pytest.raises(UsageError, match=r"67\.7 GiB") as caught:
        tune(cases.single_4090(), None, plan, policy, cases.shape(), p2p_verified=False)
    assert caught.value.hint


@pytest.mark.parametrize(
    "fields",
    [{"tensor_parallel": -2}, {"max_num_seqs": 0}, {"max_model_len": -1}, {"block_size": 0},
     {"gpu_memory_utilization": 1.5}, {"gpu_memory_utilization": float("nan")}],
)  # fmt: skip
def test_numbers_without_sense_are_refused(fields: dict[str, Any]) -> None:
    policy = cases.policy(**fields)
    with pytest.raises(UsageError, match=next(iter(fields))):
        tune(cases.l40s_switch(), None, cases.plan("0.33.0"), policy, p2p_verified=False)


def test_heads_must_divide() -> None:
    with pytest.raises(UsageError, match="attention heads"):
        tuned(build.facts(build.switch_of(3)), "0.33.0", tp=3)


def test_infiniband_is_switched_off_only_without_an_adapter() -> None:
    nic = build.function("a0:00.0", vendor_id=0x15B3, device_id=0x1021, class_code=0x020700)
    with_nic = build.facts([*build.switch_of(4, control=0x11), nic])
    assert variable(tuned(with_nic, "0.33.0"), "NCCL_IB_DISABLE") is None
    assert variable(tuned(with_nic, "0.33.0", nccl_ib_disable=True), "NCCL_IB_DISABLE") == "1"
    assert variable(tuned(cases.l40s_switch(), "0.33.0"), "NCCL_IB_DISABLE") == "1"
    asked = tuned(cases.l40s_switch(), "0.33.0", nccl_ib_disable=False)
    assert variable(asked, "NCCL_IB_DISABLE") is None


def test_replay_and_simulated_gate_are_said() -> None:
    assert not tuned(cases.l40s_switch(), "0.33.0").simulated
    assert tuned(cases.l40s_switch(**cases.REPLAY), "0.33.0").simulated
    gate = GateResult(verdict=GateVerdict.PASS, reason="", simulated=True)
    assert tuned(cases.l40s_switch(), "0.33.0", gate=gate).simulated


@pytest.mark.parametrize(
    ("policy_model", "plan_model", "expected"),
    [
        (None, "org/name", "org/name"),
        ("short", "org/name", "org/name"),
        ("other/name", "org/name", "other/name"),
        ("/models/llama/config.json", "x", "/models/llama"),
        ("/models/llama/", "x", "/models/llama"),
        ("short", "short", cases.LLAMA),
    ],
)
def test_what_is_served(policy_model: str | None, plan_model: str, expected: str) -> None:
    config = tuned(cases.l40s_switch(), "0.33.0", model=policy_model,
                   plan_fields={"model": plan_model})  # fmt: skip
    assert config.model == expected


@pytest.mark.parametrize(
    "model", ["./m/config.json", "m/config.json", "~/m", "/", "-m/x", "a\tb/c"]
)
def test_models_that_no_service_can_find_are_refused(model: str) -> None:
    with pytest.raises(UsageError):
        tuned(cases.l40s_switch(), "0.33.0", model=model)


def test_a_release_between_two_known_ones_is_said() -> None:
    config = tuned(cases.l40s_switch(), "0.7.2.post1")
    assert not any("flag table" in one for one in config.warnings)
    config = tuned(cases.l40s_switch(), "0.12.3")
    assert any("0.12.0 and 0.13.0" in one for one in config.warnings)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("vllm/vllm-openai:v0.8.5", True),
        ("vllm/vllm-openai:v0.7.2", False),
        ("registry.local:5000/vllm:v0.7.2-cu128@sha256:" + "0" * 64, False),
        ("registry.local:5000/vllm", False),
    ],
)
def test_an_image_of_another_release_is_said(image: str, said: bool) -> None:
    config = tuned(cases.l40s_switch(), "0.7.2", image=image)
    assert any("is tagged" in one for one in config.warnings) is said
    assert any("named by tag" in one for one in config.warnings) is ("@sha256" not in image)


def test_a_node_without_known_gpus_still_has_a_configuration() -> None:
    node = build.facts([])
    config = tuned(node, "0.33.0", verified=False, gate=None)
    assert config.gpu_uuids == ()
    assert config.interconnect is Interconnect.UNKNOWN
    assert value(config, "disable-custom-all-reduce") is True
    assert any("not known" in one for one in config.warnings)


def test_every_release_is_known_to_itself() -> None:
    assert all(flags.is_known(version) for version in flags.versions())
