"""The boot run fails closed: every way not to be ready ends not ready, with its reason."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodeprep.bringup import BringupOptions, bring_up
from nodeprep.errors import Exit, NotFound, UsageError
from nodeprep.host.machines import machine_file
from nodeprep.host.replay import ReplayHost, load_snapshot
from nodeprep.model.report import NodeVerdict, Report, StageStatus
from nodeprep.model.snapshot import RecordedFile, Snapshot
from nodeprep.settings import DEFAULT_CONFIG, Settings, Waiver, override, parse_settings
from nodeprep.state import StateStore

TODAY = date(2026, 11, 1)


@pytest.fixture
def snapshot() -> Snapshot:
    return load_snapshot(machine_file("l40s-acs"))


def run(
    snapshot: Snapshot,
    folder: Path,
    settings: Settings | None = None,
    **options: object,
) -> Report:
    folder.chmod(0o700)
    host = ReplayHost(snapshot, folder / "registers.json")
    if settings is None:
        settings = parse_settings(host.read_text(str(DEFAULT_CONFIG)), "recorded")
    given = BringupOptions(out_dir=folder / "out", today=TODAY)
    return bring_up(host, settings, StateStore(folder), replace(given, **options))


def stages(report: Report) -> dict[str, StageStatus]:
    return {stage.name: stage.status for stage in report.stages}


def test_every_stage_in_order(snapshot: Snapshot, tmp_path: Path) -> None:
    report = run(snapshot, tmp_path)
    assert list(stages(report)) == [
        "collect", "audit", "acs-plan", "acs-apply", "acs-verify", "gate", "memory", "render",
    ]  # fmt: skip
    assert set(stages(report).values()) == {StageStatus.OK}
    assert report.verdict is NodeVerdict.READY
    assert report.reasons == ()


def test_a_bandwidth_that_misses_the_mark(snapshot: Snapshot, tmp_path: Path) -> None:
    report = run(snapshot, tmp_path, min_busbw_gbps=25.0)
    assert report.exit_status == Exit.GATE_FAILED
    assert report.verdict is NodeVerdict.NOT_READY
    assert stages(report)["render"] is StageStatus.SKIPPED
    assert not (tmp_path / "out").exists()


def test_no_nccl_tests_proves_nothing(snapshot: Snapshot, tmp_path: Path) -> None:
    programs = tuple(name for name in snapshot.programs if "all_reduce" not in name)
    report = run(replace(snapshot, programs=programs), tmp_path)
    assert report.exit_status == Exit.UNVERIFIED
    assert report.verdict is NodeVerdict.NOT_READY


def test_registers_that_do_not_take_the_write(snapshot: Snapshot, tmp_path: Path) -> None:
    report = run(replace(snapshot, is_root=False), tmp_path)
    assert report.exit_status == Exit.UNVERIFIED
    assert stages(report)["acs-apply"] is StageStatus.FAILED
    assert report.acs.verified is False
    assert stages(report)["gate"] is StageStatus.SKIPPED


def test_lockdown_is_a_refusal(snapshot: Snapshot, tmp_path: Path) -> None:
    locked = RecordedFile(text="none [integrity] confidentiality")
    files = snapshot.files | {"/sys/kernel/security/lockdown": locked}
    report = run(replace(snapshot, files=files), tmp_path)
    assert report.exit_status == Exit.REFUSED
    assert stages(report)["acs-plan"] is StageStatus.REFUSED
    assert "lockdown" in report.reasons[0]


@pytest.mark.parametrize("wrong", [{"model": "no-such-model"}, {"vllm_version": "newest"}])
def test_a_wrong_policy_is_told_before_anything_is_changed(
    snapshot: Snapshot, tmp_path: Path, wrong: dict[str, str]
) -> None:
    with pytest.raises(UsageError):
        run(snapshot, tmp_path, override(Settings(), "serving", **wrong))
    assert not (tmp_path / "registers.json").exists()


def test_without_a_model_the_node_is_ready_and_nothing_is_rendered(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    report = run(snapshot, tmp_path, Settings())
    assert report.verdict is NodeVerdict.READY
    assert report.memory is None
    assert report.rendered == ()


def test_a_waiver_without_a_date_is_an_error_not_a_pass(snapshot: Snapshot, tmp_path: Path) -> None:
    waiver = Waiver(id="acs-redirect-on-gpu-path", reason="x", expires="some day")
    report = run(snapshot, tmp_path, Settings(waivers=(waiver,)))
    assert report.verdict is NodeVerdict.NOT_READY
    assert report.exit_status != Exit.OK


def test_a_finding_that_counts_keeps_files_back(snapshot: Snapshot, tmp_path: Path) -> None:
    nvml = snapshot.nvml
    assert nvml is not None
    fewer = replace(snapshot, nvml=replace(nvml, gpus=nvml.gpus[:3], pairs=nvml.pairs[:2]))
    report = run(fewer, tmp_path)
    assert report.verdict is NodeVerdict.NOT_READY
    assert report.exit_status != Exit.OK
    assert report.rendered == ()


def test_a_node_without_gpus_is_told_so(snapshot: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no accelerator among 22"):
        run(snapshot, tmp_path, override(Settings(), "accelerators", vendors=("1002",)))


def test_a_dry_run_is_never_ready(snapshot: Snapshot, tmp_path: Path) -> None:
    report = run(snapshot, tmp_path, dry_run=True)
    assert report.verdict is NodeVerdict.NOT_READY
    assert report.exit_status == Exit.FINDINGS
    assert len(report.acs.actions) == 4
    assert report.acs.applied == ()
    assert not (tmp_path / "registers.json").exists()
