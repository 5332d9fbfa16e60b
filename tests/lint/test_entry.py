"""How the server is started: the image's entry point, two models, another accelerator."""

from __future__ import annotations

import pytest

from nodeprep.model.launch import Container, Form, Launch
from nodeprep.serving import flags
from tests.lint.base import linted, of, of_launch

NEWEST = flags.newest()
RUN = "docker run --gpus all --shm-size 8g -p 127.0.0.1:8000:8000 "


@pytest.mark.parametrize(
    ("image", "words", "severity", "told"),
    [
        ("vllm/vllm-openai:v0.9.2", "serve org/m", "critical", "one too many"),
        ("vllm/vllm-openai:v0.20.2", "serve org/m", "critical", "one too many"),
        ("docker.io/vllm/vllm-openai:latest", "serve org/m", "critical", "one too many"),
        ("vllm/vllm-openai:gptoss", "serve org/m", "critical", "one too many"),
        ("vllm/vllm-openai:v0.20.2", "vllm serve org/m", "critical", "becomes its arguments"),
        ("vllm/vllm-openai:v0.7.2", "vllm serve org/m", "critical", "becomes its arguments"),
        ("vllm/vllm-openai:v0.8.5", "org/m --max-model-len 4096", "critical", "is refused"),
        ("vllm/vllm-openai:v0.10.2", "org/m", "critical", "default model"),
        ("vllm/vllm-openai:v0.11.0", "org/m", "critical", "default model"),
        ("vllm/vllm-openai:v0.6.1", "org/m", "critical", "is refused"),
        ("vllm/vllm-openai:gptoss", "org/m", "warning", "as a word"),
        ("vllm/vllm-openai:v0.9.2", "--model org/m", "info", "from 0.11.1 on"),
    ],
)
def test_words_behind_the_image(image: str, words: str, severity: str, told: str) -> None:
    found = of("container-entrypoint", "x.sh", f"{RUN}{image} {words}\n")
    assert [one.partition(":")[0] for one in found] == [severity]
    assert told in found[0]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("vllm/vllm-openai:v0.11.1", "org/m"), ("vllm/vllm-openai:latest", "--model org/m"),
        ("vllm/vllm-openai:v0.20.2-cu129", "org/m"), ("my/vllm:v0.9.2", "org/m"),
        ("my/vllm", "vllm serve org/m"), ("vllm/vllm-openai-rocm:v0.20.2", "vllm serve org/m"),
        ("--entrypoint vllm vllm/vllm-openai:v0.9.2", "serve org/m"),
        ("--entrypoint '' vllm/vllm-openai:v0.9.2", "vllm serve org/m"),
        ("--entrypoint python3 vllm/vllm-openai:v0.9.2",
         "-m vllm.entrypoints.openai.api_server --model org/m"),
    ],
)  # fmt: skip
def test_words_that_fit(image: str, words: str) -> None:
    assert not of("container-entrypoint", "x.sh", f"{RUN}{image} {words}\n")


@pytest.mark.parametrize(("entrypoint", "told"), [(None, True), ("", False), ("vllm", False)])
def test_an_entry_point_that_compose_takes_away(entrypoint: str | None, told: bool) -> None:
    box = Container(
        image="vllm/vllm-openai:v0.20.2", options={"gpus": ("all",)}, entrypoint=entrypoint, line=1
    )
    launch = Launch(form=Form.COMPOSE, line=1, model="org/m", entry="serve", container=box)
    ids = {one.id for one in of_launch(launch).findings}
    assert ("container-entrypoint" in ids) is told


def test_the_release_of_the_image_decides_and_not_the_one_asked_for() -> None:
    text = f"{RUN}vllm/vllm-openai:v0.9.2 org/m\n"
    assert "is refused" in of("container-entrypoint", "x.sh", text, NEWEST)[0]


@pytest.mark.parametrize(
    ("entry", "version", "words"),
    [
        ("serve", NEWEST, "a/one is refused"), ("serve", "0.11.1", "a/one is refused"),
        ("serve", "0.9.2", "a/one served"), ("module", NEWEST, "b/two is served"),
        ("module", "0.9.2", "takes no word"),
    ],
)  # fmt: skip
def test_two_models(entry: str, version: str, words: str) -> None:
    launch = Launch(
        form=Form.COMMAND, line=1, model="b/two", positional="a/one", entry=entry,
        has_model_option=True,
    )  # fmt: skip
    found = [
        one
        for one in of_launch(launch, version=version).findings
        if one.id == "vllm-options-conflict"
    ]
    assert len(found) == 1
    assert words in found[0].summary


def test_the_demonstration_server() -> None:
    launch = Launch(form=Form.COMMAND, line=1, model="org/m", entry="demo", has_model_option=True)
    [found] = [
        one
        for one in of_launch(launch, version="0.7.2").findings
        if one.id == "vllm-options-conflict"
    ]
    assert "demonstration" in found.summary


@pytest.mark.parametrize(
    "options",
    [
        "--device /dev/kfd --device /dev/dri vllm/vllm-openai-rocm:v0.20.2",
        "--device /dev/kfd --device /dev/dri my/vllm:1", "rocm/vllm:latest",
        "--device /dev/dri my/vllm-xpu:1", "vllm/vllm-openai-cpu:v0.25.1", "vllm-cpu-env:latest",
        "-e VLLM_CPU_KVCACHE_SPACE=30 my/vllm", "-e HIP_VISIBLE_DEVICES=0,1 my/vllm",
        "--runtime habana my/vllm-gaudi:1",
    ],
)  # fmt: skip
def test_containers_for_other_accelerators(options: str) -> None:
    text = f"docker run --shm-size 8g {options} --model org/m --tensor-parallel-size 2\n"
    ids = {one.id for one in linted(("x.sh", text)).findings}
    assert not ids & {"container-gpus-missing", "vllm-p2p-unverified"}


@pytest.mark.parametrize(
    "options",
    [
        "vllm/vllm-openai:v0.20.2",
        "my/vllm",
        "my/vllm-xpublic",
        "-e CUDA_VISIBLE_DEVICES=0 vllm",
    ],
)
def test_containers_for_nvidia_gpus_without_any(options: str) -> None:
    text = f"docker run --shm-size 8g {options} --model org/m --tensor-parallel-size 2\n"
    ids = {one.id for one in linted(("x.sh", text)).findings}
    assert {"container-gpus-missing", "vllm-p2p-unverified"} <= ids


def test_what_may_hold_any_option_may_hold_the_gpus() -> None:
    def box(*words: str) -> Container:
        return Container(image="vllm/vllm-openai:v0.20.2", options={}, line=1, open_words=words)

    def ids(container: Container) -> set[str]:
        launch = Launch(form=Form.CONTAINER, line=1, model="m", entry="image", container=container)
        return {one.id for one in of_launch(launch).findings}

    assert "container-gpus-missing" in ids(box())
    assert "container-gpus-missing" not in ids(box("$DOCKER_ARGS"))
