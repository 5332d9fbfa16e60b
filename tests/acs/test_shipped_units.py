"""The units that keep ACS free: confined as documented, and started as they are meant to be."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.resources import shipped
from tests.conftest import CHECKOUT

UNITS = ("nodeprep-watch.service", "nodeprep-acs.service", "nodeprep-acs-reapply.service")
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing: install systemd"
)


def keys(unit: str) -> dict[str, str]:
    lines = (shipped("systemd") / unit).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_the_documented_exposure_is_the_measured_one(unit: str, tmp_path: Path) -> None:
    text = (shipped("systemd") / unit).read_text().replace("/usr/bin/nodeprep", sys.executable)
    (tmp_path / unit).write_text(text)
    argv = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(tmp_path / unit)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    measured = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    if measured is None:
        pytest.skip(f"this systemd-analyze has no offline security check: {done.stderr[:80]}")
    row = re.search(rf"^\| {unit} \| [^|]+ \| ([\d.]+) \|$", (CHECKOUT / "docs/acs.md").read_text(),
                    re.MULTILINE)  # fmt: skip
    assert row is not None
    # Each release of systemd weighs a little differently.
    assert abs(float(measured[1]) - float(row[1])) <= 0.3
    assert float(measured[1]) < 4.0


def test_the_boot_unit_runs_before_anything_can_use_a_gpu() -> None:
    boot = keys("nodeprep-acs.service")
    assert (boot["Type"], boot["RemainAfterExit"]) == ("oneshot", "yes")
    assert "udevadm settle" in boot["ExecStartPre"]
    assert {"nvidia-persistenced.service", "nodeprep.service", "docker.service"} <= set(
        boot["Before"].split()
    )


def test_one_unit_writes_again_whoever_starts_it() -> None:
    assert keys("nodeprep-acs-settle.timer")["Unit"] == "nodeprep-acs-reapply.service"
    assert "Unit" not in keys("nodeprep-acs-reapply.timer"), "its own name decides"
    assert keys("nodeprep-acs-reapply.service")["ExecStart"].endswith(
        "acs apply --reapply --format brief"
    )
    for unit in ("nodeprep-acs-reapply.service", "nodeprep-acs-settle.timer"):
        assert keys(unit)["StartLimitIntervalSec"] == "0", "a storm of events must not block it"


def test_the_daemon_is_watched_and_sees_the_gpus() -> None:
    daemon = keys("nodeprep-watch.service")
    assert daemon["Type"] == "notify"
    assert int(daemon["WatchdogSec"]) >= 60
    assert "AF_NETLINK" in daemon["RestrictAddressFamilies"]
    assert "PrivateNetwork" not in daemon


@pytest.mark.parametrize("unit", UNITS)
def test_nothing_shuts_out_registers_or_gpus(unit: str) -> None:
    shutting = {"PrivateDevices", "ProtectClock", "DevicePolicy", "ProtectKernelTunables"}
    assert not shutting & set(keys(unit))
