"""Writing again: the count, the finding, and when hands stay off."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest

from nodeprep.acs.again import hands_off, may_write_in_use, saved_in_this_boot
from nodeprep.acs.saved import with_originals
from nodeprep.audit.run import audit
from nodeprep.errors import UsageError
from nodeprep.model.finding import Finding, Severity
from nodeprep.settings import AcsPolicy, Settings
from nodeprep.state import ACS_RETIRED
from tests.acs.bench import Bench, make_bench, port

DAY = date(2027, 1, 31)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def counts(bench: Bench) -> dict[str, int]:
    state = bench.store.load_acs()
    assert state is not None
    return {saved.bdf: saved.rearmed for saved in state.ports}


def finding(bench: Bench, settings: Settings | None = None) -> Finding | None:
    facts = msgspec.structs.replace(bench.facts, acs_saved=bench.store.load_acs())
    found = audit(facts, settings or Settings(), DAY)
    return next((one for one in found if one.id == "acs-rearmed"), None)


def test_a_first_write_is_no_rearm(bench: Bench) -> None:
    bench.apply()
    assert counts(bench) == {port(0): 0, port(1): 0, port(2): 0}
    assert finding(bench) is None


def test_each_port_is_counted_when_it_comes_back(bench: Bench) -> None:
    bench.apply()
    for _ in range(2):
        bench.host.set_control(port(1), 0x1D)
        bench.apply()
    assert counts(bench) == {port(0): 0, port(1): 2, port(2): 0}
    one = finding(bench)
    assert one is not None
    assert (one.severity, one.subject) == (Severity.INFO, port(1))
    assert "armed again 2x" in one.evidence[0].text


def test_often_enough_is_a_warning(bench: Bench) -> None:
    bench.apply()
    bench.host.set_control(port(1), 0x1D)
    bench.apply()
    once = msgspec.structs.replace(Settings(), acs=AcsPolicy(rearm_alert=1))
    found = finding(bench, once)
    assert found is not None
    assert found.severity is Severity.WARNING


def test_a_bit_that_does_not_redirect_is_no_rearm(bench: Bench) -> None:
    bench.apply(bench.plan(all_bits=True))
    bench.host.set_control(port(0), 0x11)
    bench.host.set_control(port(1), 0x1D)
    bench.apply(bench.plan())
    assert counts(bench) == {port(0): 0, port(1): 1, port(2): 0}


def test_the_count_of_another_boot_is_none_of_this_one(bench: Bench) -> None:
    bench.apply()
    bench.host.set_control(port(1), 0x1D)
    bench.apply()
    bench.facts = msgspec.structs.replace(bench.facts, boot_id="next")
    assert finding(bench) is None
    assert saved_in_this_boot(bench.facts, bench.store) is None


def test_hands_stay_off_after_a_restore_until_somebody_applies(bench: Bench) -> None:
    policy = AcsPolicy()
    assert hands_off(policy, bench.facts, bench.store) is None
    bench.apply()
    assert hands_off(policy, bench.facts, bench.store) is None
    bench.restore()
    assert "restored in this boot" in (hands_off(policy, bench.facts, bench.store) or "")
    next_boot = msgspec.structs.replace(bench.facts, boot_id="next")
    assert hands_off(policy, next_boot, bench.store) is None
    bench.apply()
    assert hands_off(policy, bench.facts, bench.store) is None


def test_a_damaged_retired_state_holds_nobody_back(bench: Bench) -> None:
    bench.apply()
    bench.restore()
    (bench.store.state_dir / ACS_RETIRED).write_text("{")
    assert hands_off(AcsPolicy(), bench.facts, bench.store) is None


@pytest.mark.parametrize(
    ("reapply", "writes", "in_use"),
    [("idle", True, False), ("always", True, True), ("never", False, False)],
)
def test_the_policy(bench: Bench, reapply: str, writes: bool, in_use: bool) -> None:
    policy = AcsPolicy(reapply=reapply)
    assert (hands_off(policy, bench.facts, bench.store) is None) is writes
    assert may_write_in_use(policy) is in_use


def test_a_policy_that_does_not_exist(bench: Bench) -> None:
    with pytest.raises(UsageError, match="no policy"):
        hands_off(AcsPolicy(reapply="sometimes"), bench.facts, bench.store)


def test_the_words_that_the_next_boot_begins_with(bench: Bench) -> None:
    before = bench.plan()
    bench.apply()
    assert bench.plan().writes == ()
    first = with_originals(bench.read_again(), bench.store.load_acs())
    ports = {bdf: one.acs for bdf, one in first.functions.items()}
    assert ports == {bdf: one.acs for bdf, one in bench.facts.functions.items()}
    assert before.kernel_parameter
