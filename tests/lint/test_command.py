"""`nodeprep lint` and the new ways of `nodeprep render`, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeprep.errors import Exit
from nodeprep.model.report import LintReport

FILES = Path(__file__).parent / "files"


def run(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "nodeprep", *arguments], capture_output=True,
                          text=True, timeout=120, cwd=cwd, check=False)  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def document(*arguments: str, cwd: Path) -> tuple[int, dict[str, Any]]:
    status, out, _ = run(*arguments, "--format", "json", cwd=cwd)
    return status, json.loads(out)


def test_a_folder_is_linted_and_the_document_is_typed(tmp_path: Path) -> None:
    status, out, _ = run("lint", str(FILES), "--format", "json", cwd=tmp_path)
    report = msgspec.json.decode(out, type=LintReport)
    assert status == Exit.FINDINGS
    assert report.schema == "nodeprep.lint/1"
    assert report.vllm_version == "0.7.2"
    assert len(report.files) == 2
    assert {one.id for one in report.findings} >= {"server-exposed", "vllm-forms-differ"}


def test_fail_on(tmp_path: Path) -> None:
    config = tmp_path / "vllm.yaml"
    config.write_text("enable-prefix-caching: false\n")
    assert run("lint", str(config), cwd=tmp_path)[0] == Exit.OK
    assert run("lint", str(config), "--fail-on", "warning", cwd=tmp_path)[0] == Exit.FINDINGS
    config.write_text("no-such-flag: 1\nmax-num-seqs: 4\n")
    assert run("lint", str(config), cwd=tmp_path)[0] == Exit.FINDINGS
    assert run("lint", str(config), "--fail-on", "never", cwd=tmp_path)[0] == Exit.OK


def test_every_form_of_output(tmp_path: Path) -> None:
    for form in ("text", "brief"):
        status, out, _ = run("lint", str(FILES / "start.sh"), "--format", form, cwd=tmp_path)
        assert status == Exit.FINDINGS
        assert "container-entrypoint" in out
        assert "0.7.2" in out


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert run("lint", "nowhere.yaml", cwd=tmp_path)[0] == Exit.USAGE
    (tmp_path / "x.yaml").write_text("a: [")
    status, _, said = run("lint", "x.yaml", cwd=tmp_path)
    assert status == Exit.ERROR
    assert "x.yaml" in said
    assert run("lint", str(FILES), "--vllm-version", "x", cwd=tmp_path)[0] == Exit.USAGE
    assert run("lint", str(FILES), "--gpu", "L40S:x", cwd=tmp_path)[0] == Exit.USAGE
    assert run("lint", cwd=tmp_path)[0] == Exit.USAGE


def test_the_gpus_come_from_a_name_or_a_recorded_machine(tmp_path: Path) -> None:
    line = tmp_path / "x.sh"
    line.write_text("vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 1\n")
    for gpus in (["--gpu", "RTX 4090:1"], ["--machine", "l40s-clean"]):
        status, report = document("lint", str(line), *gpus, cwd=tmp_path)
        assert status == Exit.FINDINGS
        assert "vllm-memory-does-not-fit" in {one["id"] for one in report["findings"]}


def test_every_finding_explains_itself(tmp_path: Path) -> None:
    _, report = document("lint", str(FILES), cwd=tmp_path)
    for id in {one["id"] for one in report["findings"]}:
        status, out, _ = run("explain", id, cwd=tmp_path)
        assert status == Exit.OK
        assert id in out


@pytest.mark.parametrize("machine", ["l40s-clean", "h100-sxm8"])
def test_render_shows_a_difference_and_writes_nothing(machine: str, tmp_path: Path) -> None:
    argv = ("render", "--machine", machine, "--model", "Qwen/Qwen3-32B", "-o", "out",
            "--state-dir", str(tmp_path / "state"))  # fmt: skip
    status, report = document(*argv, "--diff", cwd=tmp_path)
    assert status == Exit.OK
    assert "+++" in report["diff"]
    assert not (tmp_path / "out").exists()
    document(*argv, cwd=tmp_path)
    status, report = document(*argv, "--diff", cwd=tmp_path)
    assert report["diff"] == ""
    assert not any(one["changed"] for one in report["files"])


def test_render_of_two_groups_and_lint_of_what_it_wrote(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[serving]\nmodel = "Qwen/Qwen3-32B"\ntensor_parallel = 4\ngroups = 2\n'
    )
    status, report = document(
        "render", "--machine", "h100-sxm8", "--config", "c.toml", "-o", "out",
        "--state-dir", str(tmp_path / "state"), cwd=tmp_path,
    )  # fmt: skip
    assert status == Exit.OK
    assert report["groups"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    status, said = document("lint", "out", "--machine", "h100-sxm8", cwd=tmp_path)
    wrong = {one["id"] for one in said["findings"] if one["severity"] != "info"}
    assert status == Exit.OK
    assert wrong == {"container-image-unpinned"}


def test_install_is_refused_for_a_recorded_machine(tmp_path: Path) -> None:
    status, _, said = run(
        "render", "--machine", "l40s-clean", "--model", "Qwen/Qwen3-32B", "--install",
        "--unit-dir", str(tmp_path / "units"), "--state-dir", str(tmp_path / "state"), cwd=tmp_path,
    )  # fmt: skip
    assert status == Exit.REFUSED
    assert "live node" in said
    assert not (tmp_path / "units").exists()


def test_render_needs_a_place(tmp_path: Path) -> None:
    assert run("render", "--machine", "l40s-clean", cwd=tmp_path)[0] == Exit.USAGE


def test_lint_loads_neither_templates_nor_the_screen(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['nodeprep', 'lint', sys.argv[1], '--format', 'json']\n"
        "from nodeprep.cli import _run\n_run(sys.argv[1:])\n"
        "print([one for one in ('jinja2', 'rich', 'pynvml', 'psutil', 'pyudev', 'urllib.request')"
        " if one in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(FILES / "start.sh")], timeout=60,
                          capture_output=True, text=True, cwd=tmp_path, check=False)  # fmt: skip
    assert done.stderr.strip() == "[]"
