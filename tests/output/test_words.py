from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.finding import Finding, Remedy, Severity, Unknown
from nodeprep.model.pci import LinkStatus
from nodeprep.output import words
from tests.output.documents.changes import ACS_NOTHING, ACS_PLAN, ACS_REFUSED, ACS_ROLLED_BACK
from tests.output.documents.plans import rank


def finding(
    severity: Severity, remedy: str = "", *, resolved: bool = False, waived: bool = False
) -> Finding:
    return Finding(
        id="a-b", severity=severity, subject="s", summary="", cause="",
        remedy=Remedy(text=remedy, commands=("run it",)) if remedy else None,
        resolved=resolved, waived=waived,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("duration_s", "shown"), [(0.421, "0.42 s"), (41.4, "41 s"), (192.0, "3 min 12 s")]
)
def test_seconds(duration_s: float, shown: str) -> None:
    assert words.seconds(duration_s) == shown


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        (None, "?"),
        (LinkStatus(), "?"),
        (LinkStatus(speed_gts=16.0, width=16, max_speed_gts=16.0, max_width=16), "gen4 x16"),
        (LinkStatus(speed_gts=2.5, width=8, max_speed_gts=32.0, max_width=16), "gen1/5 x8/16"),
        (LinkStatus(speed_gts=16.0, width=16), "gen4 x16"),
        (LinkStatus(width=4), "gen? x4"),
        (LinkStatus(speed_gts=128.0), "gen(128 GT/s) x?"),
    ],
)
def test_link(link: LinkStatus | None, shown: str) -> None:
    assert words.link_text(link) == shown


@pytest.mark.parametrize(
    ("before", "after", "bits"),
    [
        ("001d", "0011", ("-ReqRedir", "-CmpltRedir")),
        ("0011", "001d", ("+ReqRedir", "+CmpltRedir")),
        ("001d", "001d", ()),
        ("ffff", "ffd3", ("-ReqRedir", "-CmpltRedir", "-EgressCtrl")),
        ("no word", "0011", ()),
    ],
)
def test_changed_bits(before: str, after: str, bits: tuple[str, ...]) -> None:
    assert words.changed_bits(before, after) == bits


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [
        (("GPU0-GPU1",), "GPU0-GPU1"),
        (("GPU0-GPU1", "GPU0-GPU2"), "GPU0-GPU1, GPU0-GPU2"),
        (("GPU0-GPU1", "GPU1-GPU2", "GPU0-GPU2"), "every pair of GPU0-GPU2"),
        (("GPU0-GPU2", "GPU2-GPU5", "GPU0-GPU5"), "every pair of GPU0, GPU2, GPU5"),
        (("GPU0-GPU1", "GPU1-GPU0", "GPU0-GPU2"), "GPU0-GPU1, GPU1-GPU0, GPU0-GPU2"),
        (("GPU0-GPU1", "GPU2-GPU3"), "GPU0-GPU1, GPU2-GPU3"),
        (("strange", "GPU0-GPU1"), "strange, GPU0-GPU1"),
        ((), ""),
    ],
)
def test_pairs(pairs: tuple[str, ...], shown: str) -> None:
    assert words.pairs_text(pairs) == shown


@given(st.sets(st.integers(0, 300)))
def test_ranges_name_each_number_once(numbers: set[int]) -> None:
    named: list[int] = []
    for part in words.ranges(numbers).split(", "):
        low, _, high = part.partition("-")
        named += range(int(low), int(high or low) + 1) if low else ()
    assert named == sorted(numbers)


def test_a_tally_counts_what_counts() -> None:
    findings = [
        finding(Severity.CRITICAL),
        finding(Severity.CRITICAL, resolved=True),
        finding(Severity.WARNING),
        finding(Severity.WARNING),
        finding(Severity.WARNING, waived=True),
    ]
    unknown = (Unknown(subject="x", reason="y"),)
    assert words.tally(findings, unknown) == (
        "1 critical, 2 warnings, 1 repaired, 1 waived, 1 not known"
    )
    assert words.tally([]) == ""


def test_nothing_wrong_is_said_only_of_what_was_read() -> None:
    gap = Unknown(subject="x", reason="y")
    quiet = "nothing wrong in what was read"
    assert words.audit_verdict([], []) == quiet
    assert words.audit_verdict([finding(Severity.INFO)], [gap]) == f"{quiet}, 1 note, 1 not known"
    assert words.audit_verdict([finding(Severity.WARNING)], []) == "1 warning"
    settled = finding(Severity.CRITICAL, resolved=True)
    assert words.audit_verdict([settled], []) == f"{quiet}, 1 repaired"


def test_the_first_step_skips_what_is_settled_and_what_has_no_remedy() -> None:
    findings = [
        finding(Severity.CRITICAL, "repair", resolved=True),
        finding(Severity.CRITICAL),
        finding(Severity.WARNING, "reseat the card"),
    ]
    assert words.first_step(findings) == ("reseat the card", "run it")


def test_the_first_step_closes_a_gap_when_nothing_is_wrong() -> None:
    gaps = [Unknown(subject="a", reason="b"), Unknown(subject="c", reason="d", hint="be root")]
    assert words.first_step([finding(Severity.INFO, "nothing")], gaps) == ("be root", "")


def test_what_became_of_a_plan() -> None:
    outcomes = [words.acs_outcome(one) for one in (ACS_PLAN, ACS_REFUSED, ACS_ROLLED_BACK,
                                                   ACS_NOTHING)]  # fmt: skip
    assert outcomes == ["planned", "refused", "rolled back", "nothing to change"]


def test_like_ranks_share_a_name() -> None:
    ranks = [rank(0, logits_bytes=1), rank(1), rank(2), rank(3)]
    assert [name for name, _ in words.like_ranks(ranks)] == ["rank 0", "ranks 1-3"]


def test_exit_statuses_have_their_names() -> None:
    assert words.exit_name(5) == "gate-failed"
    assert words.exit_name(250) == "250"
