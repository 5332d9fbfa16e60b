"""Every form is read: scripts, compose, units, environment files, and what names what."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.errors import ParseError, UsageError
from nodeprep.lint.reading import read
from nodeprep.lint.run import lint
from nodeprep.memory.catalogue import find_model
from nodeprep.model.launch import Form
from nodeprep.parse.launch import read_launches
from nodeprep.parse.shell_words import read_shell, split_words
from nodeprep.serving.render import render
from tests.lint.base import linted, of
from tests.serving.test_render import CASES

COMPOSE = """
services:
  vllm:
    image: vllm/vllm-openai:latest
    ports: ["8000:8000"]
    ipc: host
    shm_size: 16gb
    privileged: true
    environment:
      - VLLM_SKIP_P2P_CHECK=0
    command: --model org/m --tensor-parallel-size 4 --swap-space 4
  web:
    image: nginx
"""

UNIT = """
[Service]
Environment=PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
ExecStart=/opt/vllm/bin/vllm serve org/m \\
  --tensor-parallel-size 2 --host 0.0.0.0
"""


def test_compose() -> None:
    result = linted(("compose.yaml", COMPOSE), version="0.33.0")
    ids = {(one.id, one.subject) for one in result.findings}
    assert ("vllm-flag-not-in-release", "--swap-space") in ids
    assert ("server-exposed", "--publish 8000:8000") in ids
    assert ("container-privileges", "--privileged") in ids
    assert ("container-shm", "--shm-size") in ids
    assert len(result.servers) == 1


def test_unit() -> None:
    result = linted(("x.service", UNIT), version="0.11.2")
    ids = {(one.id, one.subject) for one in result.findings}
    assert ("vllm-options-conflict", "PYTORCH_CUDA_ALLOC_CONF") in ids
    assert ("server-exposed", "--host 0.0.0.0") in ids


def test_environment_file() -> None:
    text = "PYTORCH_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512\nHF_TOKEN=x\n"
    ids = [one.id for one in linted(("vllm.env", text), version="0.11.2").findings]
    assert ids.count("vllm-setting-without-effect") == 2
    assert "secret-in-plain-sight" not in ids


@pytest.mark.parametrize(
    "line",
    [
        "sudo docker run --gpus all img/vllm --tensor-parallel-size 2",
        "if true; then exec docker container run --gpus=all vllm/x -tp 2; fi",
        "docker -H unix:///x run --rm -it -dp 8000:8000 --gpus all vllm/x -tp=2",
        "podman run --device nvidia.com/gpu=all vllm/x -tp 2",
        "docker run --gpus all --entrypoint bash vllm/x -c 'vllm serve org/m -tp 2'",
        "docker run --gpus all vllm/x bash -lc 'exec vllm serve org/m --tensor_parallel_size 2'",
        "nohup env A=b /opt/bin/vllm serve org/m -tp 2 > log 2>&1 &",
        "CUDA_VISIBLE_DEVICES=0,1 python3 -m vllm.entrypoints.openai.api_server -tp 2",
        "args=(serve org/m -tp)\nargs+=(2)\nvllm \"${args[@]}\"",
        "N=2\nvllm serve org/m --tensor-parallel-size=$N",
        "vllm serve org/m --tensor-parallel-size ${TP:-2}",
        "vllm serve org/m \\\n  # a comment ends nothing here\n",
    ],
)  # fmt: skip
def test_command_lines(line: str) -> None:
    [launch] = read_launches(line + "\n", "x.sh").launches
    named = {one.plain: one.value for one in launch.options}
    wanted = None if "comment" in line else 2
    assert named.get("tensor-parallel-size", named.get("tp")) == wanted


def test_words() -> None:
    assert split_words("""a 'b c' "d\\"e" f\\ g 'it'"'"'s'""") == ("a", "b c", 'd"e', "f g", "it's")
    [command] = read_shell("x=$(ls 'a b') y --z=\"$x\" # no\n").commands
    assert command.words == ("y", "--z=$(ls 'a b')") or command.words[0] == "y"


def test_lines_are_told() -> None:
    text = "#!/bin/sh\n\nvllm serve org/m \\\n  --max-num-seqs 4 \\\n  --nonsense 1\n"
    assert "(x.sh:5)" in of("vllm-flag-unknown", "x.sh", text, "0.11.2")[0]
    yaml = "max-num-seqs: 4\n# a\nnonsense: 1\n"
    assert "(c.yaml:3)" in of("vllm-flag-unknown", "c.yaml", yaml, "0.11.2")[0]


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_nodeprep_renders_has_nothing_against_it(name: str) -> None:
    """Nothing above a note but the image's tag, which only a digest cures."""
    config = CASES[name]()
    files = sorted(render(config, install_dir="/etc/nodeprep/rendered").items())
    texts = [(f"/etc/nodeprep/rendered/{file}", read_launches(text, file)) for file, text in files]
    result = lint(texts, shape_of=find_model)
    assert result.version == config.vllm_version
    forms = {one.partition(" in ")[0] for one in result.servers}
    assert {Form.CONTAINER.value, Form.COMPOSE.value, Form.UNIT.value, Form.YAML.value} <= forms
    wrong = [
        (one.id, one.summary)
        for one in result.findings
        if one.severity.value != "info" and one.id != "container-image-unpinned"
    ]
    assert wrong == []


