"""The argument parsers of real releases read every file that is rendered for them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nodeprep.errors import UsageError
from nodeprep.model.serving import ServingConfig
from nodeprep.serving.render import render, write
from nodeprep.serving.tune import tune
from tests.serving import cases, readback
from tests.serving.test_render import MODELS
from tests.vllm.conftest import INSTALLED, OTHERS, SCRIPTS, Parse

GOALS: list[dict[str, Any]] = [
    {}, {"goal": "latency"}, {"kv_cache_dtype": "fp8", "enforce_eager": True, "dtype": "bfloat16"},
    {"enable_prefix_caching": False, "block_size": 32},
]  # fmt: skip


def configurations(version: str) -> list[ServingConfig]:
    """Every node and model with every way to ask; what is refused is left out."""
    made = []
    for build_node in cases.NODES.values():
        node = build_node()
        tp = len(node.gpus)
        for fields in MODELS.values():
            for asked in GOALS:
                shape = cases.shape(**fields)
                plan = cases.plan(version, tp=tp, model=shape.name)
                policy = cases.policy(vllm_version=version, tensor_parallel=tp, model=shape.name,
                                      **({"kv_cache_dtype": None} | asked))  # fmt: skip
                try:
                    made.append(tune(node, cases.PASSED, plan, policy, shape, p2p_verified=True))
                except UsageError:
                    continue
    return made


def command_lines(config: ServingConfig, folder: Path) -> list[list[str]]:
    """What starts the server, as the unit and the container say it."""
    write(render(config, install_dir=str(folder)), folder)
    unit = (folder / "vllm-bare.service").read_text()
    bare = readback.unit_words(readback.unit_value(unit, "ExecStart"))[2:]
    service = readback.from_compose((folder / "compose.yaml").read_text())
    inside = [
        str(folder / "vllm.yaml") if word == "/etc/nodeprep/vllm.yaml" else word
        for word in service["command"]
    ]
    return [bare, inside]


@pytest.mark.parametrize("version", [*OTHERS, INSTALLED])
def test_the_parser_takes_every_rendered_file(
    version: str, parse: Parse, tmp_path: Path, record_property: Any
) -> None:
    configs = configurations(version)
    argvs, wanted = [], []
    for number, config in enumerate(configs):
        for argv in command_lines(config, tmp_path / str(number)):
            argvs.append(argv)
            wanted.append(config)
    refused = []
    for argv, config, answer in zip(argvs, wanted, parse(version, argvs), strict=True):
        if not answer["ok"]:
            refused.append((argv, answer["error"]))
            continue
        for name, value in differing(config, answer["values"]):
            refused.append((argv, f"{name} became {value}"))
    record_property("parsed", len(argvs))
    print(f"vLLM {version}: {len(argvs)} command lines of {len(configs)} configurations parsed")
    assert len(argvs) > 100
    assert refused == []


def differing(config: ServingConfig, values: dict[str, str]) -> list[tuple[str, str]]:
    """Options that the parser read otherwise than they were meant."""
    wrong = []
    for knob in config.options:
        got = values.get(knob.name.replace("-", "_"))
        if got not in (repr(knob.value), repr(str(knob.value))):
            wrong.append((f"{knob.name}={knob.value!r}", str(got)))
    return wrong


def test_the_dump_of_the_installed_release_is_its_row(venv: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(venv / "bin" / "python"), str(SCRIPTS / "vllm-parser.py"), "dump", "-"],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"version": INSTALLED, **json.loads(done.stdout)}))
    checked = subprocess.run(
        [str(SCRIPTS / "vllm-flags"), "check", str(dump)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
