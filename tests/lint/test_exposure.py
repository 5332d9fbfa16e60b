"""Who reaches the server: addresses, ports behind which nothing listens, files alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodeprep.model.launch import Form, Given, Launch
from nodeprep.parse.launch import read_launches
from nodeprep.serving import flags
from tests.lint.base import docker, linted, of, of_launch

NEWEST = flags.newest()
LOCAL = "-p 127.0.0.1:8000:8000 "


def published(option: str, command: str = "serve org/m", **more: str) -> str:
    return docker(option, command=command, **more).replace(LOCAL, "")


@pytest.mark.parametrize(
    ("option", "command", "words"),
    [
        ("-p 8080:8080", "serve org/m", "8000 by default"),
        ("-p 127.0.0.1:80:80", "serve org/m --port 9000", "9000 by --port"),
        ("-p [::]:8001:8001/tcp", "serve org/m", "8000"),
        ("-p 9000-9005:9000-9005", "serve org/m", "8000"),
        ("-e VLLM_PORT=8080 -p 8080:8080", "serve org/m", "8000"),
        ("-p 8000:8000", "serve org/m --host 127.0.0.1", "127.0.0.1 only"),
    ],
)
def test_a_port_behind_which_nothing_listens(option: str, command: str, words: str) -> None:
    text = published(option, command)
    [found] = of("container-port-unserved", "x.sh", text, "0.11.2")
    assert found.startswith("critical")
    assert words in found
    assert not of("server-exposed", "x.sh", text, "0.11.2")


@pytest.mark.parametrize(
    ("option", "command"),
    [
        ("-p 8080:8000", "serve org/m"), ("-p 80:80 -p 8000:8000", "serve org/m"),
        ("-p 8080:8080", "serve org/m --port 8080"), ("-p 8080:$P", "serve org/m"),
        ("-p 7990-8010:7990-8010", "serve org/m"), ("-p 8080:8080", "serve org/m --port $P"),
        ("-p 8080:8080", "serve org/m --config /c.yaml"),
        ("-p 53:53/udp", "serve org/m"), ("--network host -p 8080:8080", "serve org/m"),
        ("-p 8080:8080", "serve org/m --host 0.0.0.0 --port 8080"),
    ],
)  # fmt: skip
def test_a_port_that_may_lead_to_the_server(option: str, command: str) -> None:
    assert not of("container-port-unserved", "x.sh", published(option, command), "0.11.2")


def test_what_may_hold_any_option_may_hold_the_port() -> None:
    def ids(**more: Any) -> set[str]:
        [launch] = read_launches(published("-p 8080:8080"), "x.sh").launches
        return {one.id for one in of_launch(replace(launch, **more)).findings}

    assert "container-port-unserved" in ids()
    assert "container-port-unserved" not in ids(open_words=(("$ARGS", 1),))


def test_the_port_of_another_image_is_not_known() -> None:
    text = "docker run --gpus all -p 8080:8080 my/vllm:1 --model org/m\n"
    assert not of("container-port-unserved", "x.sh", text, NEWEST)
    official = text.replace("my/vllm:1", "vllm/vllm-openai:v0.9.2")
    assert of("container-port-unserved", "x.sh", official)


def test_the_advice_fits_the_form() -> None:
    def advice(name: str, text: str) -> str:
        [found] = [one for one in linted((name, text)).findings if one.id == "server-exposed"]
        assert found.remedy is not None
        return found.cause + found.remedy.text

    plain = advice("x.sh", "vllm serve org/m --host 0.0.0.0\n")
    assert "publish" not in plain
    assert "docker" not in plain
    assert "--host 127.0.0.1" in plain
    assert "--publish 127.0.0.1:9000:9000" in advice(
        "x.sh", published("-p 9000:9000", "serve org/m --port 9000")
    )
    service = (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.11.2\n    ports: ['8000:8000']\n"
        "    command: --model org/m\n"
    )
    assert "ports: ['127.0.0.1:8000:8000']" in advice("c.yml", service)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: org/m\nhost: 0.0.0.0\n", "no key is set"),
        ("host: '::'\nmax-num-seqs: 4\n", "no key is set"),
        ("model: org/m\nhost: 0.0.0.0\napi-key: abcdefgh1\n", "sets a key"),
    ],
)
def test_a_file_alone_that_opens_every_address(text: str, words: str) -> None:
    [found] = of("server-exposed", "v.yaml", text, NEWEST)
    assert found.startswith("warning")
    assert words in found


def test_a_file_that_opens_nothing_or_that_a_command_reads() -> None:
    assert not of("server-exposed", "v.yaml", "model: org/m\n", NEWEST)
    assert not of("server-exposed", "v.yaml", "model: org/m\nhost: 10.0.0.1\n", NEWEST)
    both = linted(
        ("v.yaml", "host: 0.0.0.0\n"), ("x.sh", "vllm serve org/m --config v.yaml\n")
    ).findings
    assert len([one for one in both if one.id == "server-exposed"]) == 1


def test_a_file_that_a_script_writes_and_starts_is_told_at_the_command() -> None:
    host = Given(name="host", value="0.0.0.0", line=3)
    file = Launch(form=Form.YAML, line=3, options=(host,), written_as="/etc/vllm.yaml")
    command = Launch(form=Form.COMMAND, line=9, model="org/m", config_file="/etc/vllm.yaml")
    assert "server-exposed" in {one.id for one in of_launch(file).findings}
    found = of_launch(file, command, version=NEWEST).findings
    assert not [one for one in found if one.subject == "host: 0.0.0.0"]


def test_ports_beside_the_network_of_the_host_do_nothing() -> None:
    text = published("--network host -p 8080:8000")
    [found] = of("vllm-setting-without-effect", "x.sh", text, "0.11.2")
    assert found.startswith("warning")
    assert "--publish 8080:8000" in found


def test_the_form_of_two_servers() -> None:
    a = "vllm serve org/m --port 8000 --max-num-seqs 8 --max-model-len 4096\n"
    same = "model: org/m\nmax-num-seqs: 16\nmax-model-len: 4096\n"
    assert linted(("d/a.sh", a), ("d/b.yaml", same)).findings[-1].id
    for name, text, paired in (
        ("d/b.yaml", same, True),
        ("e/b.yaml", same, False),
        ("d/b.yaml", same + "port: 8001\n", False),
        ("d/b.yaml", same + "served-model-name: x\n", True),
        ("d/b.yaml", "model: org/m\nenforce-eager: true\ndtype: half\n", False),
    ):
        ids = {one.id for one in linted(("d/a.sh", a), (name, text)).findings}
        assert ("vllm-forms-differ" in ids) is paired
    third = linted(("d/a.sh", a), ("d/b.yaml", same), ("d/c.yaml", same))
    assert "vllm-forms-differ" not in {one.id for one in third.findings}
