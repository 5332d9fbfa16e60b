"""A text inside another one: here-documents, code in Markdown; and files of other programs."""

from __future__ import annotations

import pytest

from nodeprep.lint.reading import read
from nodeprep.model.launch import Form
from nodeprep.parse.markdown import code_blocks
from nodeprep.parse.shell_words import read_shell
from tests.lint.base import linted, of

SETUP = r"""#!/usr/bin/env bash
IMAGE=vllm/vllm-openai:v0.11.2
cat > /etc/systemd/system/vllm.service <<EOF
[Unit]
Description=a server
[Service]
ExecStart=/usr/bin/docker run --rm \\
  --gpus all \\
  --privileged \\
  -p 8000:8000 \\
  $IMAGE \\
  --model org/m \\
  --nonsense 1
EOF
systemctl enable vllm
"""

PAIR = """#!/bin/bash
cat > /data/config.yaml << 'EOF'
model: org/m
host: 0.0.0.0
nonsense: 1
max-num-seqs: 4
EOF
cat <<'EOF' | sudo tee /etc/vllm.env > /dev/null
VLLM_API_KEY=key
EOF
sudo tee /etc/systemd/system/v.service >/dev/null <<-'UNIT'
	[Service]
	EnvironmentFile=/etc/vllm.env
	ExecStart=/bin/python -m vllm.entrypoints.openai.api_server --config /data/config.yaml
	UNIT
"""


def test_a_script_that_writes_a_unit() -> None:
    assert [one.form for one in read(SETUP, "setup.sh").launches] == [Form.CONTAINER]
    result = linted(("setup.sh", SETUP))
    assert result.version == "0.11.2"
    summaries = {one.id: one.summary for one in result.findings}
    assert "(setup.sh:13)" in summaries["vllm-flag-unknown"]
    assert "server-exposed" in summaries
    assert not any("neither a section" in one.reason for one in result.unknown)


def test_what_a_script_writes_is_read_together() -> None:
    result = linted(("setup.sh", PAIR), version="0.11.2")
    assert {one.partition(" in ")[0] for one in result.servers} == {
        "configuration file", "environment file", "systemd unit",
    }  # fmt: skip
    found = {(one.id, one.severity.value) for one in result.findings}
    assert ("vllm-flag-unknown", "critical") in found
    assert ("server-exposed", "warning") in found
    assert "server-without-key" not in {id for id, _ in found}
    assert not any("not given" in one.reason for one in result.unknown)
    assert "(setup.sh:5)" in of("vllm-flag-unknown", "setup.sh", PAIR, "0.11.2")[0]


def test_a_config_that_the_script_writes_belongs_to_its_command() -> None:
    text = (
        "cat > config.yaml << EOF\nmax-model-len: 0\nhost: 127.0.0.1\nEOF\n"
        "vllm serve org/m --config=config.yaml\n"
    )
    assert len(of("vllm-value-invalid", "x.sh", text, "0.11.2")) == 1
    result = linted(("x.sh", text), version="0.11.2")
    assert "server-exposed" not in {one.id for one in result.findings}


def test_here_documents_in_here_documents() -> None:
    text = (
        "ssh root@host 'bash -s' << 'REMOTE'\n  cat > /etc/v.service << 'UNIT'\n[Service]\n"
        "ExecStart=/bin/vllm serve org/m --nonsense 1\nUNIT\n  systemctl start v\nREMOTE\n"
    )
    assert "(x.sh:4)" in of("vllm-flag-unknown", "x.sh", text, "0.11.2")[0]


def test_what_a_here_document_fills_in() -> None:
    text = (
        "A=known\ncat > x.sh <<EOF\n$A \\$B ${C:-c} $D\nEOF\ncat > y.sh <<'EOF'\n$A \\$B\nEOF\n"
        "cat <<EOF\nvllm serve printed only\nEOF\n"
    )
    first, second = read_shell(text).documents
    assert (first.name, first.text, first.line) == ("x.sh", "known $B c $D\n", 3)
    assert (second.name, second.text, second.line) == ("y.sh", "$A \\$B\n", 6)


def test_a_here_document_that_never_ends_is_none() -> None:
    result = linted(("x.sh", "cat > y.sh <<EOF\nvllm serve org/m --nonsense 1\n"), version="0.11.2")
    assert any("never closed" in one.reason for one in result.unknown)
    assert [one.id for one in result.findings].count("vllm-flag-unknown") == 1


