"""What cannot be read, or is only known when it runs, is unknown: neither clean nor wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeprep.errors import Exit
from nodeprep.parse.yaml_tree import read_json, read_yaml
from tests.lint.base import L40S, linted, of
from tests.lint.test_command import document, run

GOOD = "vllm serve org/m --max-model-len 4096\n"
INVALID = "vllm-value-invalid"


@pytest.mark.parametrize(
    "line",
    [
        "gpu-memory-utilization: .nan", "gpu-memory-utilization: 5", "gpu-memory-utilization: 0",
        "gpu-memory-utilization: -.inf", "max-model-len: .inf", "max-model-len: 1e400",
        "max-model-len: 999999999999", "max-model-len: 0", "max-num-seqs: 0", "max-num-seqs: .nan",
        "tensor-parallel-size: -1", "max-num-batched-tokens: .inf", "port: 70000",
        "max-model-len: 0x" + "f" * 5000,
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(line: str) -> None:
    found = of(INVALID, "c.yaml", f"model: org/m\n{line}\n", "0.11.2", node=L40S)
    assert [one.partition(":")[0] for one in found] == ["critical"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_know(number: str) -> None:
    text = f'{{"model": "org/m", "max-model-len": {number}, "gpu-memory-utilization": {number}}}'
    assert len(of(INVALID, "c.json", text, "0.11.2", node=L40S)) == 2


@pytest.mark.parametrize(
    "line", ["gpu-memory-utilization: 1.0", "max-model-len: 10M", "max-num-seqs: 1", "port: 8000"]
)
def test_numbers_that_can_be(line: str) -> None:
    assert not of(INVALID, "c.yaml", f"{line}\n", "0.11.2")


@pytest.mark.parametrize(
    "options",
    [
        '--tensor-parallel-size "$TP"', "--max-model-len ${MML}", "--port ${P:-$(id)}",
        "--max-num-seqs=`nproc`", "--config $CONFIG", "--max-$WHAT 3", "-tp $(nvidia-smi -L)",
        "--enable-prefix-caching=$X",
    ],
)  # fmt: skip
def test_a_variable_of_the_shell_is_unknown(options: str) -> None:
    result = linted(
        ("x.sh", f"vllm serve org/m --host 127.0.0.1 {options}\n"), version="0.11.2", node=L40S
    )
    assert "critical" not in {one.severity.value for one in result.findings}
    assert any("filled in when the command runs" in one.reason for one in result.unknown)


def test_a_variable_of_compose_is_unknown_and_its_default_is_known() -> None:
    text = (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.11.2\n    gpus: all\n    shm_size: 8g\n"
        "    ports: ['${PORT}:8000']\n    environment: [VLLM_API_KEY=x]\n"
        "    command: --model org/m --max-num-seqs ${SEQS} -tp ${TP:-2}\n"
    )
    result = linted(("compose.yaml", text))
    assert "critical" not in {one.severity.value for one in result.findings}
    subjects = " ".join(one.subject for one in result.unknown)
    assert "--max-num-seqs" in subjects
    assert "${PORT}" in subjects
    assert "--tp" not in subjects
    assert of(INVALID, "compose.yaml", text.replace("${TP:-2}", "${TP:-0}"))


def test_vllm_fills_in_nothing_in_its_own_file() -> None:
    assert of(INVALID, "c.yaml", "tensor-parallel-size: $TP\n", "0.11.2")


UNREAD = {
    "many.sh": ("docker run --gpus all " + "\\\n".join(["-e A=B "] * 5000) + "vllm/x -tp 2\n",
                "words"),
    "long.sh": ("docker run --gpus all " + "-e A=B " * 5000 + "vllm/x -tp 2\n", "characters"),
    "open.sh": ('docker run "unterminated\n', "never closed"),
    "head.service": ("[Service\nExecStart=/bin/true\n", "head of a section"),
    "quote.service": ('[Service]\nExecStart=vllm serve "org/m --port 1\n', "never closed"),
    "compose.yaml": ("services: nope\n", "no mapping"),
    "empty.yaml": ("", "empty"),
    "bad.yaml": ("a: [", "not YAML"),
    "pod.yaml": ("apiVersion: v1\nkind: Pod\n", "no vLLM server"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(UNREAD) - {"bad.yaml"}))
def test_what_was_not_read_is_said(name: str) -> None:
    text, words = UNREAD[name]
    unknown = linted((name, text), version="0.11.2").unknown
    assert any(name in one.subject and words in one.reason for one in unknown)


def test_nothing_found_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("open.sh", "empty.yaml"):
        (tmp_path / name).write_text(UNREAD[name][0])
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "open.sh", "empty.yaml", "pipe", "/dev/null"):
        status, out, said = run("lint", name, "--format", "json", cwd=tmp_path)
        assert status == Exit.ERROR
        assert name in out
        assert len(said.splitlines()) == 1
        assert name in said


def test_in_a_folder_the_others_are_linted(tmp_path: Path) -> None:
    for name, (text, _) in UNREAD.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "big.yaml").write_bytes(b"#" * ((4 << 20) + 1))
    (tmp_path / "good.sh").write_text(GOOD)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    status, report = document("lint", str(tmp_path), "--vllm-version", "0.11.2", cwd=tmp_path)
    assert any("good.sh" in one for one in report["servers"])
    subjects = " ".join(one["subject"] for one in report["unknown"])
    for name in (*UNREAD, "big.yaml", "pipe", "loop"):
        assert name in subjects
    assert status in (Exit.OK, Exit.FINDINGS)


def test_a_key_said_twice_shows_the_value_that_is_lost() -> None:
    for name, text in (
        ("c.yaml", "max-num-seqs: 7\nmax-num-seqs: 9\n"),
        ("c.json", '{"max-num-seqs": 7,\n "max-num-seqs": 9}'),
    ):
        [found] = of("vllm-setting-dropped", name, text, "0.11.2")
        assert "max-num-seqs: 7 does not reach" in found
        assert f"({name}:1)" in found
    assert read_yaml("a: [1]\na: 2\n").twice == (("a", 1, [1]),)
    assert read_json('{"b": {"a": 1, "a": 2}}').twice == ()
    assert len(read_json("{" + ",".join(f'"k{n}": 1' for n in range(50_000)) + "}").lines) == 50_000


MISSING = {
    "x.service": (
        "[Service]\nEnvironmentFile=/etc/nowhere/v.env\nExecStart=vllm serve m --host 0.0.0.0\n",
        "EnvironmentFile= /etc/nowhere/v.env",
    ),
    "y.service": (
        "[Service]\nEnvironmentFile=-/etc/nowhere/v.env\nExecStart=vllm serve m\n",
        "EnvironmentFile= /etc/nowhere/v.env",
    ),
    "compose.yaml": (
        "services:\n  a:\n    image: x/vllm\n    command: --model m\n    env_file: [../.env]\n",
        "env_file ../.env",
    ),
    "x.sh": ("docker run --env-file v.env x/vllm --model m\n", "--env-file v.env"),
    "z.sh": ("vllm serve m --config /etc/c.yaml\n", "--config /etc/c.yaml"),
}


@pytest.mark.parametrize("name", sorted(MISSING))
def test_a_file_that_is_named_and_not_given_is_said(name: str) -> None:
    text, subject = MISSING[name]
    result = linted((name, text), version="0.11.2")
    assert any(
        one.subject.startswith(subject) and "was not given" in one.reason for one in result.unknown
    )
    found = {one.id: one.severity.value for one in result.findings}
    assert "server-without-key" not in found
    assert found.get("server-exposed", "warning") == "warning"


def test_a_file_that_may_be_missing_is_told_so() -> None:
    [unknown] = [
        one for one in linted(("y.service", MISSING["y.service"][0])).unknown if "env" in one.reason
        or "may be missing" in one.reason
    ]  # fmt: skip
    assert "may be missing" in unknown.reason


def test_a_file_that_is_given_is_not_said() -> None:
    for name, text, other, content in (
        ("x.service", MISSING["x.service"][0], "/etc/nowhere/v.env", "A=b\n"),
        ("compose.yaml", MISSING["compose.yaml"][0], "/srv/.env", "A=b\n"),
        ("z.sh", MISSING["z.sh"][0], "c.yaml", "max-num-seqs: 4\n"),
    ):
        result = linted((name, text), (other, content), version="0.11.2")
        assert not any("was not given" in one.reason for one in result.unknown)
        assert "server-without-key" in {one.id for one in result.findings}
