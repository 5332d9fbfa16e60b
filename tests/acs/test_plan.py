"""What a plan holds, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.errors import UsageError
from nodeprep.model.acs import AcsPlan
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import REDIRECT, AcsStatus, ConfigAccess, PciFunction, PortType
from nodeprep.model.topology import P2pStatus, PathLevel
from tests.build import bridge, facts, function, gpu_function, groups_of, switch_of

GROUP = parse_pairs("group")
GEN: dict[str, Any] = {"root_bus": "0000:40"}


def written(found: AcsPlan) -> dict[str, tuple[str, str]]:
    return {write.bdf: (write.before, write.after) for write in found.writes}


def reason_of(found: AcsPlan, bdf: str) -> str:
    return next(choice.reason for choice in found.choices if choice.bdf == bdf)


def direct_pair(control: int = 0x1D, **fields: Any) -> NodeFacts:
    """Two GPUs, each on a root port of its own."""
    functions = [
        bridge("10:01.1", port_type=PortType.ROOT_PORT, control=control),
        gpu_function("11:00.0", parent="10:01.1"),
        bridge("20:01.1", port_type=PortType.ROOT_PORT, control=control),
        gpu_function("21:00.0", parent="20:01.1"),
    ]
    return facts(functions, **fields)


def two_levels(controls: dict[str, int]) -> list[PciFunction]:
    """A switch below a switch: GPUs 0 and 1 share the lower one, GPU 2 hangs on the upper one."""
    return [
        bridge("40:01.1", port_type=PortType.ROOT_PORT, control=0x1D, **GEN),
        bridge("41:00.0", parent="40:01.1", port_type=PortType.UPSTREAM, **GEN),
        bridge("42:00.0", parent="41:00.0", control=controls["upper"], **GEN),
        bridge("43:00.0", parent="42:00.0", port_type=PortType.UPSTREAM, **GEN),
        bridge("44:00.0", parent="43:00.0", control=controls["lower0"], **GEN),
        gpu_function("45:00.0", parent="44:00.0", **GEN),
        bridge("44:01.0", parent="43:00.0", control=controls["lower1"], **GEN),
        gpu_function("46:00.0", parent="44:01.0", **GEN),
        bridge("42:01.0", parent="41:00.0", control=controls["side"], **GEN),
        gpu_function("47:00.0", parent="42:01.0", **GEN),
    ]


def test_the_ports_below_the_common_bridge_lose_only_their_redirect_bits() -> None:
    found = plan(facts(switch_of(4)), pairs=GROUP)
    assert written(found) == {f"0000:42:0{slot}.0": ("001d", "0011") for slot in range(4)}
    assert not found.refusals
    assert {write.mask for write in found.writes} == {0x0C}


def test_each_write_tells_pairs_port_and_groups() -> None:
    functions = switch_of(3)
    node = facts(functions, iommu_groups=groups_of(functions))
    first = plan(node, pairs=GROUP).writes[0]
    assert first.pairs == ("GPU0-GPU1", "GPU0-GPU2")
    assert first.port == "downstream port 1000:c010"
    assert first.weakens_groups == (20, 30)
    assert "ReqRedir, CmpltRedir" in first.reason


def test_a_root_port_above_the_turning_point_stays() -> None:
    found = plan(facts(switch_of(2)), pairs=GROUP)
    assert "0000:40:01.1" not in written(found)
    assert "turns below it" in reason_of(found, "0000:40:01.1")


def test_the_turning_point_itself_stays() -> None:
    functions = switch_of(2)
    functions[1] = bridge("41:00.0", parent="40:01.1", port_type=PortType.UPSTREAM, control=0x0C)
    found = plan(facts(functions), pairs=GROUP)
    assert "0000:41:00.0" not in written(found)
    assert "turns below it" in reason_of(found, "0000:41:00.0")


def test_ports_of_both_levels_count_where_the_way_passes_them() -> None:
    controls = {"upper": 0x1D, "lower0": 0x1F, "lower1": 0x11, "side": 0x2C}
    found = plan(facts(two_levels(controls)), pairs=GROUP)
    assert written(found) == {
        "0000:42:00.0": ("001d", "0011"),
        "0000:42:01.0": ("002c", "0000"),
        "0000:44:00.0": ("001f", "0013"),
    }
    assert reason_of(found, "0000:44:01.0") == "no redirect bit is on (0011)"


def test_only_the_ports_of_chosen_pairs_are_touched() -> None:
    controls = dict.fromkeys(("upper", "lower0", "lower1", "side"), 0x1D)
    found = plan(facts(two_levels(controls)), pairs=parse_pairs("0-1"))
    assert set(written(found)) == {"0000:44:00.0", "0000:44:01.0"}
    assert "turns below it" in reason_of(found, "0000:42:00.0")
    assert reason_of(found, "0000:42:01.0") == "no wanted pair has its way through it"


def test_an_upstream_port_on_the_way_counts_as_the_kernel_counts_it() -> None:
    functions = two_levels(dict.fromkeys(("upper", "lower0", "lower1", "side"), 0x11))
    functions[3] = bridge("43:00.0", parent="42:00.0", port_type=PortType.UPSTREAM, control=0x0C)
    assert written(plan(facts(functions), pairs=GROUP)) == {"0000:43:00.0": ("000c", "0000")}


def test_all_bits_clears_whole_words_of_the_same_ports() -> None:
    found = plan(facts(switch_of(2)), pairs=GROUP, all_bits=True)
    assert written(found) == {f"0000:42:0{slot}.0": ("001d", "0000") for slot in range(2)}
    assert "isolation too" in found.writes[0].reason


@pytest.mark.parametrize(
    "link", [{"nvlinks": 18}, {"driver_level": PathLevel.NVLINK, "nvlinks": None}]
)
def test_nvlink_pairs_need_nothing(link: dict[str, Any]) -> None:
    found = plan(facts(switch_of(2), **link), pairs=GROUP)
    assert not found.actions
    assert "connected by NVLink" in reason_of(found, "0000:42:00.0")
    assert found.kernel_parameter == ""


def test_unknown_nvlinks_do_not_excuse_a_redirecting_port() -> None:
    assert plan(facts(switch_of(2), nvlinks=None, p2p=None), pairs=GROUP).writes


def test_directly_attached_pairs_need_their_root_ports_where_p2p_is_granted() -> None:
    found = plan(direct_pair(p2p=P2pStatus.OK), pairs=GROUP)
    assert set(written(found)) == {"0000:10:01.1", "0000:20:01.1"}


@pytest.mark.parametrize(
    ("status", "word"), [(P2pStatus.CNS, "does not grant"), (None, "is not known to grant")]
)
def test_directly_attached_pairs_without_p2p_are_left_alone(
    status: P2pStatus | None, word: str
) -> None:
    found = plan(direct_pair(p2p=status), pairs=GROUP)
    assert not found.actions
    assert word in reason_of(found, "0000:10:01.1")


def test_directly_attached_pairs_count_when_asked_for_by_name() -> None:
    found = plan(direct_pair(p2p=P2pStatus.CNS), pairs=parse_pairs("0-1"))
    assert set(written(found)) == {"0000:10:01.1", "0000:20:01.1"}


def test_branches_without_gpus_are_never_touched() -> None:
    functions = [
        *switch_of(2),
        bridge("42:08.0", parent="41:00.0", control=0x1D),
        function("50:00.0", parent="42:08.0", vendor_id=0x144D, device_id=0xA80A,
                 class_code=0x010802, acs=None),
        bridge("42:09.0", parent="41:00.0", control=0x1D),
        function("51:00.0", parent="42:09.0", vendor_id=0x10DE, device_id=0x22A3,
                 class_code=0x068000),
        bridge("42:0a.0", parent="41:00.0", control=0x1D),
        function("52:00.0", parent="42:0a.0", vendor_id=0x15B3, device_id=0x1021,
                 class_code=0x020000),
        bridge("42:0b.0", parent="41:00.0", control=0x1D),
    ]  # fmt: skip
    found = plan(facts(functions), pairs=GROUP)
    assert set(written(found)) == {"0000:42:00.0", "0000:42:01.0"}
    assert "NVMe" in reason_of(found, "0000:42:08.0")
    assert "NVSwitch" in reason_of(found, "0000:42:09.0")
    assert "network" in reason_of(found, "0000:42:0a.0")
    assert "an empty slot" in reason_of(found, "0000:42:0b.0")


def test_a_gpu_card_with_its_own_bridge_is_followed_down_to_it() -> None:
    functions = [
        *switch_of(1),
        bridge("42:08.0", parent="41:00.0", control=0x11),
        bridge("50:00.0", parent="42:08.0", port_type=PortType.UPSTREAM),
        bridge("51:01.0", parent="50:00.0", control=0x1D),
        gpu_function("52:00.0", parent="51:01.0"),
    ]
    found = plan(facts(functions), pairs=GROUP)
    assert set(written(found)) == {"0000:42:00.0", "0000:51:01.0"}


def test_endpoints_with_redirect_bits_are_left_alone() -> None:
    functions = switch_of(2, control=0x11)
    functions[3] = gpu_function("43:00.0", parent="42:00.0", acs=bridge("1:0.0", control=0x0C).acs)
    found = plan(facts(functions), pairs=GROUP)
    assert not found.actions


def test_a_clean_node_has_an_empty_plan() -> None:
    found = plan(facts(switch_of(4, control=0x11)), pairs=GROUP)
    assert not found.actions
    assert found.kernel_parameter == ""
    assert all(not choice.included for choice in found.choices)


def test_the_plan_offers_its_kernel_parameter() -> None:
    found = plan(facts(switch_of(2)), pairs=GROUP)
    assert found.kernel_parameter == (
        "pci=disable_acs_redir=0000:40:01.1/00.0/00.0;0000:40:01.1/00.0/01.0"
    )
    assert any("after the reboot" in note for note in found.notes)


def test_a_gpu_that_is_not_there_is_an_error_of_the_caller() -> None:
    with pytest.raises(UsageError, match="GPU9"):
        plan(facts(switch_of(2)), pairs=parse_pairs("0-9"))


def test_a_gpu_off_the_tree_is_a_refusal_not_a_crash() -> None:
    whole = facts(switch_of(2))
    functions = {bdf: one for bdf, one in whole.functions.items() if bdf != "0000:44:00.0"}
    lost = NodeFacts(
        origin=whole.origin, functions=functions, gpus=whole.gpus, pairs=whole.pairs,
        platform=whole.platform,
    )  # fmt: skip
    found = plan(lost, pairs=GROUP)
    assert [refusal.subject for refusal in found.refusals] == ["GPU1 (0000:44:00.0)"]


def test_an_unreadable_port_is_a_choice_with_its_reason() -> None:
    functions = switch_of(2)
    functions[2] = bridge(
        "42:00.0", parent="41:00.0", acs_status=AcsStatus.UNKNOWN, config_access=ConfigAccess.HEADER
    )
    found = plan(facts(functions), pairs=GROUP)
    assert reason_of(found, "0000:42:00.0") == "its ACS words are not known"
    assert set(written(found)) == {"0000:42:01.0"}


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_an_empty_reason_forces_nothing(reason: str | None) -> None:
    assert plan(facts(switch_of(2)), pairs=GROUP, forced_reason=reason).forced_reason is None


@given(words=st.lists(st.integers(0, 0x7F), min_size=2, max_size=6))
def test_for_any_words_only_redirect_bits_go(words: list[int]) -> None:
    functions = switch_of(len(words))
    for slot, word in enumerate(words):
        functions[2 + 2 * slot] = bridge(f"42:{slot:02x}.0", parent="41:00.0", control=word, **GEN)
    found = plan(facts(functions), pairs=GROUP)
    expected = {
        f"0000:42:{slot:02x}.0": (f"{word:04x}", f"{word & ~0x2C:04x}")
        for slot, word in enumerate(words)
        if word & REDIRECT
    }
    assert written(found) == expected
    included = {choice.bdf for choice in found.choices if choice.included}
    assert included == set(expected)