def test_files_of_other_programs_in_a_script() -> None:
    text = (
        'cat > /etc/docker/daemon.json <<EOF\n{"runtimes": {"nvidia": {}}, "a": 1, "b": 2}\nEOF\n'
        "cat > x.py <<EOF\nprint('run: vllm serve org/m')\nvllm serve x\nEOF\n"
        "cat > p.yml <<EOF\nglobal: {x: 1}\nEOF\nvllm serve org/m --host 127.0.0.1\n"
    )
    result = linted(("x.sh", text), version="0.11.2")
    assert len(result.servers) == 1
    assert {one.id for one in result.findings} == {"server-without-key"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("action.yml", "name: Start\ndescription: of a server\nruns: {using: composite}\n"),
        ("bench.yaml", "deployment:\n  app_args:\n    max-model-len: 4096\n"),
        ("daemon.json", '{"default-runtime": "nvidia", "runtimes": {}}'),
    ],
)
def test_another_program_s_file_is_no_configuration(name: str, text: str) -> None:
    result = linted((name, text), version="0.11.2")
    assert result.findings == ()
    assert result.servers == ()
    assert any("no vLLM configuration" in one.reason for one in result.unknown)


def test_one_key_of_some_release_makes_a_configuration() -> None:
    text = "swap_space: 4\nnonsense: 1\n"
    assert len(of("vllm-flag-unknown", "c.yaml", text, "0.33.0")) == 1


def test_a_request_in_a_script_is_no_configuration() -> None:
    text = 'curl -d \'\n{\n  "model": "org/m",\n  "messages": [],\n  "max_tokens": 4\n}\'\n'
    assert read(text, "x.sh").launches == ()


PROSE = """# How we serve

Inside the container I run with vllm serve and wait. Try `docker run vllm/vllm-openai` too.

- Then I used vllm serve for a week.

```text
usage: api_server.py [-h] [--host HOST]
```

```python
run("vllm serve org/other --port 1")
```
"""


def test_prose_starts_no_server() -> None:
    result = linted(("README.md", PROSE), version="0.11.2")
    assert result.servers == ()
    assert result.findings == ()
    assert any("no vLLM server" in one.reason for one in result.unknown)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("```bash\nvllm serve org/m --nonsense 1\n```\n", 2),
        ("~~~\n$ vllm serve org/m \\\n  --nonsense 1\n~~~\n", 3),
        ("    vllm serve org/m \\\n      --nonsense 1\n", 2),
        ("user@host:~/x$ vllm serve org/m --nonsense 1\n", 1),
        ("`python3 -m vllm.entrypoints.openai.api_server --model org/m --nonsense 1`\n", 1),
        ("- docker run --gpus all x/vllm \\\n  --model org/m \\\n  --nonsense 1\n", 3),
        ("```yaml\nmax-num-seqs: 4\nnonsense: 1\n```\n", 3),
        ("```ini\n[Service]\nExecStart=vllm serve org/m --nonsense 1\n```\n", 3),
    ],
)
def test_code_in_markdown_is_read(code: str, line: int) -> None:
    above = PROSE.count("\n") + 1
    [found] = of("vllm-flag-unknown", "README.md", f"{PROSE}\n{code}", "0.11.2")
    assert f"(README.md:{above + line})" in found


def test_blocks() -> None:
    text = "a\n\n```sh\nx\n```\n\n    y\n\n```\nnever closed\n"
    assert [(one.text, one.line, one.language) for one in code_blocks(text)] == [
        ("x", 4, "sh"), ("y", 7, ""), ("never closed\n", 10, ""),
    ]  # fmt: skip
    assert len(code_blocks("```\nx\n```\n" * 1000)) == 200


QUADLET = """
[Unit]
Description=a server

[Container]
Image=docker.io/vllm/vllm-openai:v0.11.2
AddDevice=nvidia.com/gpu=all
PublishPort=8000:8000
Environment=NCCL_P2P_DISABLE=0 "A=b c"
EnvironmentFile=/etc/vllm.env
ShmSize=1m
NoNewPrivileges=true
DropCapability=ALL
PodmanArgs=--privileged
Exec=--model org/m \\
  --tensor-parallel-size 2 \\
  --nonsense 1
"""


def test_quadlet() -> None:
    [launch] = read(QUADLET, "vllm.container").launches
    assert launch.model == "org/m"
    assert launch.env_files == ("/etc/vllm.env",)
    assert [(one.name, one.value) for one in launch.env] == [
        ("NCCL_P2P_DISABLE", "0"), ("A", "b c"),
    ]  # fmt: skip
    result = linted(("vllm.container", QUADLET))
    assert result.version == "0.11.2"
    ids = {one.id for one in result.findings}
    assert {"vllm-flag-unknown", "server-exposed", "container-shm", "container-privileges"} <= ids
    assert "container-gpus-missing" not in ids
    assert "(vllm.container:17)" in of("vllm-flag-unknown", "vllm.container", QUADLET)[0]


def test_a_quadlet_without_an_image_is_said() -> None:
    for text, reason in (
        ("[Service]\nRestart=always\n", "no Image="),
        ("[Container]\nImage=vllm.build\nExec=--model m\n", "was not read"),
    ):
        result = linted(("x.container", text), version="0.11.2")
        assert any(reason in one.reason for one in result.unknown)
