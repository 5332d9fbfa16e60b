"""Units, rendered and shipped: silent under systemd-analyze, confined, safe for hostile names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from nodeprep.resources import shipped
from nodeprep.serving.render import render, write
from tests.serving import readback
from tests.serving.test_render import CASES, source_case

ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


def analyze(*arguments: str | Path) -> str:
    """Everything it says: an unknown key is a warning with status 0, so any text is a failure."""
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    return done.stdout + done.stderr


@needs_systemd
@pytest.mark.parametrize("name", sorted(CASES))
def test_rendered_units_are_silent(name: str, tmp_path: Path) -> None:
    write(render(CASES[name](), install_dir=str(tmp_path)), tmp_path)
    units = ("vllm.service", "vllm-bare.service", "nodeprep-ready.target")
    assert analyze("verify", *(tmp_path / unit for unit in units)) == ""


@needs_systemd
def test_a_wrong_key_would_be_seen(tmp_path: Path) -> None:
    unit = tmp_path / "x.service"
    unit.write_text("[Service]\nExecStart=/usr/bin/env true\nNoSuchKey=1\n")
    assert "NoSuchKey" in analyze("verify", unit)


@needs_systemd
def test_the_shipped_units_are_silent(tmp_path: Path) -> None:
    for unit in shipped("systemd").glob("[!.]*"):
        text = unit.read_text().replace("/usr/bin/nodeprep", sys.executable)
        (tmp_path / unit.name).write_text(text)
    assert analyze("verify", *sorted(tmp_path.iterdir())) == ""


@needs_systemd
@pytest.mark.parametrize(("unit", "most"), [("vllm-bare.service", 4.0), ("vllm.service", 4.0)])
def test_exposure(unit: str, most: float, tmp_path: Path) -> None:
    write(render(source_case()), tmp_path)
    said = analyze("security", "--offline=true", "--no-pager", tmp_path / unit)
    found = re.search(r"exposure level for \S+: ([\d.]+)", said)
    if found is None:
        pytest.skip(f"this systemd-analyze has no offline security check: {said[:80]}")
    assert float(found[1]) <= most


HOSTILE = [
    "org/%n%u", "org/$HOME", "org/${HOME}", "org/a b", "org/{{ 7*7 }}", "org/'q'", 'org/"q"',
    "org/back\\slash", "org/trailing\\", "org/ä-模型-🦙", "org/; touch x", "org/`id`", "org/$(id)",
    "org/a;b", "org/#c", "org/!x", "org/&x|y>z", "org/~x", "org/*?[x]", "org/@x:y,z",
]  # fmt: skip


@needs_systemd
def test_hostile_models_stay_one_word_of_a_silent_unit(tmp_path: Path) -> None:
    units = []
    for number, model in enumerate(HOSTILE):
        config = msgspec.structs.replace(source_case(), model=model)
        files = render(config, install_dir=str(tmp_path))
        line = readback.unit_value(files["vllm-bare.service"], "ExecStart")
        assert readback.unit_words(line)[3] == model
        for kind in ("vllm.service", "vllm-bare.service"):
            units.append(tmp_path / f"{number}-{kind}")
            units[-1].write_text(files[kind])
    for name in ("nodeprep.service", "nodeprep-ready.target", "vllm.env"):
        (tmp_path / name).write_text(files[name])
    assert analyze("verify", *units) == ""


def test_the_gate_unit_ends_and_does_not_shut_out_the_gpus() -> None:
    text = (shipped("systemd") / "nodeprep.service").read_text()
    keys = dict(line.split("=", 1) for line in text.splitlines()
                if "=" in line and not line.startswith("#"))  # fmt: skip
    assert keys["Type"] == "oneshot"
    assert keys["RemainAfterExit"] == "yes"
    assert keys["TimeoutStartSec"] not in ("infinity", "0")
    assert {"docker.service", "containerd.service", "kubelet.service", "slurmd.service"} <= set(
        keys["Before"].split()
    )
    assert {"nvidia-persistenced.service", "nvidia-fabricmanager.service"} <= set(
        keys["After"].split()
    )
    shutting = {"PrivateDevices", "ProtectClock", "DevicePolicy", "DeviceAllow",
                "ProtectKernelTunables", "MemoryDenyWriteExecute"}  # fmt: skip
    assert not shutting & set(keys)
