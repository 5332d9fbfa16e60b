"""Every reason not to change anything, and that each is silent where there is nothing to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.model.acs import Refusal
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.gpu import GpuProcess
from nodeprep.model.pci import AcsStatus, ConfigAccess, PortType
from nodeprep.model.topology import P2pStatus
from tests.build import bridge, facts, function, gpu_function, groups_of, switch_of

GROUP = parse_pairs("group")


def refused(node: NodeFacts, **options: Any) -> tuple[Refusal, ...]:
    return plan(node, pairs=GROUP, **options).refusals


def with_platform(node: NodeFacts, **fields: Any) -> NodeFacts:
    platform = msgspec.structs.replace(node.platform, **fields)
    return msgspec.structs.replace(node, platform=platform)


def changed(node: NodeFacts, bdf: str, **fields: Any) -> NodeFacts:
    """A node with one function altered."""
    functions = dict(node.functions)
    key = next(key for key in functions if key == bdf)
    functions[key] = msgspec.structs.replace(functions[key], **fields)
    return msgspec.structs.replace(node, functions=functions)


def node(control: int = 0x1D, **fields: Any) -> NodeFacts:
    """Two GPUs and an NVMe drive under one switch, every function in an IOMMU group of its own."""
    functions = [
        *switch_of(2, control=control),
        bridge("42:08.0", parent="41:00.0", control=control, iommu_group=50),
        function("50:00.0", parent="42:08.0", vendor_id=0x144D, device_id=0xA80A,
                 class_code=0x010802, iommu_group=51),
        bridge("80:01.1", port_type=PortType.ROOT_PORT, control=control, root_bus="0000:80",
               iommu_group=60),
        function("81:00.0", parent="80:01.1", vendor_id=0x15B3, device_id=0x1021,
                 class_code=0x020000, root_bus="0000:80", iommu_group=61),
    ]  # fmt: skip
    return facts(functions, iommu_groups=groups_of(functions), **fields)


def guest() -> NodeFacts:
    return with_platform(node(), virtualization="kvm")


def test_nothing_is_refused_on_a_plain_node() -> None:
    assert refused(node()) == ()


def test_a_guest_is_refused_unless_policy_allows_it() -> None:
    (refusal,) = refused(guest())
    assert "this is a guest (kvm)" in refusal.reason
    assert "acs.allow_in_guest" in refusal.hint
    assert refused(guest(), allow_in_guest=True) == ()


@pytest.mark.parametrize("origin", [Origin.LIVE, Origin.REPLAY])
def test_unknown_virtualization_is_refused(origin: Origin) -> None:
    unknown = with_platform(node(origin=origin), virtualization=None)
    (refusal,) = refused(unknown)
    assert "not known whether this is a guest" in refusal.reason


def test_a_fabricated_tree_states_nothing_and_is_not_refused() -> None:
    silent = with_platform(
        node(origin=Origin.FABRICATED, is_root=None), virtualization=None, lockdown=None
    )
    assert refused(silent) == ()
    assert refused(with_platform(silent, virtualization="kvm"))


@pytest.mark.parametrize("mode", ["integrity", "confidentiality"])
def test_lockdown_is_refused_and_offers_the_kernel_parameter(mode: str) -> None:
    (refusal,) = refused(with_platform(node(), lockdown=mode))
    assert f"lockdown ({mode})" in refusal.reason
    assert "pci=disable_acs_redir=0000:40:01.1/00.0/00.0" in refusal.hint
    assert "firmware setup" in refusal.hint


def test_lockdown_on_a_kernel_without_parameter_leaves_the_firmware() -> None:
    old = with_platform(node(), lockdown="integrity", kernel_release="4.18.0-553.el8")
    (refusal,) = refused(old)
    assert refusal.hint == "switch ACS off in the firmware setup"


@pytest.mark.parametrize(
    "fields",
    [{"driver": "vfio-pci"}, {"driver_override": "vfio-pci", "driver": None},
     {"driver": "nvgrace_gpu_vfio_pci"}, {"driver": "xen-pciback"}],
)  # fmt: skip
def test_a_gpu_given_to_a_guest_is_refused(fields: dict[str, Any]) -> None:
    (refusal,) = refused(changed(node(), "0000:43:00.0", **fields))
    assert refusal.subject == "0000:43:00.0"
    assert str(fields.get("driver") or fields["driver_override"]) in refusal.reason


def test_a_guests_device_beside_the_gpus_under_their_switch_is_refused() -> None:
    (refusal,) = refused(changed(node(), "0000:50:00.0", driver="vfio-pci"))
    assert refusal.subject == "0000:50:00.0"


def test_a_guests_device_under_another_root_port_is_no_reason() -> None:
    assert refused(changed(node(), "0000:81:00.0", driver="vfio-pci")) == ()


def test_a_guests_device_under_a_switch_that_is_clean_already_is_no_reason() -> None:
    place: dict[str, Any] = {"root_bus": "0000:80"}
    functions = [
        *switch_of(2),
        bridge("80:01.1", port_type=PortType.ROOT_PORT, control=0x11, **place),
        bridge("81:00.0", parent="80:01.1", port_type=PortType.UPSTREAM, **place),
        bridge("82:00.0", parent="81:00.0", control=0x11, **place),
        gpu_function("83:00.0", parent="82:00.0", driver="vfio-pci", **place),
        bridge("82:01.0", parent="81:00.0", control=0x11, **place),
        gpu_function("84:00.0", parent="82:01.0", **place),
    ]
    assert refused(facts(functions, p2p=P2pStatus.CNS)) == ()


def test_a_guests_device_in_the_group_of_a_gpu_is_refused() -> None:
    shared = changed(node(), "0000:81:00.0", driver="vfio-pci", iommu_group=30)
    (refusal,) = refused(shared)
    assert refusal.subject == "0000:81:00.0"


def test_a_group_in_the_hands_of_user_space_is_refused() -> None:
    functions = list(node().functions.values())
    owned = facts(functions, iommu_groups=groups_of(functions, kind="unmanaged"))
    subjects = {refusal.subject for refusal in refused(owned)}
    assert "IOMMU group 30" in subjects
    assert "IOMMU group 61" not in subjects


def test_a_parent_of_mediated_devices_is_refused() -> None:
    (refusal,) = refused(changed(node(), "0000:43:00.0", mdev_parent=True))
    assert "vGPU" in refusal.reason


def test_virtual_functions_below_a_target_are_refused() -> None:
    (refusal,) = refused(changed(node(), "0000:44:00.0", sriov_vfs=4))
    assert "4 SR-IOV virtual functions" in refusal.reason


def test_a_card_that_could_have_virtual_functions_but_has_none_is_no_reason() -> None:
    assert refused(changed(node(), "0000:44:00.0", sriov_vfs=0)) == ()


def test_virtual_functions_behind_another_port_are_no_reason() -> None:
    assert refused(changed(node(), "0000:50:00.0", sriov_vfs=4)) == ()


def test_a_gpu_in_use_is_refused() -> None:
    busy = node(gpu_fields={"processes": (GpuProcess(pid=4711, memory_bytes=1 << 30),)})
    reasons = [refusal.reason for refusal in refused(busy)]
    assert any("GPU0 is in use (process 4711)" in reason for reason in reasons)


def test_a_busy_gpu_behind_untouched_ports_is_no_reason() -> None:
    functions = [*switch_of(2), bridge("80:01.1", port_type=PortType.ROOT_PORT, root_bus="0000:80"),
                 gpu_function("81:00.0", parent="80:01.1", root_bus="0000:80")]  # fmt: skip
    quiet = facts(functions, p2p=P2pStatus.CNS)
    busy = msgspec.structs.replace(
        quiet.gpus[2], processes=(GpuProcess(pid=4711, memory_bytes=None),)
    )
    assert refused(msgspec.structs.replace(quiet, gpus=(*quiet.gpus[:2], busy))) == ()


def test_one_device_is_one_refusal_though_its_group_tells_the_same() -> None:
    given = changed(node(), "0000:43:00.0", driver="vfio-pci")
    groups = groups_of(given.functions.values())
    groups[30] = msgspec.structs.replace(groups[30], type="unmanaged")
    (refusal,) = refused(msgspec.structs.replace(given, iommu_groups=groups))
    assert refusal.subject == "0000:43:00.0"


@pytest.mark.parametrize(
    ("access", "hint"),
    [
        (ConfigAccess.HEADER, "run as root"),
        (ConfigAccess.CONVENTIONAL, "MMCONFIG"),
        (ConfigAccess.NONE, "off the bus"),
        (ConfigAccess.FULL, "lspci -vvv"),
    ],
)
def test_an_unknown_port_on_the_way_is_refused(access: ConfigAccess, hint: str) -> None:
    dark = changed(
        node(control=0x11), "0000:42:00.0",
        acs=None, acs_status=AcsStatus.UNKNOWN, config_access=access,
    )  # fmt: skip
    (refusal,) = refused(dark)
    assert refusal.subject == "0000:42:00.0"
    assert "GPU0-GPU1" in refusal.reason
    assert hint in refusal.hint


def test_an_unknown_port_elsewhere_is_no_reason() -> None:
    dark = changed(node(), "0000:80:01.1", acs=None, acs_status=AcsStatus.UNKNOWN)
    assert refused(dark) == ()


EVERY_REASON: list[Callable[[NodeFacts], NodeFacts]] = [
    lambda one: with_platform(one, virtualization="kvm"),
    lambda one: with_platform(one, virtualization=None),
    lambda one: with_platform(one, lockdown="integrity"),
    lambda one: changed(one, "0000:43:00.0", driver="vfio-pci"),
    lambda one: changed(one, "0000:43:00.0", sriov_vfs=4),
    lambda one: changed(one, "0000:43:00.0", mdev_parent=True),
]


@pytest.mark.parametrize("spoil", EVERY_REASON)
def test_nothing_is_refused_where_there_is_nothing_to_change(
    spoil: Callable[[NodeFacts], NodeFacts],
) -> None:
    assert refused(spoil(node())) != ()
    assert plan(spoil(node(control=0x11)), pairs=GROUP).actions == ()


@pytest.mark.parametrize("spoil", EVERY_REASON)
def test_the_writes_stay_in_the_plan_as_information(
    spoil: Callable[[NodeFacts], NodeFacts],
) -> None:
    assert len(plan(spoil(node()), pairs=GROUP).writes) == 2


def test_refusals_have_different_texts_and_a_next_step() -> None:
    found = [refusal for spoil in EVERY_REASON for refusal in refused(spoil(node()))]
    assert len({refusal.reason for refusal in found}) == len(EVERY_REASON)
    assert all(refusal.hint for refusal in found)
