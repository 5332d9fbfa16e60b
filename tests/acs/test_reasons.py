"""What the plan says beside its writes: warnings, and why a port is in or out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.errors import UsageError
from nodeprep.model.gpu import GpuProcess
from nodeprep.model.topology import P2pStatus
from tests.acs.test_guards import changed, node, refused, with_platform
from tests.build import bridge, facts, function, gpu_function, switch_of

GROUP = parse_pairs("group")


def warnings(control: int = 0x1D, kind: str = "none", **options: Any) -> tuple[str, ...]:
    return plan(with_platform(node(control), virtualization=kind), pairs=GROUP, **options).warnings


def test_nothing_beyond_the_default_is_no_warning() -> None:
    assert warnings() == ()
    assert warnings(kind="kvm") == ()


def test_all_bits_warn_where_something_is_written() -> None:
    assert [one.partition(":")[0] for one in warnings(all_bits=True)] == ["all bits"]
    assert warnings(0x11, all_bits=True) == ()


def test_a_guest_is_named_where_it_is_written_to() -> None:
    (said,) = warnings(kind="kvm", allow_in_guest=True)
    assert "kvm" in said
    assert warnings(allow_in_guest=True) == ()


def test_an_ordinary_override_gives_nothing_away() -> None:
    plain = changed(node(), "0000:50:00.0", driver_override="nvme")
    assert refused(plain, allow_in_use=True) == ()
    assert refused(changed(node(), "0000:50:00.0", driver_override="pciback"), allow_in_use=True)


def test_the_first_processes_are_named() -> None:
    busy = tuple(GpuProcess(pid=pid, memory_bytes=None) for pid in range(11, 17))
    used = facts(switch_of(2), gpu_fields={"processes": busy})
    assert "(process 11, 12, 13, 14)" in refused(used)[0].reason


def test_the_gpu_behind_the_last_is_not_there() -> None:
    assert plan(facts(switch_of(3)), pairs=parse_pairs("1-2")).writes
    with pytest.raises(UsageError, match="no GPU3: this node has 3"):
        plan(facts(switch_of(3)), pairs=parse_pairs("0-3"))


def reasons(functions: list[Any], **fields: Any) -> dict[str, str]:
    found = plan(facts(functions, **fields), pairs=GROUP)
    return {one.bdf: one.reason for one in found.choices}


@pytest.mark.parametrize(
    ("below", "word"),
    [
        ({"vendor_id": 0x10DE, "class_code": 0x068000}, "NVSwitch"),
        ({"vendor_id": 0x1000, "class_code": 0x068000}, "a bridge device"),
        ({"vendor_id": 0x144D, "class_code": 0x010802}, "NVMe"),
        ({"vendor_id": 0x15B3, "class_code": 0x020000}, "network"),
        ({"vendor_id": 0x10DE, "class_code": 0x0C0330}, "other devices"),
    ],
)
def test_what_hangs_below_a_port_without_gpus(below: dict[str, int], word: str) -> None:
    port = bridge("42:09.0", parent="41:00.0", control=0x1D)
    told = reasons(
        [*switch_of(2), port, function("60:00.0", parent="42:09.0", device_id=1, **below)]
    )
    assert told["0000:42:09.0"] == f"no GPU below it: {word}"


def test_a_port_in_the_plan_names_its_bits_and_pairs() -> None:
    told = reasons(switch_of(2))
    assert told["0000:42:00.0"].startswith(
        "ReqRedir, CmpltRedir send the peer traffic of GPU0-GPU1"
    )
    assert "turns below it" in told["0000:40:01.1"]


def test_a_refused_pair_gives_its_ports_the_reason() -> None:
    ports = [bridge(f"{bus}:01.1", control=0x1D, root_bus=f"0000:{bus}") for bus in ("10", "20")]
    cards = [gpu_function(f"{bus + 1}:00.0", parent=f"{bus}:01.1", root_bus=f"0000:{bus}")
             for bus in (10, 20)]  # fmt: skip
    told = reasons([*ports, *cards], p2p=P2pStatus.CNS)
    assert set(told) == {"0000:10:01.1", "0000:20:01.1"}
    assert all("GPU0-GPU1" in reason for reason in told.values())


def test_plans_are_values() -> None:
    found = plan(node(), pairs=GROUP)
    with pytest.raises(AttributeError):
        found.forced_reason = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        GROUP.mode = "all"  # type: ignore[misc]
    assert msgspec.json.encode(found)