def test_versions() -> None:
    with pytest.raises(UsageError):
        linted(("x.yaml", "a: 1\n"), version="seven")
    assert linted(("x.yaml", "max-num-seqs: 1\n"), version="v0.11.2+cu128").findings == ()


@pytest.mark.parametrize("text", ["[1, 2]", "{", "a: [", "&a [*a]", "- x", "{" * 5000])
def test_damaged_files_are_refused(text: str) -> None:
    for name in ("x.yaml", "x.json"):
        with pytest.raises(ParseError):
            read_launches(text, name)


SHELL = st.text(st.sampled_from("ab01 =-'\"\\$(){}[]#\n;&|<>`@%,:./\t\0é\u202e"), max_size=200)
BEGINNINGS = st.sampled_from(
    ["", "docker run ", "vllm serve ", "services:\n  a:\n    ", "[Service]\nExecStart=",
     "{\"model\":", "docker run -p ", "vllm serve m --config ", "bash -c '", "max-model-len: ",
     "vllm serve ${A:-", "cat > x.sh <<E\nvllm serve m ", "bash -c 'vllm serve \"$@\"' x ",
     "[Container]\nImage=vllm/x:v0.4.2\nExec=", "```\nvllm serve a/b ", "    vllm serve a/b "]
)  # fmt: skip
NAMES = st.sampled_from(
    ["x", "x.sh", "x.yaml", "x.json", "x.env", "x.service", "compose.yml", "x.md", "x.container"]
)
VERSIONS = st.sampled_from([None, "0.11.2", "0.2.7"])


@settings(max_examples=300, deadline=None)
@given(begin=BEGINNINGS, text=st.one_of(SHELL, st.text(max_size=200)), name=NAMES, version=VERSIONS)
def test_any_text_gives_findings_or_a_clear_refusal(
    begin: str, text: str, name: str, version: str | None
) -> None:
    try:
        found = read(begin + text, name)
    except ParseError:
        return
    lint([(name, found)], shape_of=find_model, version=version)


def test_a_long_text_takes_no_long_time() -> None:
    for text in (
        "'" * 400_000,
        "$(" * 200_000,
        "a=(" * 100_000,
        "\\\n" * 300_000,
        "x=$x" * 100_000,
        "a=(\n" * 100_000,
        "${\n" * 100_000,
        "vllm serve " + "${A:-\n" * 50_000 + "}" * 9000,
        "\n".join(f"cat > a{number} <<E{number}" for number in range(50_000)),
        "cat > x.sh <<A\nvllm serve m\nA\n" * 30_000,
        'x="a a a a"\n' + 'x="$x $x"\n' * 40 + "vllm serve m " + "$x " * 3000,
    ):
        with contextlib.suppress(ParseError):
            read(text, "x.sh")
    for name, text in (
        ("x.md", "```\nvllm serve a/b\n```\n" * 30_000),
        ("x.md", ("A=b " * 4000 + "\n") * 100),
        ("x.service", f"[Service]\nEnvironment=A='{'a ' * 5000}'\nExecStart=vllm {'$A ' * 5000}"),
    ):
        assert len(read(text, name).launches) <= 200


def test_the_files_of_the_fixture_are_scripts_that_run_as_written() -> None:
    text = (Path(__file__).parent / "files" / "start.sh").read_text()
    read = read_launches(text, "start.sh")
    assert [one.form for one in read.launches] == [Form.CONTAINER, Form.ENV_FILE]


@pytest.mark.parametrize(
    ("publish", "said"),
    [
        ("0.0.0.0:$P:8000", "open"),
        ("$P:8000", "unknown"), ("$A:8000:8000", "unknown"),
        ("127.0.0.1:$P:8000", "closed"), ("8000:8000", "open"),
    ],
)  # fmt: skip
def test_the_address_alone_says_who_reaches_it(publish: str, said: str) -> None:
    line = (
        f"docker run --gpus all \\\n -p {publish} \\\n vllm/vllm-openai:v0.11.2 "
        "--model Qwen/Qwen3-0.6B\n"
    )
    found = linted(("run.sh", line))
    ids = [one.id for one in found.findings]
    assert ("server-exposed" in ids) is (said == "open")
    open_address = [one for one in found.unknown if one.subject.startswith("--publish")]
    assert bool(open_address) is (said == "unknown")
    assert all(":2)" in one.subject for one in open_address)
