"""Texts in, findings out."""

from __future__ import annotations

from typing import Any

from nodeprep.lint.reading import read
from nodeprep.lint.run import Linted, lint
from nodeprep.lint.server import Node
from nodeprep.memory.catalogue import find_model
from nodeprep.model.launch import Launch, LaunchText

L40S = Node(gpu="L40S", count=4, capability=(8, 9), nvlink=False)
PAIR = Node(gpu="A100-80GB", count=2, capability=(8, 0), nvlink=True)
H100 = Node(gpu="H100", count=8, capability=(9, 0), nvlink=True)


def linted(*files: tuple[str, str], version: str | None = None, node: Node | None = None) -> Linted:
    texts = [(name, read(text, name)) for name, text in files]
    return lint(texts, shape_of=find_model, version=version, node=node)


def said(name: str, text: str, version: str | None = None, **more: Any) -> list[tuple[str, str]]:
    """(id, severity) of every finding."""
    found = linted((name, text), version=version, **more)
    return [(one.id, one.severity.value) for one in found.findings]


def of(id: str, name: str, text: str, version: str | None = None, **more: Any) -> list[str]:
    """`severity: summary` of the findings with one id."""
    return [
        f"{one.severity.value}: {one.summary}"
        for one in linted((name, text), version=version, **more).findings
        if one.id == id
    ]


def of_launch(*launches: Launch, version: str | None = None, node: Node | None = None) -> Linted:
    """What is said of servers that were read already."""
    text = LaunchText(launches=launches)
    return lint([("x.sh", text)], shape_of=find_model, version=version, node=node)


def docker(*options: str, image: str = "vllm/vllm-openai:v0.11.2", command: str = "") -> str:
    inside = command or "serve org/m --max-model-len 4096"
    return (
        "docker run --gpus all --entrypoint vllm --shm-size 8g -p 127.0.0.1:8000:8000 "
        "-e VLLM_API_KEY --security-opt no-new-privileges --cap-drop ALL "
        + " ".join((*options, image, inside))
        + "\n"
    )
