"""The guards under the lock: what changed between the plan and the write stops it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from nodeprep.errors import Refused
from nodeprep.model.acs import AcsPlan
from nodeprep.model.gpu import GpuProcess
from nodeprep.model.pci import Bdf
from nodeprep.model.readings import NvmlGpu, NvmlProcess, NvmlReading
from tests.acs.bench import Bench, make_bench
from tests.acs.memory_host import DEVICES

CARD = "0000:43:00.0"
NEW = "0000:50:00.0"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def _bound(bench: Bench) -> None:
    bench.host.links[f"{CARD}/driver"] = "../../../bus/pci/drivers/vfio-pci"


def _overridden(bench: Bench) -> None:
    bench.host.texts[f"{DEVICES}{CARD}/driver_override"] = "vfio-pci"


def _shared(bench: Bench) -> None:
    bench.host.texts[f"{DEVICES}{CARD}/sriov_numvfs"] = "4"


def _locked(bench: Bench) -> None:
    bench.host.texts["/sys/kernel/security/lockdown"] = "none [integrity] confidentiality"


def _user_space(bench: Bench) -> None:
    bench.host.links[f"{CARD}/iommu_group"] = "../../../kernel/iommu_groups/30"
    bench.host.texts["/sys/kernel/iommu_groups/30/type"] = "unmanaged"


def _plugged(bench: Bench) -> None:
    """A card that the plan never saw, below the same switch, in the hands of a guest."""
    bench.host.spaces[Bdf(NEW)] = bytearray(bench.host.spaces[Bdf(CARD)])
    bench.host.links[NEW] = bench.host.links["0000:42:00.0"] + f"/{NEW}"
    bench.host.links[f"{NEW}/driver"] = "../../../bus/pci/drivers/vfio-pci"


def _busy(bench: Bench) -> None:
    gpu = NvmlGpu(bus_id=f"0000{CARD}", processes=(NvmlProcess(pid=4711, memory_bytes=1 << 30),))
    bench.host.gpus = NvmlReading(driver_version="570.1", gpus=(gpu,), pairs=())


SPOILED: list[tuple[Callable[[Bench], None], str]] = [
    (_bound, "driver vfio-pci"),
    (_overridden, "driver_override vfio-pci"),
    (_shared, "4 SR-IOV virtual functions"),
    (_locked, r"lockdown \(integrity\)"),
    (_user_space, "IOMMU group 30 is in the hands of user space"),
    (_plugged, f"{NEW} .*driver vfio-pci"),
    (_busy, "GPU0 is in use"),
]


def idle(bench: Bench) -> None:
    """The driver said that nothing uses the GPUs."""
    gpus = tuple(msgspec.structs.replace(gpu, processes=()) for gpu in bench.facts.gpus)
    bench.facts = msgspec.structs.replace(bench.facts, gpus=gpus)


@pytest.mark.parametrize(("spoil", "what"), SPOILED)
def test_what_came_after_the_plan_stops_it(
    bench: Bench, spoil: Callable[[Bench], None], what: str
) -> None:
    idle(bench)
    found = bench.plan()
    assert not found.refusals
    spoil(bench)
    with pytest.raises(Refused, match=what):
        bench.apply(found)
    assert bench.host.calls == []
    assert bench.store.load_acs() is None


@pytest.mark.parametrize(("spoil", "what"), SPOILED)
def test_a_reason_forced_for_the_plan_does_not_cover_what_came_later(
    bench: Bench, spoil: Callable[[Bench], None], what: str
) -> None:
    idle(bench)
    forced = msgspec.structs.replace(bench.plan(), forced_reason="a test")
    spoil(bench)
    with pytest.raises(Refused, match=what):
        bench.apply(forced)
    assert bench.host.calls == []


def _known(bench: Bench) -> AcsPlan:
    """A plan that refuses, since a GPU is in use, forced."""
    gpus = tuple(
        msgspec.structs.replace(gpu, processes=(GpuProcess(pid=4711, memory_bytes=None),))
        for gpu in bench.facts.gpus
    )
    bench.facts = msgspec.structs.replace(bench.facts, gpus=gpus)
    found = bench.plan(forced_reason="a test")
    assert found.refusals
    return found


def test_a_refusal_that_was_forced_stays_forced(bench: Bench) -> None:
    assert bench.apply(_known(bench))
    assert bench.words() == [0x11] * 3


def test_gpus_in_use_are_no_reason_where_that_was_allowed(bench: Bench) -> None:
    idle(bench)
    found = bench.plan(allow_in_use=True)
    _busy(bench)
    assert bench.apply(found)


def test_a_driver_that_stops_answering_is_no_new_reason(bench: Bench) -> None:
    idle(bench)
    bench.host.gpus = None
    assert bench.apply()
