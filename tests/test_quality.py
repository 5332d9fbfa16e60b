"""The linters, the type checker and the import contract: one command tells everything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MAX_MODULE_LINES = 400


def run(checkout: Path, *argv: str) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        argv, cwd=checkout, env=environment, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stdout + result.stderr


def tracked(checkout: Path, *patterns: str) -> list[str]:
    """Files under version control, or all files where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=checkout, capture_output=True, text=True
    )
    if listed.returncode == 0 and listed.stdout:
        return listed.stdout.split()
    return [str(path.relative_to(checkout)) for one in patterns for path in checkout.glob(one)]


def test_ruff(checkout: Path) -> None:
    run(checkout, "ruff", "check", "nodeprep", "tests")


def test_format(checkout: Path) -> None:
    run(checkout, "ruff", "format", "--check", "nodeprep", "tests")


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_types(checkout: Path, version: str, tmp_path: Path) -> None:
    run(checkout, "mypy", "--python-version", version, "--cache-dir", str(tmp_path))


def test_import_contract(checkout: Path) -> None:
    run(checkout, "lint-imports", "--no-cache")


def test_spelling(checkout: Path) -> None:
    run(checkout, "codespell", *tracked(checkout, "nodeprep", "docs", "scripts", "*.md"))


def test_shell(checkout: Path) -> None:
    scripts = [
        name
        for name in tracked(checkout, "scripts/*", ".ci/*")
        if (checkout / name).read_bytes().startswith((b"#!/usr/bin/env bash", b"# shellcheck"))
    ]
    assert scripts
    run(checkout, "shellcheck", "-x", *scripts)


def test_no_module_is_too_long(checkout: Path) -> None:
    long = {
        str(path.relative_to(checkout)): lines
        for path in (checkout / "nodeprep").rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > MAX_MODULE_LINES
    }
    assert not long


def test_only_the_live_host_runs_programs(checkout: Path) -> None:
    importers = [
        str(path.relative_to(checkout))
        for path in (checkout / "nodeprep").rglob("*.py")
        if any(
            line.split("#")[0].strip() in ("import subprocess", "from subprocess import Popen")
            for line in path.read_text().splitlines()
        )
    ]
    assert importers == ["nodeprep/host/live.py"]


def test_a_group_of_tests_stays_in_one_worker(checkout: Path, tmp_path: Path) -> None:
    """What `scripts/test` counts on; some releases of pytest make pytest-xdist forget it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_group.py").write_text(
        "import os, pathlib, time, pytest\n"
        "@pytest.mark.xdist_group('one')\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_worker(number):\n"
        "    time.sleep(0.1)\n"
        "    (pathlib.Path(__file__).parent / os.environ['PYTEST_XDIST_WORKER']).touch()\n"
    )
    run(tmp_path, "pytest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider")
    assert len(list(tmp_path.glob("gw*"))) == 1
