"""Recorded outputs: what each of them says must come out, whatever its version and paste."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodeprep.parse.nccl_tests import parse_nccl, parse_nccl_document

OUTCOMES = {
    "ok": {"ok"},
    "ok_unvalidated": {"ok-unvalidated"},
    "ok_half_table": {"ok", "ok-unvalidated", "truncated"},
    "launch_error": {"launch-error", "crash", "no-table"},
    "hang": {"hang", "truncated", "no-table"},
}

FORMATS = {
    "too_many_gpus": "launch-error",
    "v2.13.10_too_many_gpus": "crash",
    "badopt": "launch-error",
    "badsize": "launch-error",
    "no_device": "crash",
    "not_initialized": "crash",
    "init_fails": "crash",
    "coll_fails": "crash",
    "json_fail": "crash",
    "hang_T3": "hang",
    "hang_noT_killed": "truncated",
    "g1": "no-communication",
    "c0": "ok-unvalidated",
}
NO_MEASUREMENT = ("cputime", "cycles2", "dall", "opall")
"""Whole tables that the gate must not judge."""


def test_recorded_outputs(shared: Path) -> None:
    folder = shared / "corpus" / "nccl"
    records = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    assert records
    wrong = {
        record["file"]: faults
        for record in records
        if (faults := compare(folder / record["file"], record["expect"]))
    }
    assert not wrong


def compare(path: Path, expected: dict[str, Any]) -> list[str]:
    got = parse_nccl_document(path.read_text(errors="replace"))
    faults = []
    wanted = expected["outcome"]
    if got.outcome.value not in OUTCOMES.get(wanted, {wanted.replace("_", "-")}):
        faults.append(f"outcome {got.outcome.value}, not {wanted}")
    counts = {
        "ranks_listed": got.ranks, "rows": got.rows, "max_size": got.max_size_bytes,
        "out_of_bounds": got.out_of_bounds,
    }  # fmt: skip
    faults += [
        f"{name} {value}, not {expected[name]}"
        for name, value in counts.items()
        if expected.get(name) is not None and (value or 0) != expected[name]
    ]
    figures = {
        "oop_busbw_at_max": got.busbw_out_of_place_gbps, "ip_busbw_at_max": got.busbw_in_place_gbps,
        "avg_busbw": got.avg_busbw_gbps,
    }  # fmt: skip
    faults += [
        f"{name} {value}, not {expected[name]}"
        for name, value in figures.items()
        if expected.get(name) is not None and value != pytest.approx(expected[name], abs=0.006)
    ]
    kinds = {name.partition("/")[0] for name in got.transports}
    if kinds != {name.partition("/")[0] for name in expected.get("transports") or []}:
        faults.append(f"transports {got.transports}, not {expected.get('transports')}")
    return faults


def test_genuine_formats(shared: Path) -> None:
    folder = shared / "corpus" / "nccl-formats"
    seen = 0
    for path in sorted(folder.glob("*.stdout")):
        name = path.stem.partition("_")[2]
        errors = path.with_suffix(".stderr")
        text = path.read_text() + "\n" + (errors.read_text() if errors.exists() else "")
        report = parse_nccl(text)
        wanted = FORMATS.get(path.stem) or FORMATS.get(name, "ok")
        assert report.outcome.value == wanted, path.name
        if wanted == "ok":
            assert bool(report.problems) == (name in NO_MEASUREMENT), (path.name, report.problems)
        seen += 1
    assert seen > 40
